// Waiting: what a future is, and how futures compose.
//
// A future has `bool poll()` (is it ready? if not, the running coroutine is woken when it may be)
// and, once that was true, `take()`. Awaiting it polls; while it isn't ready it stands in for the
// frame of the coroutine that awaits it: the scheduler resumes the future, which goes on to the
// coroutine only when it is ready. So a wake that was meant for something else never ends a wait
// (rule W7), and costs the ready path nothing.
//
// A future may be moved until it is first polled. Destroying one ends the wait and gives back what
// had been handed to it (rule N3); that is all there is to cancelling.
#pragma once

#include "scheduler.hpp"

namespace corank {

namespace detail {

// Laid out like the beginning of a frame; `destroy` is never called through it, so the caller's
// frame takes its place.
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

template <class F>
concept future_like = requires(F& f) {
  { f.poll() } -> detail::same_type<bool>;
  f.take();
};

// Lets the others of the same level run, and everything more urgent (rule W6): the coroutine goes
// to the tail of its level.
struct yield_now {
  constexpr bool await_ready() const noexcept { return false; }
  [[gnu::always_inline]] void await_suspend(std::coroutine_handle<>) const noexcept {
    executor.remember_wake();
  }
  constexpr void await_resume() const noexcept {}
};

// Ends the poll; the coroutine goes on when anybody wakes it.
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

// The first of several futures that is ready, as its place in the list; take() its value then. The
// others go on waiting until they are destroyed.
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

// Until all of several futures are ready; take() their values then.
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
