// Who waits for whom, and urgency on loan (contract I1 to I8).
//
// A `waiter` is part of a future that waits for another coroutine: for its exit, or for a lock that
// it holds. It knows the coroutine that waits (the lender) and the one waited for (the borrower):
//
// - effective level of a coroutine = the most urgent of its base level and its lenders' effective
//   levels;
// - when that changes, the waiters in which it is the lender pass the change on.
//
// Each coroutine heads one list of all waiters that it takes part in, on either side. A change
// costs the waiters of each coroutine whose level changes, and no stack, however long the chain is.
#pragma once

#include "block.hpp"

namespace corank::detail {

// The part of every promise that does not depend on the result.
struct promise_base {
  // All waiters that the coroutine takes part in.
  waiter* waiters = nullptr;
};

// Tells those who wait for a coroutine that it has exited. Set by whoever first waits in this way,
// so that a program without joins and mutexes carries none of this file's code.
using ending_of_waiters = void (*)(block* exited);
inline constinit ending_of_waiters end_waiters = nullptr;

inline promise_base& promise_of(block* block) {
  // The promise follows the frame's two pointers; every promise derives from promise_base first,
  // and has no larger alignment than they.
  return *reinterpret_cast<promise_base*>(static_cast<frame_head*>(block->frame()) + 1);
}

struct waiter {
  waiter() = default;
  // A future may be moved until it is first polled.
  waiter(waiter&&) noexcept : waiter() {}
  ~waiter() { end(); }

  // From now on `lender` waits for `borrower`.
  void wait(block* lender, block* borrower);
  // Nobody waits any more: what was lent is given back. Does nothing the second time.
  void end();
  // Lends to `borrower` instead of the one so far, which is returned. The caller refreshes the
  // levels of both.
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

// Gives a coroutine another effective level: scheduler.hpp.
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

// Recomputes one coroutine's effective level; returns whether it has changed.
inline bool recompute_level(block* of) {
  unsigned level = of->base;
  for (waiter* at = promise_of(of).waiters; at != nullptr; at = at->in(of).next)
    if (at->lender_ != of && at->lender_ != nullptr && at->lender_->level < level)
      level = at->lender_->level;
  if (level == of->level) return false;
  set_level(of, level);
  return true;
}

// The way back of `refresh_level` from a coroutine on its path. It lies where the list of waiters
// has no use for it: the first one's `previous`. So a path of any length needs no memory.
inline waiter*& way_back(block* from) {
  waiter* const first = promise_of(from).waiters;
  return first->in(from).previous;
}

// Recomputes the effective level of a coroutine and of all to whom it lends, depth first: a change
// reaches the end of each chain before the next chain begins. Constant stack.
//
// Ends when no level changes any more, so also in a ring of coroutines that wait for each other
// (rule I8). When one level became more urgent, each coroutine changes once at most; when it became
// less urgent, once for each level between the old and the new one at most. Each change costs the
// waiters of the coroutine and of those to whom it lends.
inline void refresh_level(block* changed) {
  if (!recompute_level(changed)) return;
  waiter* at = promise_of(changed).waiters;
  if (at == nullptr) return;
  // `at_root` ends the path. `again` in a way back: the level has changed once more, through a
  // ring, while the coroutine is on the path.
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
      // The loop goes on with the first of the borrower's.
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
  if (lender == borrower) borrower = nullptr;  // who waits for itself lends to nobody
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

// A coroutine has exited: it waits for nothing, and those who wait for it are woken.
inline void end_all_waiters(block* exited) {
  waiter*& first = promise_of(exited).waiters;
  while (first != nullptr) {
    waiter& ended = *first;
    if (ended.lender_ == exited) {
      ended.end();
    } else {
      // The lender's part stays: who waits for a lock goes on waiting if the guard has outlived its
      // coroutine.
      ended.take_borrower();
      if (ended.lender_ != nullptr) wake(ended.lender_);
    }
  }
}

}  // namespace corank::detail
