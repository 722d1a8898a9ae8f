// CORANK_TASKS coroutines that are resumed in turn for ever, without a scheduler.
#include <stddef.h>

#include <corank/coroutine.hpp>

#include "pin.hpp"

#if CORANK_TASKS > 0

namespace {

alignas(8) unsigned char frames[CORANK_TASKS][24];
uint32_t used;

struct resumable {
  struct promise_type {
    resumable get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
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

resumable blink() {
  for (;;) {
    toggle();
    co_await std::suspend_always{};
  }
}

std::coroutine_handle<> handles[CORANK_TASKS];

}  // namespace

int main() {
  for (auto& each : handles) each = blink().handle;
  for (;;)
    for (auto& each : handles) each.resume();
}

#else

int main() {
  for (;;) toggle();
}

#endif
