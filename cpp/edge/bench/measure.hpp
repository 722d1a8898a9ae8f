// Comparing models: in one run, in turn, each result checked.
#pragma once

#include <corank/interleave.hpp>
#include <corank/interleave/machine.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

// What is measured.
struct point {
  std::string algorithm;
  std::string type;
  std::string layout;
  // The data that a pass looks at.
  size_t bytes = 0;
  // Bytes of a leaf, elements of a row; 0: it has none.
  size_t leaf = 0;
  size_t columns = 0;
};

// One side of a comparison: a pass over all the data.
struct model {
  std::string name;
  std::function<void()> pass;
  // How many strands; 0: it has none.
  size_t width = 0;
};

struct options {
  bool quick = false;
  // Passes that are kept, after one that is not; fewer, but three at least, where all models at a
  // point take longer than so many seconds.
  int runs = 10;
  double seconds = 1.5;
  // Seconds for the whole program. A point that has not begun to print by then is left out.
  // 0: no limit.
  double budget = 0;
  std::string compiler = "unknown";
  // Only these, if any are named.
  std::vector<std::string> algorithms;
  std::vector<size_t> sizes;
  std::vector<size_t> widths;
  std::vector<std::string> types;
};
extern options chosen;

// Whether to measure an algorithm, or a type; whether any was named.
bool wanted(const std::vector<std::string>& names, const std::string& name);

// Limits a quick run: five runs at most, half a second a point, 20 seconds for the program. A point
// begins only within the 20 seconds. Its data has at most `quick_bytes`, which bounds what it does
// between two checks of the clock (filling a tree, one pass, one round of all models) to a few
// seconds. The experiment has six such programs: it ends within three minutes.
void be_quick();
constexpr size_t quick_bytes = size_t{64} << 20;

// Sizes of data, ascending: from a quarter of the first cache to eight times the last one, or what
// fits into a tenth of the machine's memory. A quick run has three, of at most `quick_bytes`.
std::vector<size_t> sizes();
// Numbers of strands.
std::vector<size_t> widths();
// Whether to measure so many coroutines that don't ask for memory: from one number to the next one
// of `widths` they differ by little.
bool without_prefetch(size_t width);

// Tests whether the budget is spent; then prints that the point is left out.
bool spent(const point& at);

// Runs each model as often, in turn, and prints a row for each time: nanoseconds of a pass.
// `result` says what came of the last pass, and wipes it. The first model is the sequential one,
// the second one `auto`; if another one's result is not the same the program ends with an error.
void compare(const point& at, const std::vector<model>& models,
             const std::function<uint64_t()>& result);

// The same order for whatever is scattered: a permutation of `count` places.
std::vector<uint32_t> scattered(size_t count);

// Puts something into a sum so that its place counts.
inline uint64_t mix(uint64_t sum, uint64_t value) {
  return (sum ^ value) * 0x9e3779b97f4a7c15 + (sum >> 29);
}

// Something that depends on each of the results and on its place. Not one product after the other,
// which would take longer than the models.
template <class Results, class Number>
uint64_t mix_all(Results& results, Number number) {
  constexpr size_t chains = 8;
  uint64_t sums[chains] = {};
  size_t at = 0;
  for (; at + chains <= results.size(); at += chains)
    for (size_t each = 0; each < chains; ++each)
      sums[each] = mix(sums[each], number(results[at + each]));
  for (; at < results.size(); ++at) sums[0] = mix(sums[0], number(results[at]));
  uint64_t sum = 0;
  for (const uint64_t each : sums) sum = mix(sum, each);
  return sum;
}

// A second thread that waits for work.
class second_thread {
 public:
  second_thread();
  ~second_thread();
  // Runs one function here and the other one there, to their ends.
  void both(const std::function<void()>& here, const std::function<void()>& there);

 private:
  struct state;
  state* state_;
};

void tree_scan();
void lookups();
void rows();

}  // namespace bench
