// Waiting: futures, and how they compose.
//
// A future has `bool poll()` and `take()`. poll() returns whether the future is ready; if not, it
// arranges a wake of the running coroutine. take() returns the output of a ready future.
//
// Awaiting a future polls it. Until it is ready, the future stands in for the frame of the awaiting
// coroutine. The scheduler resumes the future, which resumes the coroutine only when it is ready.
// So a stray wake never ends a wait (rule W7), and the ready path pays nothing for that.
//
// A future may be moved until it is first polled. Destroying one ends the wait and gives back what
// it was granted (rule N3). Cancelling needs no more than that.
#pragma once

#include "scheduler.hpp"

namespace corank {

namespace detail {

// A future in the layout of a frame's first words. `destroy` is never called through it, so that
// word stores the caller's frame.
struct stand_in {
  void (*resume)(stand_in*) = nullptr;
  void* caller = nullptr;
};

}  // namespace detail

// Makes `Self`, which has poll() and take(), awaitable.
template <class Self>
class awaitable : detail::stand_in {
 public:
  bool await_ready() { return self().poll(); }
  void await_suspend(std::coroutine_handle<> awaiting) {
    this->caller = awaiting.address();
    this->resume = [](detail::stand_in* waiting) {
      if (!static_cast<Self*>(static_cast<awaitable*>(waiting))->poll()) return;
      executor.set_leaf(waiting->caller);
      std::coroutine_handle<>::from_address(waiting->caller).resume();
    };
    executor.set_leaf(static_cast<detail::stand_in*>(this));
  }
  decltype(auto) await_resume() { return self().take(); }

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

// A type with poll() and take().
template <class F>
concept future_like = requires(F& f) {
  { f.poll() } -> detail::same_type<bool>;
  f.take();
};

// Yields to equal and more urgent coroutines: the running one goes to the tail of its level (rule
// W6).
struct yield_now {
  constexpr bool await_ready() const noexcept { return false; }
  [[gnu::always_inline]] void await_suspend(std::coroutine_handle<>) const noexcept {
    executor.remember_wake();
  }
  constexpr void await_resume() const noexcept {}
};

// Ends the poll. The coroutine continues after the next wake.
struct wait_for_wake {
  constexpr bool await_ready() const noexcept { return false; }
  constexpr void await_suspend(std::coroutine_handle<>) const noexcept {}
  constexpr void await_resume() const noexcept {}
};

namespace detail {

// Several futures by reference, polled in order.
template <class... Fs>
struct futures;
template <>
struct futures<> {
  static constexpr size_t none = ~size_t{0};
  size_t first_ready(size_t) { return none; }
  bool all_ready() { return true; }
};
template <class F, class... Rest>
struct futures<F, Rest...> {
  explicit futures(F& first, Rest&... others) : head(&first), rest(others...) {}
  size_t first_ready(size_t at) { return head->poll() ? at : rest.first_ready(at + 1); }
  bool all_ready() {
    if (head != nullptr && head->poll()) head = nullptr;  // a ready future is not polled again
    return rest.all_ready() && head == nullptr;
  }

  F* head;
  [[no_unique_address]] futures<Rest...> rest;
};

}  // namespace detail

// Waits for the first of several futures and returns its index. Then call its take(). The other
// futures wait until they are destroyed.
//
//   auto byte = input.receive();
//   auto stop = shutdown.wait();
//   if (co_await corank::any(byte, stop) == 0) use(byte.take());
template <future_like... Fs>
class any : public awaitable<any<Fs...>> {
 public:
  explicit any(Fs&... futures) : futures_(futures...) {}
  bool poll() { return (ready_ = futures_.first_ready(0)) != detail::futures<>::none; }
  [[nodiscard]] size_t take() { return ready_; }

 private:
  detail::futures<Fs...> futures_;
  size_t ready_ = 0;
};

// Waits until all of several futures are ready. Then call their take().
template <future_like... Fs>
class all : public awaitable<all<Fs...>> {
 public:
  explicit all(Fs&... futures) : futures_(futures...) {}
  bool poll() { return futures_.all_ready(); }
  void take() {}

 private:
  detail::futures<Fs...> futures_;
};

}  // namespace corank
