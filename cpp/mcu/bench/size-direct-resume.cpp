// CORANK_TASKS coroutines that are resumed in turn forever, without a scheduler.
#include "pin.hpp"
#include "resumable.hpp"

#if CORANK_TASKS > 0

namespace {

using task = resumable<24, CORANK_TASKS>;

task blink() {
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
