// Waiting: futures, and how they compose.
//
// A future has `bool poll()` and `take()`. poll() returns whether the future is ready; if not, it
// arranges a wake of the running coroutine. take() returns the output of a ready future.
//
// Awaiting a future polls it. Until it is ready, the future stands in for the frame of the awaiting
// coroutine. The scheduler resumes the future, which resumes the coroutine only when it is ready.
// So a stray wake never ends a wait (rule W7), and the ready path pays nothing for that.
//
// A future may be moved until it is first polled. One that is ready stays ready until take().
// Destroying a future ends the wait and gives back what it obtained and was not taken (rules N3,
// X9). Cancelling needs no more than that.
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

}  // namespace corank
