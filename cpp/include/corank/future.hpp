// A value that is set later, once: `promise` sets it, `future` waits for it (the thesis, section
// 3.7).
#pragma once

#include "await.hpp"

namespace corank {

template <class T, class E>
class future;

// Holds the shared state, without a heap. It must outlive its future. An error is a value:
// set_error().
template <class T = void, class E = unit>
class promise {
  using output = result<T, E>;

 public:
  constexpr promise() : none_{} {}
  promise(const promise&) = delete;
  ~promise()
    requires(detail::trivially_destroyed<output>)
  = default;
  ~promise() { reset(); }

  // Returns the future. Only one coroutine at a time may wait.
  [[nodiscard]] future<T, E> get_future() { return future<T, E>(*this); }

  // Sets the value. From any context. Returns false if there is already a value or an error.
  bool set_value(detail::value_t<T> value = {}) {
    if constexpr (detail::is_void<T>) {
      return complete(output());
    } else {
      return complete(output(detail::move(value)));
    }
  }
  // Sets the error. From any context. Returns false if there is already a value or an error.
  bool set_error(E error) { return complete(output(failure<E>{detail::move(error)})); }

  // Tests whether there is a value or an error.
  [[nodiscard]] bool is_ready() const { return detail::peek(ready_); }
  // Discards the value, so that another one can be set. No coroutine may wait.
  void reset() {
    if (ready_) output_.~output();
    ready_ = false;
  }

 private:
  friend class future<T, E>;

  bool complete(output completed) {
    critical masked;
    if (ready_) return false;
    new (&output_, detail::in_storage{}) output(detail::move(completed));
    ready_ = true;
    if (detail::block* const waiting = waiting_.find()) executor.wake_masked(waiting);
    return true;
  }

  bool ready_ = false;
  coroutine_id waiting_;
  union {
    unit none_;
    output output_;
  };
};

// Waits for a promise. Awaiting it returns a result<T, E>.
template <class T = void, class E = unit>
class future : public awaitable<future<T, E>> {
 public:
  explicit future(promise<T, E>& of) : of_(&of) {}
  future(future&& other) = default;
  ~future() {
    critical masked;
    if (polled_) of_->waiting_ = coroutine_id();
  }

  bool poll() {
    critical masked;
    if (of_->ready_) return true;
    polled_ = true;
    of_->waiting_ = executor.current();
    return false;
  }
  result<T, E> take() { return detail::move(of_->output_); }

 private:
  promise<T, E>* of_;
  bool polled_ = false;
};

}  // namespace corank
