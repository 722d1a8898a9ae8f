// Properties of the machine's memory, measured once, at the first use.
#pragma once

#include "../meta.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>

namespace corank {

// The properties of the memory: sizes in bytes, times in nanoseconds.
struct memory_profile {
  // The caches of one core, as the system reports them, or common sizes.
  size_t first_cache;
  size_t second_cache;
  size_t last_cache;
  // The time of a load from memory, without a cache.
  double latency;
  // The useful number of such loads at a time: with it, a load takes at most 1.1 times as long as
  // with any other number.
  size_t parallel;
  // The time of a load with that number.
  double interval;
};

namespace detail {

// Returns the size of the first core's data cache at a level, in bytes, as Linux reports it, or a
// common size. The C library's value is not usable: for the last cache it includes other cores, and
// on AArch64 it is 0.
inline size_t cache_size(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int found = 0;
    std::string type;
    size_t kilobytes = 0;
    std::ifstream(folder + "level") >> found;
    std::ifstream(folder + "type") >> type;
    if (found == level && type != "Instruction" && std::ifstream(folder + "size") >> kilobytes)
      return kilobytes << 10;
  }
  return level == 1 ? 32 << 10 : level == 2 ? 512 << 10 : 0;
}

// Returns the size of the second cache, read once. A short run must not begin with a measurement of
// the memory.
inline size_t second_cache() {
  static const size_t size = cache_size(2);
  return size;
}

// Returns the size of the last cache, at least that of the second.
inline size_t last_cache() {
  static const size_t size = std::max(cache_size(3), second_cache());
  return size;
}

// Returns the nanoseconds of a call, by the steady clock.
template <class Something>
double nanoseconds(Something&& something) {
  const auto begin = std::chrono::steady_clock::now();
  something();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Lines that point to each other, in one cycle in random order.
class circle {
 public:
  explicit circle(size_t bytes) : count_(bytes / sizeof(line)), lines_(new line[count_]) {
    for (uint32_t at = 0; at < count_; ++at) lines_[at].next = at;
    // Sattolo's shuffle makes a single cycle.
    uint64_t seed = 0x9e3779b97f4a7c15;
    for (size_t at = count_ - 1; at > 0; --at) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      std::swap(lines_[at].next, lines_[(seed >> 33) % at].next);
    }
  }

  // Follows `chains` parts of the cycle at a time, `steps` steps each.
  void follow(size_t chains, size_t steps) {
    uint32_t at[64];
    for (size_t each = 0; each < chains; ++each)
      at[each] = static_cast<uint32_t>((each * 7919 + shift_) * 613 % count_);
    shift_ += 64;
    for (size_t step = 0; step < steps; ++step)
      for (size_t each = 0; each < chains; ++each) at[each] = lines_[at[each]].next;
    for (size_t each = 0; each < chains; ++each) asm volatile("" ::"r"(at[each]));
  }

 private:
  struct alignas(64) line {
    uint32_t next;
  };
  size_t count_;
  std::unique_ptr<line[]> lines_;
  size_t shift_ = 0;
};

// Measures the memory. Takes about a tenth of a second, and 64 MiB or four times the last cache
// meanwhile, at most 256 MiB.
inline memory_profile measure_memory() {
  memory_profile found{};
  found.first_cache = cache_size(1);
  found.second_cache = second_cache();
  found.last_cache = last_cache();
  circle lines(std::clamp<size_t>(4 * found.last_cache, 64 << 20, 256 << 20));
  constexpr size_t widths[] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  double interval[std::size(widths)];
  for (size_t at = 0; at < std::size(widths); ++at) {
    // The best of three: disturbances only add time.
    interval[at] = 1e9;
    const size_t steps = 16384 / widths[at];
    for (int time = 0; time < 3; ++time)
      interval[at] = std::min(interval[at], nanoseconds([&] { lines.follow(widths[at], steps); }) /
                                                static_cast<double>(steps * widths[at]));
  }
  found.latency = interval[0];
  const double best = *std::min_element(std::begin(interval), std::end(interval));
  size_t at = 0;
  while (interval[at] > 1.1 * best) ++at;
  found.parallel = widths[at];
  found.interval = interval[at];
  return found;
}

}  // namespace detail

// Returns the properties, measured in the first call, from any thread.
inline const memory_profile& machine_memory() {
  static const memory_profile found = detail::measure_memory();
  return found;
}

}  // namespace corank
