// Calls, and several waits at once.
#include "test.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;
using test::log;
using test::storage;

namespace {

corank::event ring;
corank::slot<48 * sizeof(void*)> inner_slot;

corank::task<int> inner(corank::in<inner_slot>, int x) {
  test::guard end('i');
  co_await corank::yield_now{};
  co_await ring;
  co_return x * 2;
}

corank::task<int> outer(storage) {
  test::guard end('o');
  const int once = co_await inner({}, 3);
  co_return once + co_await inner({}, 4);
}

corank::task<> recursion(storage, int depth) {
  log(static_cast<char>('0' + depth));
  if (depth > 0) co_await recursion({}, depth - 1);
  log(static_cast<char>('0' + depth));
}

}  // namespace

TEST(composing, a_call_runs_as_a_part_of_its_caller) {
  ring.set();
  auto handle = spawn(priority{5}, outer({}));
  EXPECT_EQ(executor.step_once(), corank::step::ran);
  EXPECT_EQ(executor.live(), 1u);
  EXPECT_FALSE(inner_slot.is_free());
  executor.run_until_idle();
  EXPECT_LOG("iio");
  EXPECT_EQ(*handle->take(), 14);
  EXPECT_TRUE(inner_slot.is_free());
  ring.reset();
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(composing, cancelling_drops_the_calls_first) {
  auto handle = spawn(priority{5}, outer({}));
  executor.run_until_idle();
  handle->cancel();
  EXPECT_LOG("io");
  EXPECT_TRUE(inner_slot.is_free());
  ring.set();  // without a waiter
  ring.reset();
  executor.run_until_idle();
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(composing, an_unrelated_wake_ends_no_wait) {
  auto handle = spawn(priority{5}, outer({}));
  executor.run_until_idle();
  for (int times = 0; times < 3; ++times) {
    corank::wake(handle->id());
    executor.run_until_idle();
  }
  EXPECT_LOG("");
  EXPECT_EQ(executor.state(handle->id()), corank::state::blocked);
  handle->cancel();
  EXPECT_LOG("io");
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(composing, calls_nest_as_deep_as_there_is_frame_storage) {
  auto handle = spawn(priority{5}, recursion({}, 7));
  executor.run_until_idle();
  EXPECT_LOG("7654321001234567");
  handle->detach();
  EXPECT_ALL_FREE();
}

namespace {

uintptr_t lowest, highest;

corank::task<int> at_once(corank::in<inner_slot>, int x) {
  const volatile char here = 0;
  const auto at = reinterpret_cast<uintptr_t>(&here);
  if (at < lowest) lowest = at;
  if (at > highest) highest = at;
  co_return x + 1;
}

corank::task<int> calls_often(storage, int times) {
  int sum = 0;
  while (times-- > 0) sum = co_await at_once({}, sum);
  co_return sum;
}

}  // namespace

TEST(composing, calls_that_never_wait_take_no_stack) {
  lowest = UINTPTR_MAX, highest = 0;
  auto handle = spawn(priority{5}, calls_often({}, 2000));
  EXPECT_EQ(executor.step_once(), corank::step::ran);
  EXPECT_EQ(*handle->take(), 2000);
  handle->detach();
#if defined(CORANK_TARGET_TESTS)
  // Built with optimisation, unlike the host's tests. The first call may be one jump deeper.
  EXPECT_TRUE(highest - lowest <= 128);
#endif
  EXPECT_ALL_FREE();
}

namespace {

corank::task<> out_of_slot(storage) {
  auto first = inner({}, 1);
  log(first ? 'y' : 'n');
  auto second = inner({}, 2);  // the slot is taken
  log(second ? 'y' : 'n');
  auto result = co_await corank::detail::move(second).checked();
  log(result ? 'y' : 'n');
  log(result.error() == corank::spawn_error::no_storage ? 'p' : '?');
}

corank::task<> three_at_once(storage) {
  auto a = corank::as_future(inner({}, 5));
  auto b = corank::time::sleep(100);
  auto c = ring.wait();
  const size_t first = co_await corank::any(b, a, c);
  log(static_cast<char>('0' + first));
  if (first == 1) log(static_cast<char>('0' + a.take()));
}

corank::task<> with_limit(storage, corank::ticks limit) {
  auto result = co_await corank::time::timeout(limit, inner({}, 4));
  log(result ? static_cast<char>('0' + *result) : '-');
}

corank::task<> both(storage) {
  auto a = ring.wait();
  auto b = corank::time::sleep(7);
  co_await corank::all(a, b);
  log('2');
}

}  // namespace

TEST(composing, a_taken_slot_is_an_error_value) {
  auto handle = spawn(priority{5}, out_of_slot({}));
  executor.run_until_idle();
  EXPECT_LOG("ynnp");
  handle->detach();
  EXPECT_TRUE(inner_slot.is_free());
  EXPECT_ALL_FREE();
}

TEST(composing, the_first_of_several_counts_and_the_others_end) {
  auto handle = spawn(priority{5}, three_at_once({}));
  executor.run_until_idle();
  EXPECT_LOG("");
  ring.set();
  executor.run_until_idle();
  EXPECT_LOG("i1:");
  EXPECT_TRUE(handle->has_exited());
  EXPECT_EQ(corank::time::next_deadline(), corank::time::never);
  ring.reset();
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(composing, a_timeout_destroys_the_call) {
  const corank::ticks start = corank::time::now();
  auto handle = spawn(priority{5}, with_limit({}, 50));
  executor.run_until_idle();
  EXPECT_EQ(corank::time::next_deadline(), start + 50);
  corank::time::advance(start + 49);
  executor.run_until_idle();
  EXPECT_LOG("");
  corank::time::advance(start + 50);
  executor.run_until_idle();
  EXPECT_LOG("i-");
  handle->detach();
  EXPECT_TRUE(inner_slot.is_free());
  EXPECT_ALL_FREE();
}

TEST(composing, all_waits_for_the_last) {
  const corank::ticks start = corank::time::now();
  auto handle = spawn(priority{5}, both({}));
  executor.run_until_idle();
  ring.set();
  executor.run_until_idle();
  EXPECT_LOG("");
  corank::time::advance(start + 7);
  executor.run_until_idle();
  EXPECT_LOG("2");
  ring.reset();
  handle->detach();
  EXPECT_ALL_FREE();
}

namespace {
corank::generator<int> squares(storage, int n) {
  test::guard end('g');
  for (int i = 0; i < n; ++i) co_yield i* i;
}

corank::task<> ticks_three_times(storage) {
  corank::time::ticker ticker(10);
  for (int tick = 0; tick < 3; ++tick) {
    co_await ticker.tick();
    log('.');
  }
}
}  // namespace

TEST(composing, a_generator_yields_values_to_a_loop) {
  int sum = 0;
  for (int square : squares({}, 4)) sum += square;
  EXPECT_EQ(sum, 14);
  EXPECT_LOG("g");
  {
    auto unfinished = squares({}, 4);
    EXPECT_EQ(*unfinished.next(), 0);
    EXPECT_EQ(*unfinished.next(), 1);
  }
  EXPECT_LOG("g");
  auto none = squares({}, 0);
  EXPECT_EQ(none.next(), nullptr);
  EXPECT_EQ(none.next(), nullptr);
}

TEST(composing, ticker_does_not_drift) {
  EXPECT_LOG("g");
  const corank::ticks start = corank::time::now();
  auto handle = spawn(priority{5}, ticks_three_times({}));
  executor.run_until_idle();
  corank::time::advance(start + 13);
  executor.run_until_idle();
  EXPECT_EQ(corank::time::next_deadline(), start + 20);
  corank::time::advance(start + 30);  // two at once
  executor.run_until_idle();
  EXPECT_LOG("...");
  handle->detach();
  EXPECT_ALL_FREE();
}
