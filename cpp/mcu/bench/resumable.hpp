// Coroutines without a scheduler: the least that the language alone needs. Their frames are handed
// out one after the other.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <corank/coroutine.hpp>

// Room for `Count` frames of `Room` bytes.
template <size_t Room, size_t Count>
struct resumable {
  alignas(8) static inline unsigned char frames[Count][Room];
  static inline uint32_t used;

  struct promise_type {
    resumable get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
    static void* operator new(size_t) noexcept { return frames[used++]; }
    static void operator delete(void*, size_t) {}
    static resumable get_return_object_on_allocation_failure() { return {}; }
  };

  std::coroutine_handle<> handle;
};
