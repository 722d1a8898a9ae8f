// Classifies a sensor's sequence numbers: which datagrams are lost, late or duplicated.
#pragma once

#include <cstdint>

namespace gateway {

enum class arrival : uint8_t {
  // Higher than all numbers that were seen.
  in_order,
  // Overtaken by a later one, but recent enough to be accepted.
  late,
  // Seen already.
  duplicate,
  // Overtaken so long ago that it is unknown whether it was seen, or before the first number that
  // was seen.
  stale,
  // Of a session that has not begun yet by this machine's clock, or so far ahead in a session
  // without a gap that it must be wrong.
  ahead,
};

// The numbers of one session, with a memory of the last 64 (as the window against replays in RFC
// 4303, section 3.4.3). Constant time.
class sequence_window {
 public:
  static constexpr uint32_t memory = 64;
  // The greatest plausible gap between two numbers that arrive, unless nothing has arrived for a
  // while.
  static constexpr uint32_t far = 1 << 16;

  arrival see(uint32_t number) {
    if (!begun_) {
      begun_ = true;
      first_ = last_ = number;
      seen_ = 1;
      return arrival::in_order;
    }
    if (number > last_) {
      advance(number - last_);
      return arrival::in_order;
    }
    const uint32_t behind = last_ - number;
    if (number < first_ || behind >= memory) return arrival::stale;
    const uint64_t bit = uint64_t{1} << behind;
    if (seen_ & bit) return arrival::duplicate;
    seen_ |= bit;
    return arrival::late;
  }

  // Tests whether a number is higher than all that were seen.
  [[nodiscard]] bool is_next(uint32_t number) const { return !begun_ || number > last_; }

  [[nodiscard]] bool is_far(uint32_t number) const {
    return begun_ && number > last_ && number - last_ > far;
  }

  // Returns how many numbers between the first and the last were not seen and are not accepted any
  // more.
  [[nodiscard]] uint64_t lost() const { return lost_; }

  // Returns how many of the last 64 numbers have not been seen yet.
  [[nodiscard]] uint32_t missing() const {
    if (!begun_) return 0;
    const uint64_t known = last_ - first_ >= memory - 1 ? memory : uint64_t{last_ - first_} + 1;
    return static_cast<uint32_t>(known) - static_cast<uint32_t>(__builtin_popcountll(seen_));
  }

 private:
  // Increases the last number by `by`. A number that leaves the memory unseen is lost.
  void advance(uint32_t by) {
    const uint32_t missing_before = missing();
    last_ += by;
    seen_ = by < memory ? seen_ << by | 1 : 1;
    // All numbers in between are either remembered as missing, or lost.
    lost_ += missing_before + (by - 1) - missing();
  }

  bool begun_ = false;
  uint32_t first_ = 0;
  uint32_t last_ = 0;
  // Bit i is set if last - i was seen.
  uint64_t seen_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace gateway
