// Waiters, and priority inheritance (contract I1 to I8).
//
// A `waiter` is part of a future that waits for another coroutine: for its exit, or for a lock that
// it holds. It links the waiting coroutine (the lender) and the awaited one (the borrower):
//
// - effective level of a coroutine = the most urgent of its base level and its lenders' effective
//   levels;
// - a change of a lender's level is passed on to its borrowers.
//
// Each coroutine heads one list of all its waiters, on either side. A change costs one pass over
// the waiters of each coroutine whose level changes. It needs no stack, for a chain of any length.
#pragma once

#include "block.hpp"

namespace corank::detail {

// The part of every promise that does not depend on the result.
struct promise_base {
  // All waiters of the coroutine, on either side.
  waiter* waiters = nullptr;
};

// Wakes the waiters of a coroutine that has exited. The first wait sets it, so a program without
// joins and mutexes has none of this file's code.
using ending_of_waiters = void (*)(block* exited);
inline constinit ending_of_waiters end_waiters = nullptr;

inline promise_base& promise_of(block* block) {
  // The promise follows the frame's two pointers. Every promise derives from promise_base first,
  // and its alignment is not larger than theirs.
  return *reinterpret_cast<promise_base*>(static_cast<frame_head*>(block->frame()) + 1);
}

struct waiter {
  waiter() = default;
  // A future may be moved until it is first polled.
  waiter(waiter&&) noexcept : waiter() {}
  ~waiter() { end(); }

  // Starts a wait of `lender` for `borrower`.
  void wait(block* lender, block* borrower);
  // Ends the wait and the inheritance. A second call has no effect.
  void end();
  // Donates to `borrower` instead of the former borrower, and returns the former one. The caller
  // refreshes the levels of both.
  block* donate_to(block* borrower);

  block* lender() const { return lender_; }

 private:
  struct links {
    waiter* previous = nullptr;
    waiter* next = nullptr;
  };

  links& in(block* of) { return lender_ == of ? as_lender_ : as_borrower_; }
  void link(block* to);
  void unlink(block* from);
  block* take_borrower();

  block* lender_ = nullptr;
  block* borrower_ = nullptr;
  links as_lender_;
  links as_borrower_;

  friend bool recompute_level(block* of);
  friend waiter*& way_back(block* from);
  friend void refresh_level(block* changed);
  friend void end_all_waiters(block* exited);
};

// Sets the effective level of a coroutine; defined in scheduler.hpp.
void set_level(block* changed, unsigned level);
void wake(block* woken);

inline void waiter::link(block* to) {
  waiter*& first = promise_of(to).waiters;
  in(to) = links{nullptr, first};
  if (first != nullptr) first->in(to).previous = this;
  first = this;
}

inline void waiter::unlink(block* from) {
  const links old = exchange(in(from), links{});
  (old.previous != nullptr ? old.previous->in(from).next : promise_of(from).waiters) = old.next;
  if (old.next != nullptr) old.next->in(from).previous = old.previous;
}

inline block* waiter::take_borrower() {
  block* const old = borrower_;
  if (old != nullptr) {
    unlink(old);
    borrower_ = nullptr;
  }
  return old;
}

// Recomputes one coroutine's effective level. Returns whether it has changed.
inline bool recompute_level(block* of) {
  unsigned level = of->base;
  for (waiter* at = promise_of(of).waiters; at != nullptr; at = at->in(of).next)
    if (at->lender_ != of && at->lender_ != nullptr && at->lender_->level < level)
      level = at->lender_->level;
  if (level == of->level) return false;
  set_level(of, level);
  return true;
}

// Returns the link by which `refresh_level` goes back from a coroutine on its path. It is the first
// waiter's `previous`, which the list does not use. So a path of any length needs no memory.
inline waiter*& way_back(block* from) {
  waiter* const first = promise_of(from).waiters;
  return first->in(from).previous;
}

// Recomputes the effective level of a coroutine and of all its borrowers, depth first. A change
// reaches the end of one chain before the next chain begins. Constant stack.
//
// It ends when no level changes, also in a cycle of coroutines that wait for each other (rule I8).
// After a rise, each coroutine changes at most once. After a fall, each changes at most once for
// each level between the old and the new one. Each change costs one pass over the waiters of the
// coroutine and of its borrowers.
inline void refresh_level(block* changed) {
  if (!recompute_level(changed)) return;
  waiter* at = promise_of(changed).waiters;
  if (at == nullptr) return;
  // `at_root` ends the path. `again` in a way back records that the level has changed once more,
  // through a cycle, while the coroutine is on the path.
  static_assert(alignof(waiter) > 3);
  constexpr uintptr_t again = 1, at_root = 2;
  const auto set_way_back = [](block* from, uintptr_t to) {
    way_back(from) = reinterpret_cast<waiter*>(to);
  };
  set_way_back(changed, at_root);
  for (;;) {
    for (; at != nullptr; at = at->in(changed).next) {
      if (at->lender_ != changed || at->borrower_ == nullptr || !recompute_level(at->borrower_))
        continue;
      block* const borrower = at->borrower_;
      const auto known = reinterpret_cast<uintptr_t>(way_back(borrower));
      if (known != 0) {
        set_way_back(borrower, known | again);
        continue;
      }
      way_back(borrower) = at;
      changed = borrower;
      // The loop continues with the first waiter of the borrower.
      at = promise_of(changed).waiters;
      break;
    }
    if (at != nullptr) continue;
    const auto back = reinterpret_cast<uintptr_t>(way_back(changed));
    if ((back & again) != 0) {
      set_way_back(changed, back & ~again);
      at = promise_of(changed).waiters;
      continue;
    }
    way_back(changed) = nullptr;
    if (back == at_root) return;
    at = reinterpret_cast<waiter*>(back);
    changed = at->lender_;
    at = at->in(changed).next;
  }
}

inline void end_all_waiters(block* exited);

inline void waiter::wait(block* lender, block* borrower) {
  end_waiters = end_all_waiters;
  if (lender == borrower) borrower = nullptr;  // a coroutine that waits for itself donates nothing
  if (lender_ == lender && borrower_ == borrower) return;
  end();
  lender_ = lender;
  borrower_ = borrower;
  link(lender);
  if (borrower == nullptr) return;
  link(borrower);
  if (lender->level < borrower->level) refresh_level(borrower);
}

inline void waiter::end() {
  block* const borrower = take_borrower();
  if (lender_ != nullptr) {
    unlink(lender_);
    lender_ = nullptr;
  }
  if (borrower != nullptr) refresh_level(borrower);
}

inline block* waiter::donate_to(block* borrower) {
  block* const old = take_borrower();
  if (lender_ != nullptr && borrower != nullptr && lender_ != borrower) {
    borrower_ = borrower;
    link(borrower);
  }
  return old;
}

// Ends the waits of an exited coroutine, and wakes the coroutines that wait for it.
inline void end_all_waiters(block* exited) {
  waiter*& first = promise_of(exited).waiters;
  while (first != nullptr) {
    waiter& ended = *first;
    if (ended.lender_ == exited) {
      ended.end();
    } else {
      // The lender's side stays: its wait for a lock goes on if the guard has outlived the
      // coroutine.
      ended.take_borrower();
      if (ended.lender_ != nullptr) wake(ended.lender_);
    }
  }
}

}  // namespace corank::detail
