// The names of namespace std that the compiler needs for coroutines.
//
// This header includes <coroutine> if the target has it. clang for bare-metal Arm has none, unless
// another standard library is in its path. For that case this file declares the few names that
// [support.coroutine] requires. Both compilers lay a frame out in the same way: two function
// pointers (resume, destroy), then the promise.
#pragma once

#if __has_include(<coroutine>) && !defined(CORANK_OWN_COROUTINE)
#include <coroutine>
#else

namespace std {

template <class Result, class... Arguments>
struct coroutine_traits {
  using promise_type = typename Result::promise_type;
};

template <class Promise = void>
struct coroutine_handle;

template <>
struct coroutine_handle<void> {
  constexpr coroutine_handle() noexcept = default;
  constexpr coroutine_handle(decltype(nullptr)) noexcept {}
  constexpr void* address() const noexcept { return frame_; }
  static constexpr coroutine_handle from_address(void* frame) noexcept {
    coroutine_handle handle;
    handle.frame_ = frame;
    return handle;
  }
  constexpr explicit operator bool() const noexcept { return frame_ != nullptr; }
  void operator()() const { resume(); }
  void resume() const { __builtin_coro_resume(frame_); }
  void destroy() const { __builtin_coro_destroy(frame_); }
  bool done() const noexcept { return __builtin_coro_done(frame_); }

 private:
  void* frame_ = nullptr;
};

template <class Promise>
struct coroutine_handle {
  constexpr coroutine_handle() noexcept = default;
  constexpr coroutine_handle(decltype(nullptr)) noexcept {}
  static coroutine_handle from_promise(Promise& promise) noexcept {
    return from_address(__builtin_coro_promise(&promise, alignof(Promise), true));
  }
  static constexpr coroutine_handle from_address(void* frame) noexcept {
    coroutine_handle handle;
    handle.frame_ = frame;
    return handle;
  }
  constexpr void* address() const noexcept { return frame_; }
  constexpr operator coroutine_handle<>() const noexcept {
    return coroutine_handle<>::from_address(frame_);
  }
  constexpr explicit operator bool() const noexcept { return frame_ != nullptr; }
  void resume() const { __builtin_coro_resume(frame_); }
  void destroy() const { __builtin_coro_destroy(frame_); }
  bool done() const noexcept { return __builtin_coro_done(frame_); }
  Promise& promise() const {
    return *static_cast<Promise*>(__builtin_coro_promise(frame_, alignof(Promise), false));
  }

 private:
  void* frame_ = nullptr;
};

struct suspend_always {
  constexpr bool await_ready() const noexcept { return false; }
  constexpr void await_suspend(coroutine_handle<>) const noexcept {}
  constexpr void await_resume() const noexcept {}
};

struct suspend_never {
  constexpr bool await_ready() const noexcept { return true; }
  constexpr void await_suspend(coroutine_handle<>) const noexcept {}
  constexpr void await_resume() const noexcept {}
};

}  // namespace std

#endif
