// The ready coroutines: one ring for each level, and one bit for each ring that is not empty
// (contract P3, O1 to O6).
//
// A ring is doubly linked, so that a coroutine leaves any position in constant time. Its head
// became ready first.
#pragma once

#include "block.hpp"
#include "port.hpp"

namespace corank::detail {

class rings {
 public:
  // Records of the present poll, one byte each. One store sets a record, so an interrupt handler
  // cannot come between. One comparison of all bytes detects the common end of a poll.
  union note {
    struct {
      uint8_t woken;    // by itself or by a handler (rule W3)
      uint8_t ends;     // a scheduler::ending
      uint8_t changed;  // the next pick may be from another level
      uint8_t unused;
    } each;
    uint32_t all;
  };
  note notes{.all = 0};

  // The level of no ring.
  static constexpr unsigned none = levels_count;

  // Returns the most urgent level with a ring, or `none`. Level 0 is the highest bit of its word,
  // which saves one instruction on Arm.
  [[gnu::always_inline]] unsigned most_urgent() const {
    unsigned first = 0;
    uint32_t word = peek(words_[0]);
    if (word == 0) {
      first = 32;
      word = peek(words_[1]);
      if (word == 0) return none;
    }
    return first + static_cast<unsigned>(__builtin_clz(word));
  }

  // Returns the first level with a ring at or after `from`, wrapping around; `none` without rings.
  unsigned first_from(unsigned from) const {
    const uint64_t bits = this->bits().bits();
    if (bits == 0) return none;
    const uint64_t after = bits >> from << from;
    return static_cast<unsigned>(__builtin_ctzll(after != 0 ? after : bits));
  }

  [[nodiscard]] levels bits() const {
    uint64_t bits = 0;
    for (unsigned level = 0; level < levels_count; ++level)
      if (has(level)) bits |= uint64_t{1} << level;
    return levels(bits);
  }

  bool has(unsigned level) const { return (peek(words_[level / 32]) & bit(level)) != 0; }
  bool is_alone(unsigned level) const { return heads_[level]->next == heads_[level]; }

  // Returns the address of the pointer to a ring's head.
  [[gnu::always_inline]] block** head_link(unsigned level) { return &heads_[level]; }

  // Stores `*next` as the head in `link`, and returns it. If `*next` is the head's successor, the
  // head goes to the tail; if it is the head, nothing changes. This is one store, so an interrupt
  // handler may add to the ring at any moment. It adds before or behind the old head and never at
  // the head, because the ring is not empty.
  [[gnu::always_inline]] static block* turn(block** link, block* const* next) {
    block* const head = peek(*next);
    poke(*link, head);
    return head;
  }

  // Adds a block at the tail of its level's ring (rule O3). Masked.
  [[gnu::noinline]] void push(block* added) {
    const unsigned level = added->level;
    block* head = heads_[level];
    const uint32_t word = words_[level / 32];
    if ((word & bit(level)) == 0) {
      head = added->previous = added;
      poke(heads_[level], head);
      poke(words_[level / 32], word | bit(level));
      poke(notes.each.changed, uint8_t{1});
    }
    block* const tail = head->previous;
    added->next = head;
    added->previous = tail;
    poke(tail->next, added);
    head->previous = added;
  }

  // Removes a block from any position of its level's ring. Masked.
  [[gnu::noinline]] void remove(block* removed) {
    const unsigned level = removed->level;
    block* const next = removed->next;
    if (next == removed) {
      poke(words_[level / 32], words_[level / 32] & ~bit(level));
      return;
    }
    block* const previous = removed->previous;
    poke(previous->next, next);
    next->previous = previous;
    if (heads_[level] == removed) poke(heads_[level], next);
  }

 private:
  static constexpr uint32_t bit(unsigned level) { return uint32_t{0x8000'0000} >> level % 32; }

  uint32_t words_[2]{};

  // Last, with the notes first: shorter instructions reach members near the beginning.
  block* heads_[levels_count]{};
};

}  // namespace corank::detail
