// What the machine's memory is like: measured once, when first asked for.
#pragma once

#include "../meta.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>

namespace corank {

// Sizes in bytes, times in nanoseconds.
struct memory_profile {
  // The caches that one core sees, as the system says; the common ones where it does not.
  size_t first_cache;
  size_t second_cache;
  size_t last_cache;
  // From asking for a line to having it, where it is in no cache.
  double latency;
  // How many such loads at a time are worth while: with as many, a load takes at most 1.1 times
  // what it takes with any other number.
  size_t parallel;
  // What a load takes then.
  double interval;
};

namespace detail {

// The data cache at this level of the first core, in bytes, as Linux has it from the machine; a
// common size where it does not know. The C library's answer is no use: for the last cache it
// counts what other cores have, and on AArch64 it is 0.
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

// The second cache, asked for once: a short run must not begin with measuring the memory.
inline size_t second_cache() {
  static const size_t size = cache_size(2);
  return size;
}

// As the second one. No smaller than that.
inline size_t last_cache() {
  static const size_t size = std::max(cache_size(3), second_cache());
  return size;
}

// Nanoseconds of something, by the steady clock.
template <class Something>
double nanoseconds(Something&& something) {
  const auto begin = std::chrono::steady_clock::now();
  something();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Lines that name each other, in one circle without order.
class circle {
 public:
  explicit circle(size_t bytes) : count_(bytes / sizeof(line)), lines_(new line[count_]) {
    for (uint32_t at = 0; at < count_; ++at) lines_[at].next = at;
    // Sattolo's shuffle: one circle through all.
    uint64_t seed = 0x9e3779b97f4a7c15;
    for (size_t at = count_ - 1; at > 0; --at) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      std::swap(lines_[at].next, lines_[(seed >> 33) % at].next);
    }
  }

  // Follows `chains` parts of the circle at a time, `steps` steps each.
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

// Takes about a tenth of a second, and 64 MiB or four times the last cache for that time, but never
// more than 256 MiB.
inline memory_profile measure_memory() {
  memory_profile found{};
  found.first_cache = cache_size(1);
  found.second_cache = second_cache();
  found.last_cache = last_cache();
  circle lines(std::clamp<size_t>(4 * found.last_cache, 64 << 20, 256 << 20));
  constexpr size_t widths[] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  double interval[std::size(widths)];
  for (size_t at = 0; at < std::size(widths); ++at) {
    // The best of three: what disturbs makes slower.
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

// Measured in the first call, from whichever thread.
inline const memory_profile& machine_memory() {
  static const memory_profile found = detail::measure_memory();
  return found;
}

}  // namespace corank
