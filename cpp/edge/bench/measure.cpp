#include "measure.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <random>
#include <thread>

#include <unistd.h>

namespace bench {

options chosen;

namespace {
constexpr int least_runs = 3;
const auto program_begin = std::chrono::steady_clock::now();

bool over() {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - program_begin;
  return chosen.budget > 0 && passed.count() > chosen.budget;
}
}  // namespace

void be_quick() {
  chosen.quick = true;
  chosen.runs = 5;
  chosen.seconds = 0.5;
  chosen.budget = 20;
}

bool spent(const point& at) {
  if (!over()) return false;
  std::printf("left out: %s %s %s %zu bytes, leaf %zu\n", at.algorithm.c_str(), at.type.c_str(),
              at.layout.c_str(), at.bytes, at.leaf);
  return true;
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<size_t> sizes() {
  if (!chosen.sizes.empty()) return chosen.sizes;
  const corank::memory_profile& memory = corank::machine_memory();
  const size_t first = memory.first_cache, second = memory.second_cache, last = memory.last_cache;
  std::vector<size_t> all = chosen.quick
                                ? std::vector<size_t>{first / 4, second / 2, 8 * last}
                                : std::vector<size_t>{first / 4, first, second / 2, 4 * second,
                                                      last / 2,  last,  2 * last,   8 * last};
  size_t most = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
                static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 10;
  if (chosen.quick) most = std::min(most, quick_bytes);
  for (size_t& each : all) each = std::min(each, most);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<size_t> widths() {
  if (!chosen.widths.empty()) return chosen.widths;
  return chosen.quick ? std::vector<size_t>{8, 32} : std::vector<size_t>{2, 4, 8, 16, 32};
}

bool without_prefetch(size_t width) {
  return !chosen.widths.empty() || (width != 4 && width != 16);
}

namespace {

void print(const point& at, const model& of, double value, int run) {
  std::printf(
      R"(@row {"experiment":"edge","model":"%s","metric":"time","unit":"ns","value":%.1f,"run":%d,"algorithm":"%s","type":"%s","layout":"%s","bytes":%zu,"compiler":"%s")",
      of.name.c_str(), value, run, at.algorithm.c_str(), at.type.c_str(), at.layout.c_str(),
      at.bytes, chosen.compiler.c_str());
  if (at.leaf != 0) std::printf(R"(,"leaf":%zu)", at.leaf);
  if (at.columns != 0) std::printf(R"(,"columns":%zu)", at.columns);
  if (of.width != 0) std::printf(R"(,"width":%zu)", of.width);
  std::printf("}\n");
}

// Returns the time of `passes` passes on the processor, which excludes the time of other programs.
// (The thesis counts the process's cycles, section 4.3.3.1.) For two threads, it returns the
// elapsed time.
double nanoseconds(const model& of, size_t passes) {
  const clockid_t clock = of.name == "threads-2" ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
  const auto now = [&] {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  for (size_t pass = 0; pass < passes; ++pass) of.pass();
  return now() - begin;
}

}  // namespace

void compare(const point& at, const std::vector<model>& models,
             const std::function<uint64_t()>& result) {
  // A pass over little data is repeated, so that the clock's own time does not count.
  constexpr double shortest = 1e6;
  models[0].pass();
  const uint64_t expected = result();
  if (spent(at)) return;
  const double once = nanoseconds(models[0], 1);
  const auto repeated = static_cast<size_t>(std::clamp(shortest / once, 1.0, 1e5));
  // The time of one run of all models.
  double round = 0;
  for (const model& each : models) {
    round += static_cast<double>(repeated) * nanoseconds(each, 1);
    if (result() != expected) {
      std::fprintf(stderr, "%s %s %s %zu: the result of `%s` (%zu) is wrong\n",
                   at.algorithm.c_str(), at.type.c_str(), at.layout.c_str(), at.bytes,
                   each.name.c_str(), each.width);
      std::exit(1);
    }
    if (spent(at)) return;
  }
  const int runs = std::clamp(static_cast<int>(chosen.seconds * 1e9 / round),
                              std::min(least_runs, chosen.runs), chosen.runs);
  for (int run = 0; run < runs && (run == 0 || !over()); ++run)
    for (const model& each : models) {
      const double time = nanoseconds(each, repeated);
      print(at, each, time / static_cast<double>(repeated), run);
    }
  // The first two models are the sequential code and the automatic width, which differ by little
  // where they should. They are compared more often, in alternating order.
  const model pair[] = {models[0], models[1]};
  const double both =
      static_cast<double>(repeated) * (nanoseconds(pair[0], 1) + nanoseconds(pair[1], 1));
  const int more =
      over() ? 0 : std::min(3 * chosen.runs, static_cast<int>(chosen.seconds * 1e8 / both));
  for (int run = 0; run < more; ++run)
    for (const int first : {0, 1}) {
      const model& each = pair[first ^ (run & 1)];
      print(at, each, nanoseconds(each, repeated) / static_cast<double>(repeated), runs + run);
    }
}

std::vector<uint32_t> scattered(size_t count) {
  std::vector<uint32_t> places(count);
  std::iota(places.begin(), places.end(), 0u);
  std::shuffle(places.begin(), places.end(), std::mt19937(1));
  return places;
}

struct second_thread::state {
  std::atomic<int> turn = 0;
  const std::function<void()>* work = nullptr;
  std::thread thread;
};

// Turn 0: no work. Turn 1: work to do. Turn 2: the end.
second_thread::second_thread() : state_(new state) {
  state_->thread = std::thread([at = state_] {
    for (;;) {
      at->turn.wait(0);
      if (at->turn == 2) return;
      (*at->work)();
      at->turn = 0;
      at->turn.notify_one();
    }
  });
}

second_thread::~second_thread() {
  state_->turn = 2;
  state_->turn.notify_one();
  state_->thread.join();
  delete state_;
}

void second_thread::both(const std::function<void()>& here, const std::function<void()>& there) {
  state_->work = &there;
  state_->turn = 1;
  state_->turn.notify_one();
  here();
  state_->turn.wait(1);
}

}  // namespace bench
