// The experiment `edge`: the interleaver's algorithms in every execution model. Prints one line for
// each run: see print() in measure.cpp.
#include "measure.hpp"

#include <cstdio>
#include <cstring>
#include <sstream>

namespace {

std::vector<std::string> words(const char* list) {
  std::vector<std::string> found;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) found.push_back(word);
  return found;
}

std::vector<size_t> numbers(const char* list) {
  std::vector<size_t> found;
  for (const std::string& word : words(list)) found.push_back(std::stoull(word));
  return found;
}

int usage() {
  std::fprintf(stderr,
               "edge-bench [--quick] [--runs N] [--seconds N] [--budget N] [--compiler NAME] "
               "[--algorithms A,…] [--types T,…] [--bytes N,…] [--widths N,…]\n"
               "algorithms: btree-scan, btree-lookup, hash-lookup, svm, norm, cnn; types: i16, "
               "i32, f32, f64\n");
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  using bench::chosen;
  for (int at = 1; at < count; ++at) {
    const std::string name = arguments[at];
    if (name == "--quick") {
      bench::be_quick();
      continue;
    }
    if (at + 1 == count) return usage();
    const char* const value = arguments[++at];
    try {
      if (name == "--runs")
        chosen.runs = std::stoi(value);
      else if (name == "--seconds")
        chosen.seconds = std::stod(value);
      else if (name == "--budget")
        chosen.budget = std::stod(value);
      else if (name == "--compiler")
        chosen.compiler = value;
      else if (name == "--algorithms")
        chosen.algorithms = words(value);
      else if (name == "--types")
        chosen.types = words(value);
      else if (name == "--bytes")
        chosen.sizes = numbers(value);
      else if (name == "--widths")
        chosen.widths = numbers(value);
      else
        return usage();
    } catch (const std::exception&) {
      return usage();
    }
  }
  const corank::memory_profile& memory = corank::machine_memory();
  std::printf(
      "memory: caches %zu, %zu, %zu bytes; latency %.1f ns; %zu misses at a time, then one each "
      "%.2f ns\n",
      memory.first_cache, memory.second_cache, memory.last_cache, memory.latency, memory.parallel,
      memory.interval);
  const size_t largest = 8 * memory.last_cache;
  if (chosen.quick && chosen.sizes.empty() && largest > bench::quick_bytes)
    std::printf("left out: the largest size, %zu bytes\n", largest);
  bench::tree_scan();
  bench::lookups();
  bench::rows();
}
