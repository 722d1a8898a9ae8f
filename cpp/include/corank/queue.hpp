// The waiters of a primitive, in order of arrival (contract N1 to N4).
#pragma once

#include "await.hpp"

namespace corank::detail {

//        push          take_most_urgent, take_first
// out ─────────► queued ────────────────────────────► granted
//  ▲  │             │ remove: the future is destroyed   ▲  │
//  │  └─────────────┼─────────────── it need not wait ──┘  │
//  └────────────────┴──────────────────────────────────────┘ the future takes it, or gives it back
//
// So a future that is destroyed between poll() and take() gives back what it obtained. `used` is
// the state of a future that has used its grant in poll(): it is ready, and has nothing to give.
enum class entry_state : uint8_t { out, queued, granted, used };

// The entry of one waiter; part of a future.
struct entry {
  entry() = default;
  // A future may be moved until it is first polled.
  entry(entry&&) noexcept : entry() {}

  // Takes what was granted: nothing goes back any more when the future is destroyed.
  void take() { state = entry_state::out; }

  block* coroutine = nullptr;
  entry* next = nullptr;
  entry* previous = nullptr;
  entry_state state = entry_state::out;
};

// A list of entries. Call every function masked if interrupt handlers may use the primitive.
class queue {
 public:
  bool empty() const { return first_ == nullptr; }
  entry* first() const { return first_; }

  void push(entry& added) {
    added.coroutine = executor.running_block();
    added.state = entry_state::queued;
    added.next = nullptr;
    added.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &added;
    last_ = &added;
  }

  // Removes an entry from any position.
  void remove(entry& removed) {
    (removed.previous != nullptr ? removed.previous->next : first_) = removed.next;
    (removed.next != nullptr ? removed.next->previous : last_) = removed.previous;
    removed.state = entry_state::out;
  }

  // Removes and returns the entry with the most urgent level, the first among equals (rule N1).
  // Returns null if the queue is empty. O(entries).
  entry* take_most_urgent() {
    entry* best = first_;
    for (entry* at = first_; at != nullptr; at = at->next)
      if (at->coroutine->level < best->coroutine->level) best = at;
    if (best != nullptr) remove(*best);
    return best;
  }

  // Removes and returns the oldest entry, or null.
  entry* take_first() {
    entry* const first = first_;
    if (first != nullptr) remove(*first);
    return first;
  }

  // Grants an entry that was taken, and wakes its coroutine.
  static void grant(entry& granted) {
    granted.state = entry_state::granted;
    executor.wake_masked(granted.coroutine);
  }

 private:
  entry* first_ = nullptr;
  entry* last_ = nullptr;
};

// A number of permits, granted to waiters directly (rules N2, N5, N6). While a permit is free, the
// queue is empty. For any context.
class permits {
 public:
  constexpr explicit permits(uint32_t count) : free_(count) {}

  // Tests whether a permit has been granted, and grants a free one. Otherwise the running coroutine
  // waits. The permit belongs to the entry until its future takes it (`entry::take`).
  bool poll(entry& mine) {
    critical masked;
    if (mine.state == entry_state::out) {
      if (free_ == 0) {
        waiting_.push(mine);
      } else {
        --free_;
        mine.state = entry_state::granted;
      }
    }
    return mine.state == entry_state::granted;
  }

  bool try_take() {
    critical masked;
    if (free_ == 0) return false;
    --free_;
    return true;
  }

  void give() {
    critical masked;
    give_masked();
  }

  // Removes a future that is destroyed, and passes on a grant that was not taken (rule N3).
  void leave(entry& mine) {
    critical masked;
    if (mine.state == entry_state::queued) waiting_.remove(mine);
    if (mine.state == entry_state::granted) give_masked();
  }

  // Also in a loop, while interrupt handlers give permits.
  uint32_t free() const { return peek(free_); }

 private:
  void give_masked() {
    if (entry* const next = waiting_.take_most_urgent()) {
      queue::grant(*next);
    } else {
      ++free_;
    }
  }

  uint32_t free_;
  queue waiting_;
};

}  // namespace corank::detail
