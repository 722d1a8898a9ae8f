// An operation in two phases: a coroutine starts it, and an interrupt handler completes it (the
// thesis, section 3.2.3).
#pragma once

#include "await.hpp"

namespace corank {

// Identifies an operation of a split_phase_event. Numbers repeat after 256 operations.
class operation_number {
 public:
  constexpr operation_number() = default;
  constexpr explicit operation_number(uint8_t value) : value_(value) {}
  // Returns the number as the driver can store it beside its request.
  [[nodiscard]] constexpr uint8_t value() const { return value_; }
  friend constexpr bool operator==(operation_number, operation_number) = default;

 private:
  uint8_t value_ = 0;
};

// An operation of a device. One coroutine at a time waits for it.
//
//   corank::split_phase_event<uint16_t> converted;
//
//   uint16_t volts = co_await converted.after([] { adc.start(); });   // coroutine
//   converted.complete(adc.data());                                   // interrupt handler
//
// A completion without a waiter is dropped. After a timeout, however, the device may still complete
// the old operation when the next one has begun. There are two ways to exclude that:
//
//   converted.after([] { adc.start(); }, [] { adc.stop(); })
//       stops the device when the wait is dropped
//   converted.after([](corank::operation_number number) { queue.push(request{number}); })
//   converted.complete(request.number, data)
//       a completion that names its operation never completes another one
template <class T = void>
class split_phase_event {
  using value = detail::value_t<T>;
  enum class stage : uint8_t { idle, started, complete };
  struct nothing {
    void operator()() const {}
  };

 public:
  constexpr split_phase_event() = default;
  split_phase_event(const split_phase_event&) = delete;

  template <class Start, class Abort>
  class operation : public awaitable<operation<Start, Abort>> {
   public:
    operation(split_phase_event& of, Start start, Abort abort)
        : of_(&of), start_(detail::move(start)), abort_(detail::move(abort)) {}
    operation(operation&& other) = default;
    ~operation() {
      critical masked;
      if (!started_) return;
      if constexpr (!detail::same<Abort, nothing>)
        if (of_->stage_ == stage::started) abort_();
      of_->stage_ = stage::idle;
    }

    bool poll() {
      if (!started_) {
        // The start comes before any completion by the device.
        [[maybe_unused]] const operation_number number = of_->begin();
        started_ = true;
        if constexpr (requires { start_(number); }) {
          start_(number);
        } else {
          start_();
        }
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
    [[no_unique_address]] Abort abort_;
    bool started_ = false;
  };

  // Returns a future that calls `start` in its first poll and is ready when the operation is
  // complete. `start` may take the operation's number.
  template <class Start>
  [[nodiscard]] operation<Start, nothing> after(Start start) {
    return operation<Start, nothing>(*this, detail::move(start), {});
  }
  // Calls `abort` as well, if the future is destroyed before the operation is complete. It runs
  // with interrupts masked: after it, the device must not complete the operation any more. It calls
  // nothing of the library.
  template <class Start, class Abort>
  [[nodiscard]] operation<Start, Abort> after(Start start, Abort abort) {
    return operation<Start, Abort>(*this, detail::move(start), detail::move(abort));
  }

  // Completes the operation. From any context. Returns false if it has no waiter.
  bool complete(value result = {}) {
    critical masked;
    return complete_masked(detail::move(result));
  }
  // Completes operation `number`. From any context. Returns false if it has no waiter any more,
  // also if another operation has one.
  bool complete(operation_number number, value result = {}) {
    critical masked;
    return number == number_ && complete_masked(detail::move(result));
  }

  // Tests whether a coroutine waits for a completion.
  [[nodiscard]] bool is_started() const {
    critical masked;
    return stage_ == stage::started;
  }

 private:
  operation_number begin() {
    critical masked;
    if (stage_ != stage::idle)
      port::fatal("corank: two coroutines wait for one split_phase_event: use a mutex around it");
    waiting_ = executor.current();
    stage_ = stage::started;
    return number_ = operation_number(static_cast<uint8_t>(number_.value() + 1));
  }

  [[gnu::always_inline]] bool complete_masked(value&& result) {
    if (stage_ != stage::started) return false;
    value_ = detail::move(result);
    stage_ = stage::complete;
    if (detail::block* const waiting = waiting_.find()) executor.wake_masked(waiting);
    return true;
  }

  stage stage_ = stage::idle;
  operation_number number_;
  [[no_unique_address]] value value_{};
  coroutine_id waiting_;
};

}  // namespace corank
