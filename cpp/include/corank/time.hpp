// Sleeping, and time limits (contract T1 to T8).
//
// Time is a number of ticks that never decreases. The caller of advance() defines the length of a
// tick. A sleeping future contains its timer: a sleep needs no other memory, for any number of
// coroutines. Setting a timer is O(timers that are due before it), with interrupts masked; firing
// one is O(1).
//
// The handler of the clock's interrupt calls advance(), and executor.run() does the rest:
//
//   extern "C" void systick_handler() { corank::time::advance(corank::time::now() + 1); }
//
// Without a tick, a hardware timer interrupts at the next deadline alone. `arm` sets it, and the
// handler sets it again:
//
//   void arm(corank::ticks deadline);  // if it has passed, the interrupt comes at once
//   corank::time::on_earlier_deadline(arm);
//   extern "C" void timer_handler() {
//     corank::time::advance(counter());
//     arm(corank::time::next_deadline());
//   }
#pragma once

#include "await.hpp"

namespace corank {

// A time or a duration.
using ticks = uint64_t;

namespace detail {

struct timer {
  timer() = default;
  timer(timer&&) noexcept : timer() {}

  ticks deadline = 0;
  block* coroutine = nullptr;
  timer* next = nullptr;
  timer** link = nullptr;  // the pointer to this timer; null while it is not set
  bool fired = false;
};

class timers {
 public:
  ticks now() const {
    critical masked;
    return now_;
  }

  // Sets the time, and wakes each coroutine whose deadline is reached, in order of deadline and
  // then of creation (rules T2, T3, T6).
  unsigned advance(ticks now) {
    unsigned fired = 0;
    // Each timer is fired masked by itself, so a handler that advances delays others by O(1).
    while (fire_one(now)) ++fired;
    return fired;
  }

  // Sets a timer, unless its deadline has been reached. Masked.
  void set(timer& added) {
    timer** at = &first_;
    while (*at != nullptr && (*at)->deadline <= added.deadline) at = &(*at)->next;
    added.next = *at;
    added.link = at;
    if (added.next != nullptr) added.next->link = &added.next;
    *at = &added;
    if (at == &first_ && arm_ != nullptr) arm_(added.deadline);
  }

  // Removes a timer that is set. Masked.
  void remove(timer& removed) {
    *removed.link = removed.next;
    if (removed.next != nullptr) removed.next->link = removed.link;
    removed.link = nullptr;
  }

  // Sets a function that is called when the next deadline becomes an earlier one.
  void on_earlier(void (*arm)(ticks deadline)) { arm_ = arm; }

  ticks next_deadline() const {
    critical masked;
    return first_ == nullptr ? ~ticks{0} : first_->deadline;
  }

  // Starts a wait of the running coroutine. Returns true if its deadline has been reached. Masked.
  bool poll(timer& mine, ticks& time, bool& from_now) {
    if (mine.fired) return true;
    if (mine.link != nullptr) return false;
    // A sleep of a very long duration has no deadline.
    if (from_now && __builtin_add_overflow(time, now_, &time)) time = ~ticks{0};
    from_now = false;
    if (time <= now_) return true;
    mine.deadline = time;
    mine.coroutine = executor.running_block();
    set(mine);
    return false;
  }

 private:
  bool fire_one(ticks now) {
    critical masked;
    if (now > now_) now_ = now;
    timer* const due = first_;
    if (due == nullptr || due->deadline > now_) return false;
    remove(*due);
    due->fired = true;
    executor.wake_masked(due->coroutine);
    return true;
  }

  ticks now_ = 0;
  timer* first_ = nullptr;
  void (*arm_)(ticks) = nullptr;
};

inline constinit timers clockwork;

}  // namespace detail

namespace time {

// Sets the time to `now`, fires the timers that are due, and returns their number. From any
// context, interrupt handlers included. The time never goes back: an earlier `now` counts as the
// present time.
inline unsigned advance(ticks now) { return detail::clockwork.advance(now); }
// Returns the time of the latest advance().
[[nodiscard]] inline ticks now() { return detail::clockwork.now(); }
// Returns the deadline of the next timer, or `never` if there is none.
inline constexpr ticks never = ~ticks{0};
[[nodiscard]] inline ticks next_deadline() { return detail::clockwork.next_deadline(); }
// Sets `arm`, which is called when a sleep has become the earliest. A platform sets its hardware
// timer there. It runs in thread mode with interrupts masked, and calls nothing of the library.
inline void on_earlier_deadline(void (*arm)(ticks deadline)) { detail::clockwork.on_earlier(arm); }

// A wait for a time.
class sleep_future : public awaitable<sleep_future> {
 public:
  sleep_future(ticks time, bool from_now) : time_(time), from_now_(from_now) {}
  sleep_future(sleep_future&&) = default;
  ~sleep_future() {
    critical masked;
    if (timer_.link != nullptr) detail::clockwork.remove(timer_);
  }

  bool poll() {
    critical masked;
    return detail::clockwork.poll(timer_, time_, from_now_);
  }
  void take() {}

 private:
  ticks time_;
  bool from_now_;
  detail::timer timer_;
};

// Waits until `deadline`. Returns at once if it has been reached.
[[nodiscard]] inline sleep_future sleep_until(ticks deadline) {
  return sleep_future(deadline, false);
}
// Waits for `duration`, which runs from the first poll.
[[nodiscard]] inline sleep_future sleep(ticks duration) { return sleep_future(duration, true); }

// The error of a timeout.
struct elapsed {};

// Limits a future to `duration`, which runs from the first poll. Destroying this destroys the
// future. If both end between two polls, the output counts.
template <class F>
class timeout_future : public awaitable<timeout_future<F>> {
  using output = decltype(detail::instance<F>().take());

 public:
  timeout_future(ticks duration, F future)
      : future_(detail::move(future)), sleep_(duration, true) {}
  bool poll() {
    in_time_ = future_.poll();
    return in_time_ || sleep_.poll();
  }
  result<output, elapsed> take() {
    if (!in_time_) return failure{elapsed{}};
    if constexpr (detail::is_void<output>) {
      future_.take();
      return {};
    } else {
      return future_.take();
    }
  }

 private:
  F future_;
  sleep_future sleep_;
  bool in_time_ = false;
};

// Limits a future or a call to `duration`, which runs from the first poll.
template <class F>
[[nodiscard]] auto timeout(ticks duration, F future) {
  using wrapped = decltype(as_future(detail::move(future)));
  return timeout_future<wrapped>(duration, as_future(detail::move(future)));
}

// A periodic tick without drift: each tick is due one period after the due time of the one before.
class ticker {
 public:
  // Makes a ticker with a period, which must not be 0.
  explicit ticker(ticks period) : period_(period) {
    if (period == 0) port::fatal("corank: a ticker's period is not zero");
  }

  // Waits for the next tick. The first is due one period after the first call. Missed ticks follow
  // one by one, at once.
  [[nodiscard]] sleep_future tick() {
    due_ = (due_ == 0 ? now() : due_) + period_;
    return sleep_until(due_);
  }

 private:
  ticks period_;
  ticks due_ = 0;
};

}  // namespace time
}  // namespace corank
