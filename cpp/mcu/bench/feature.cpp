// One feature of the library, added to the smallest program with a coroutine. The cost of the
// feature is the difference to the firmware without it.
#include <corank/corank.hpp>

namespace {

corank::slot<384> slot;
[[maybe_unused]] corank::slot<384> other_slot;

#define CORANK_FEATURE_none 1
#define CORANK_FEATURE_call 2
#define CORANK_FEATURE_join 3
#define CORANK_FEATURE_cancel 4
#define CORANK_FEATURE_reprioritize 5
#define CORANK_FEATURE_sleep 6
#define CORANK_FEATURE_timeout 7
#define CORANK_FEATURE_mutex 8
#define CORANK_FEATURE_semaphore 9
#define CORANK_FEATURE_event 10
#define CORANK_FEATURE_channel 11
#define CORANK_FEATURE_keys 12
#define CORANK_FEATURE_future 13
#define CORANK_FEATURE_split_phase_event 14
#define CORANK_FEATURE_any 15
#define CORANK_FEATURE_generator 16
#define CORANK_IS_OF(feature) (CORANK_FEATURE_##feature)
#define CORANK_IS(feature) CORANK_IS_OF(feature)
#define CORANK_CHOSEN CORANK_IS(CORANK_FEATURE)

[[maybe_unused]] volatile int sink;

#if CORANK_CHOSEN == 2 || CORANK_CHOSEN == 3
corank::task<int> other(corank::in<other_slot>) {
  co_await corank::yield_now{};
  co_return 1;
}
#elif CORANK_CHOSEN == 8
corank::mutex<int> lock{1};
#elif CORANK_CHOSEN == 9
corank::semaphore permits{1};
#elif CORANK_CHOSEN == 7 || CORANK_CHOSEN == 10 || CORANK_CHOSEN == 15
corank::event button;
[[maybe_unused]] corank::event alarm_event;
#elif CORANK_CHOSEN == 11
corank::channel<int, 4> numbers;
#elif CORANK_CHOSEN == 12
corank::keys<4> numbers;
#elif CORANK_CHOSEN == 13
corank::promise<int> promised;
#elif CORANK_CHOSEN == 14
corank::split_phase_event<int> operation;
#elif CORANK_CHOSEN == 16
corank::generator<int> counts(corank::in<other_slot>, int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
#endif

corank::task<> program(corank::in<slot>) {
  co_await corank::yield_now{};
#if CORANK_CHOSEN == 2
  sink = co_await other({});
#elif CORANK_CHOSEN == 3
  if (auto handle = spawn(corank::priority{3}, other({}))) {
    auto result = co_await *handle;
    sink = result ? *result : 0;
  }
#elif CORANK_CHOSEN == 4
  corank::cancel(corank::current());
#elif CORANK_CHOSEN == 5
  corank::reprioritize(corank::current(), corank::priority{3});
#elif CORANK_CHOSEN == 6
  co_await corank::time::sleep(5);
  corank::time::advance(9);
#elif CORANK_CHOSEN == 7
  sink = (co_await corank::time::timeout(5, button.wait())).has_value();
  corank::time::advance(9);
#elif CORANK_CHOSEN == 8
  auto guard = co_await lock.lock();
  sink = *guard;
#elif CORANK_CHOSEN == 9
  auto permit = co_await permits.acquire();
#elif CORANK_CHOSEN == 10
  co_await button;
  button.set();
#elif CORANK_CHOSEN == 11
  co_await numbers.send(3);
  sink = co_await numbers.receive();
#elif CORANK_CHOSEN == 12
  sink = numbers.signal(3).has_value();
  sink = (co_await numbers.wait(3)).has_value();
#elif CORANK_CHOSEN == 13
  promised.set_value(4);
  sink = *co_await promised.get_future();
#elif CORANK_CHOSEN == 14
  sink = co_await operation.after([] { operation.complete(1); });
#elif CORANK_CHOSEN == 15
  auto one = button.wait(), two = alarm_event.wait();
  sink = static_cast<int>(co_await corank::any(one, two));
#elif CORANK_CHOSEN == 16
  for (int each : counts({}, 3)) sink = each;
#endif
}

}  // namespace

int main() {
  (void)spawn(corank::priority::standard, program({}));
  corank::executor.run_until_idle();
}
