// CORANK_TASKS coroutines that switch forever; with 0, the same firmware without a coroutine. Each
// round has CORANK_CALLS calls of another coroutine.
#include <corank/task.hpp>

#include "pin.hpp"

#if CORANK_TASKS > 0

namespace {

corank::pool<CORANK_CALLS == 0 ? 24 : CORANK_CALLS == 1 ? 32 : 48, CORANK_TASKS> frames;

#if CORANK_CALLS > 0
corank::slot<24> call_slot;

corank::task<> call(corank::in<call_slot>) {
  toggle();
  co_await corank::yield_now{};
}
#endif

corank::task<> blink(corank::in<frames>) {
  for (;;) {
    toggle();
    co_await corank::yield_now{};
#if CORANK_CALLS > 0
    co_await call({});
#endif
#if CORANK_CALLS > 1
    co_await call({});
    co_await call({});
    co_await call({});
    co_await call({});
#endif
  }
}

}  // namespace

int main() {
  for (int each = 0; each < CORANK_TASKS; ++each)
    (void)spawn(corank::priority::standard, blink({}));
  corank::executor.run_until_idle();
}

#else

int main() {
  for (;;) toggle();
}

#endif
