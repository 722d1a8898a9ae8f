// Priorities, and sets of levels (contract P1 to P3).
#pragma once

#include "result.hpp"

namespace corank {

// The number of levels.
inline constexpr unsigned levels_count = 64;

// The error of a level above 63.
struct priority_out_of_range {};

// A priority: a level from 0, the most urgent, to 63.
class priority {
 public:
  // Makes a priority from a constant. A level above 63 does not compile.
  consteval priority(unsigned level) : level_(static_cast<uint8_t>(level)) {
    if (level >= levels_count) a_priority_is_a_level_from_0_to_63();
  }

  // Makes a priority from a computed level, or returns the error if it is above 63.
  static constexpr result<priority, priority_out_of_range> from(unsigned level) {
    if (level >= levels_count) return failure{priority_out_of_range{}};
    return priority(static_cast<uint8_t>(level), known{});
  }

  // Level 0.
  static const priority most_urgent;
  // Level 63.
  static const priority least_urgent;
  // The default level, 32 (rule P2).
  static const priority standard;

  // Returns the level.
  [[nodiscard]] constexpr unsigned level() const { return level_; }
  // Tests whether the level is strictly lower than the other one.
  [[nodiscard]] constexpr bool is_more_urgent_than(priority other) const {
    return level_ < other.level_;
  }
  friend constexpr bool operator==(priority, priority) = default;

 private:
  struct known {};
  constexpr priority(uint8_t level, known) : level_(level) {}
  static void a_priority_is_a_level_from_0_to_63();

  uint8_t level_;
};

inline constexpr priority priority::most_urgent{0};
inline constexpr priority priority::least_urgent{63};
inline constexpr priority priority::standard{32};

// A set of levels: bit i is level i (rule P3).
class levels {
 public:
  constexpr levels() = default;
  constexpr explicit levels(uint64_t bits) : bits_(bits) {}

  // Returns the set as bits.
  [[nodiscard]] constexpr uint64_t bits() const { return bits_; }
  // Tests whether the set is empty.
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  // Tests whether the level is in the set.
  [[nodiscard]] constexpr bool contains(unsigned level) const { return (bits_ >> level & 1) != 0; }
  // Returns the most urgent level in the set, which must not be empty.
  [[nodiscard]] constexpr unsigned most_urgent() const {
    return static_cast<unsigned>(__builtin_ctzll(bits_));
  }
  friend constexpr bool operator==(levels, levels) = default;

 private:
  uint64_t bits_ = 0;
};

}  // namespace corank
