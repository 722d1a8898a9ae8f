// Time limits at the end of the range of time, and `constinit` primitives.
#include "test.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;
using test::log;
using test::storage;

namespace {

// Each may be a static object without code that runs before main().
constinit corank::mutex<int> lock{3};
constinit corank::semaphore permits{1};
constinit corank::event rung;
constinit corank::channel<test::guard, 2> guards;
constinit corank::channel<uint32_t, 3> numbers;
constinit corank::keys<2> keys;
constinit corank::promise<uint32_t> promised;
constinit corank::split_phase_event<uint32_t> operation;
constinit corank::slot<24 * sizeof(void*)> slot;
constinit corank::pool<24 * sizeof(void*), 2> pool;

corank::task<> without_limit(storage, corank::ticks limit) {
  auto result = co_await corank::time::timeout(limit, rung.wait());
  log(result ? 'r' : '-');
}

}  // namespace

TEST(clock, a_limit_without_end_never_elapses) {
  // Any time but 0, so that the sum would overflow.
  const corank::ticks start = corank::time::now() + 1;
  corank::time::advance(start);
  const corank::ticks limits[] = {corank::time::never, corank::time::never - 1};
  for (const corank::ticks limit : limits) {
    auto handle = spawn(priority{5}, without_limit({}, limit));
    executor.run_until_idle();
    EXPECT_LOG("");
    corank::time::advance(start + 1'000'000);
    executor.run_until_idle();
    EXPECT_LOG("");
    rung.set();
    executor.run_until_idle();
    EXPECT_LOG("r");
    rung.reset();
    handle->detach();
  }
  EXPECT_ALL_FREE();
}

TEST(clock, constant_initialised_primitives_work) {
  EXPECT_TRUE(numbers.try_send(5));
  EXPECT_EQ(*numbers.try_receive(), 5u);
  EXPECT_TRUE(guards.try_send(test::guard('g')));
  EXPECT_TRUE(guards.try_receive().has_value());
  EXPECT_LOG("g");
  EXPECT_TRUE(lock.try_lock().has_value());
  EXPECT_EQ(permits.available(), 1u);
  EXPECT_TRUE(keys.signal(1).has_value());
  EXPECT_TRUE(promised.set_value(4));
  EXPECT_FALSE(operation.complete(1));
  EXPECT_TRUE(slot.is_free());
  EXPECT_EQ(pool.free(), 2u);
}

namespace {

corank::task<> sleeps(storage) {
  co_await corank::time::sleep(10);
  log('s');
}

}  // namespace

// A loop with work of its own: a handler stores the time, and the loop advances it.
TEST(clock, a_sleep_is_left_out_if_the_loop_has_work) {
  static corank::ticks stored;
  stored = corank::time::now() + 10;
  auto handle = spawn(priority{5}, sleeps({}));
  executor.run_until_idle();
  int checks = 0;
  // Without the check this would sleep forever: the "handler" has come already.
  executor.sleep_unless([&] {
    ++checks;
    return stored != 0;
  });
  EXPECT_EQ(checks, 1);
  EXPECT_EQ(corank::time::advance(stored), 1u);
  executor.sleep_unless([] { return false; });  // a coroutine is ready
  executor.run_until_idle();
  EXPECT_LOG("s");
  handle->detach();
  EXPECT_ALL_FREE();
}
