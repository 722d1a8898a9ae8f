// Policies that select a level (contract B1 to B6), and views of other schedulers (G1 to G6).
#pragma once

#include "rings.hpp"

namespace corank {

// Picks the most urgent level, always (rule B1).
struct strict {
  unsigned pick(const detail::rings& rings) { return rings.most_urgent(); }
};

// Reserves every k-th pick for the levels in turn, so that no level starves (rules B2 to B6). A
// ready coroutine with q others ahead of it at its level is picked after at most k * 64 * (q + 1)
// picks.
class bounded {
 public:
  // Reserves one pick in `every`, which must not be 0.
  explicit bounded(uint32_t every) : every_(every) {
    if (every == 0) port::fatal("corank: bounded(0): the share is at least 1");
  }

  unsigned pick(const detail::rings& rings) {
    if (++count_ < every_) return rings.most_urgent();
    count_ = 0;
    const unsigned level = rings.first_from(cursor_);
    cursor_ = static_cast<uint8_t>((level + 1) % levels_count);
    return level;
  }

 private:
  uint32_t every_;
  uint32_t count_ = 0;
  uint8_t cursor_ = 0;
};

// Ignores all other schedulers (rule G2).
struct relaxed {
  unsigned most_urgent_elsewhere() const { return levels_count; }
};

}  // namespace corank
