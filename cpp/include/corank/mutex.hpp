// A lock whose holder inherits the priority of its waiters (contract M1 to M8, I1 to I8).
#pragma once

#include "queue.hpp"
#include "waiter.hpp"

namespace corank {

// Gives one coroutine at a time access to a value. The lock may be held across an await. For
// coroutines and thread mode only: an interrupt handler cannot wait. O(1) without waiters;
// unlocking is O(waiting).
template <class T = unit>
class mutex;

namespace detail {

// The entry of one waiter of a lock.
struct lock_entry : entry {
  waiter donation;
};

class lock_root {
 public:
  bool poll(lock_entry& mine) {
    if (mine.state == entry_state::granted) {
      // The future's poller may have changed since the lock was granted to it.
      if (executor.running_block() != find_holder())
        move_donations(nullptr, executor.running_block());
      return true;
    }
    if (mine.state == entry_state::out) {
      if (try_lock()) {
        mine.state = entry_state::granted;
        return true;
      }
      waiting_.push(mine);
    }
    mine.donation.wait(executor.running_block(), find_holder());
    return false;
  }

  bool try_lock() {
    if (locked_) return false;
    locked_ = true;
    holder_ = executor.current();
    return true;
  }

  // Passes the lock to the most urgent waiter (rules M3 to M5), or unlocks it.
  void unlock() {
    entry* const next = waiting_.take_most_urgent();
    if (next == nullptr) {
      locked_ = false;
      holder_ = coroutine_id();
      return;
    }
    block* const old = static_cast<lock_entry*>(next)->donation.donate_to(nullptr);
    next->state = entry_state::granted;
    move_donations(old, next->coroutine);
    wake(next->coroutine);
  }

  // Removes the entry of a future that is destroyed, and unlocks what it has not taken (rule M7).
  void leave(lock_entry& mine) {
    if (mine.state == entry_state::queued) waiting_.remove(mine);
    if (mine.state == entry_state::granted) {
      mine.state = entry_state::out;
      unlock();
    }
  }

  bool is_locked() const { return locked_; }

 private:
  block* find_holder() const { return holder_.find(); }

  // Makes `holder` the borrower of all waiters, instead of `old`.
  void move_donations(block* old, block* holder) {
    holder_ = holder == nullptr ? coroutine_id() : coroutine_id(holder);
    for (entry* at = waiting_.first(); at != nullptr; at = at->next)
      if (block* const former = static_cast<lock_entry*>(at)->donation.donate_to(holder))
        old = former;
    // One refresh covers all waiters, and the more urgent level goes first.
    if (holder != nullptr) refresh_level(holder);
    if (old != nullptr) refresh_level(old);
  }

  bool locked_ = false;
  coroutine_id holder_;
  queue waiting_;
};

}  // namespace detail

template <class T>
class mutex {
 public:
  constexpr mutex() = default;
  constexpr explicit mutex(T value) : value_(detail::move(value)) {}
  mutex(const mutex&) = delete;

  // Holds the lock and gives access to the value. Destroying it unlocks.
  class [[nodiscard("a guard that is destroyed at once locks nothing")]] guard {
   public:
    explicit guard(mutex* of) : of_(of) {}
    guard(guard&& other) noexcept : of_(detail::exchange<mutex*>(other.of_, nullptr)) {}
    guard& operator=(guard&& other) noexcept {
      if (this != &other) {
        unlock();
        of_ = detail::exchange<mutex*>(other.of_, nullptr);
      }
      return *this;
    }
    ~guard() { unlock(); }
    // Unlocks early.
    void unlock() {
      if (of_ != nullptr) detail::exchange<mutex*>(of_, nullptr)->root_.unlock();
    }
    T& operator*() const { return of_->value_; }
    T* operator->() const { return &of_->value_; }

   private:
    mutex* of_;
  };

  // A wait for the lock. Its output is a guard.
  class lock_future : public awaitable<lock_future> {
   public:
    explicit lock_future(mutex& of) : of_(&of) {}
    lock_future(lock_future&&) = default;
    ~lock_future() {
      mine_.donation.end();
      of_->root_.leave(mine_);
    }
    bool poll() { return of_->root_.poll(mine_); }
    guard take() {
      mine_.donation.end();
      mine_.take();
      return guard(of_);
    }

   private:
    mutex* of_;
    detail::lock_entry mine_;
  };

  // Waits for the lock. The output is a guard.
  [[nodiscard]] lock_future lock() { return lock_future(*this); }
  // Locks if the lock is free. Returns the error otherwise.
  [[nodiscard]] result<guard, unit> try_lock() {
    if (!root_.try_lock()) return failure{unit{}};
    return guard(this);
  }
  // Tests whether the mutex is locked.
  [[nodiscard]] bool is_locked() const { return root_.is_locked(); }

 private:
  detail::lock_root root_;
  [[no_unique_address]] T value_{};
};

}  // namespace corank
