// Compares models: in one run, in turn, with a check of each result.
#pragma once

#include <corank/interleave.hpp>
#include <corank/interleave/machine.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

// The subject of one measurement.
struct point {
  std::string algorithm;
  std::string type;
  std::string layout;
  // The bytes of data that a pass reads.
  size_t bytes = 0;
  // The bytes of a leaf and the elements of a row; 0 if there is none.
  size_t leaf = 0;
  size_t columns = 0;
};

// One side of a comparison: a pass over all the data.
struct model {
  std::string name;
  std::function<void()> pass;
  // The number of strands; 0 if the model has none.
  size_t width = 0;
};

struct options {
  bool quick = false;
  // The number of passes that are kept, after one that is not. It is lower, but at least three, if
  // all models at a point take longer than `seconds`.
  int runs = 10;
  double seconds = 1.5;
  // The seconds for the whole program; 0 for no limit. A point that has not begun to print by then
  // is left out.
  double budget = 0;
  std::string compiler = "unknown";
  // If any are named, only these are measured.
  std::vector<std::string> algorithms;
  std::vector<size_t> sizes;
  std::vector<size_t> widths;
  std::vector<std::string> types;
};
extern options chosen;

// Tests whether to measure an algorithm or a type: it is named, or no name is given.
bool wanted(const std::vector<std::string>& names, const std::string& name);

// Limits a quick run: five runs at most, half a second a point, 20 seconds for the program. A point
// begins only within the 20 seconds. Its data has at most `quick_bytes`. That bounds the work
// between two checks of the clock (filling a tree, one pass, one round of all models) to a few
// seconds. The experiment has six such programs, so it ends within three minutes.
void be_quick();
constexpr size_t quick_bytes = size_t{64} << 20;

// Returns sizes of data, ascending. They reach from a quarter of the first cache to eight times the
// last one, or to a tenth of the machine's memory. A quick run has three, of at most `quick_bytes`.
std::vector<size_t> sizes();
// Returns numbers of strands.
std::vector<size_t> widths();
// Tests whether to measure this number of coroutines without prefetching. From one number of
// `widths` to the next, the times differ by little.
bool without_prefetch(size_t width);

// Tests whether the budget is spent; then prints that the point is left out.
bool spent(const point& at);

// Runs the models in turn, and prints a row for each time, in nanoseconds of a pass. `result`
// returns a number that depends on the last pass's results, and wipes them. The first model is the
// sequential one, and the second one is `auto`. If the result of another model is not the same, the
// program ends with an error.
void compare(const point& at, const std::vector<model>& models,
             const std::function<uint64_t()>& result);

// Returns a permutation of `count` places, the same for everything that is scattered.
std::vector<uint32_t> scattered(size_t count);

// Mixes a value into a sum so that its position counts.
inline uint64_t mix(uint64_t sum, uint64_t value) {
  return (sum ^ value) * 0x9e3779b97f4a7c15 + (sum >> 29);
}

// Returns a number that depends on each result and on its position. It uses several chains: one
// product after the other would take longer than the models.
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

// A second thread, which waits for work.
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
