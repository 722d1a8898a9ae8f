// An operation in two phases: a coroutine starts it, and an interrupt handler completes it (the
// thesis, section 3.2.3).
#pragma once

#include "await.hpp"

namespace corank {

// An operation of a device. One coroutine at a time waits for it.
//
//   corank::split_phase_event<uint16_t> converted;
//
//   uint16_t volts = co_await converted.after([] { adc.start(); });   // coroutine
//   converted.complete(adc.data());                                   // interrupt handler
//
// A completion without a waiter is dropped: a timeout, for example, has cancelled the operation.
template <class T = void>
class split_phase_event {
  using value = detail::value_t<T>;
  enum class stage : uint8_t { idle, started, complete };

 public:
  constexpr split_phase_event() = default;
  split_phase_event(const split_phase_event&) = delete;

  template <class Start>
  class operation : public awaitable<operation<Start>> {
   public:
    operation(split_phase_event& of, Start start) : of_(&of), start_(detail::move(start)) {}
    operation(operation&& other) = default;
    ~operation() {
      critical masked;
      if (started_) of_->stage_ = stage::idle;
    }

    bool poll() {
      if (!started_) {
        // The start comes before any completion by the device.
        of_->begin();
        started_ = true;
        start_();
      }
      critical masked;
      return of_->stage_ == stage::complete;
    }
    T take() {
      if constexpr (!detail::is_void<T>) return detail::move(of_->value_);
    }

   private:
    split_phase_event* of_;
    [[no_unique_address]] Start start_;
    bool started_ = false;
  };

  // Returns a future that calls `start` in its first poll and is ready when the operation is
  // complete.
  template <class Start>
  [[nodiscard]] operation<Start> after(Start start) {
    return operation<Start>(*this, detail::move(start));
  }

  // Completes the operation. From any context. Returns false if it has no waiter.
  bool complete(value result = {}) {
    critical masked;
    if (stage_ != stage::started) return false;
    value_ = detail::move(result);
    stage_ = stage::complete;
    if (detail::block* const waiting = waiting_.find()) executor.wake_masked(waiting);
    return true;
  }

  // Tests whether a coroutine waits for a completion.
  [[nodiscard]] bool is_started() const {
    critical masked;
    return stage_ == stage::started;
  }

 private:
  void begin() {
    critical masked;
    if (stage_ != stage::idle)
      port::fatal("corank: two coroutines wait for one split_phase_event: use a mutex around it");
    waiting_ = executor.current();
    stage_ = stage::started;
  }

  stage stage_ = stage::idle;
  [[no_unique_address]] value value_{};
  coroutine_id waiting_;
};

}  // namespace corank
