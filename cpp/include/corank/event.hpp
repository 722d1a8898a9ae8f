// An event that stays set until it is reset (contract N7, N8).
#pragma once

#include "queue.hpp"

namespace corank {

// A flag that coroutines wait for. An interrupt handler may call set() and reset(). set() is
// O(waiting).
class event {
 public:
  constexpr event() = default;

  // A wait for the event.
  class wait_future : public awaitable<wait_future> {
   public:
    explicit wait_future(event& of) : of_(&of) {}
    wait_future(wait_future&&) = default;
    ~wait_future() {
      critical masked;
      if (entry_.state == detail::entry_state::queued) of_->waiting_.remove(entry_);
    }
    bool poll() {
      critical masked;
      // A waiter from before set() is ready, even if the event has been reset since.
      if (entry_.state == detail::entry_state::out) {
        if (of_->set_) {
          entry_.state = detail::entry_state::granted;
        } else {
          of_->waiting_.push(entry_);
        }
      }
      return entry_.state == detail::entry_state::granted;
    }
    void take() { entry_.take(); }

   private:
    event* of_;
    detail::entry entry_;
  };

  // Waits until the event is set.
  [[nodiscard]] wait_future wait() { return wait_future(*this); }
  wait_future operator co_await() { return wait(); }

  // Sets the event and makes all its waiters ready.
  void set() {
    critical masked;
    detail::poke(set_, true);
    while (detail::entry* const next = waiting_.take_first()) detail::queue::grant(*next);
  }
  // Resets the event.
  void reset() { detail::poke(set_, false); }
  // Tests whether the event is set.
  [[nodiscard]] bool is_set() const { return detail::peek(set_); }

 private:
  bool set_ = false;
  detail::queue waiting_;
};

}  // namespace corank
