// Order, wakes, levels and cancelling: cases that the traces do not cover, and the shortest form of
// those that they do.
#include "test.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;
using test::log;
using test::storage;

namespace {

corank::task<> twice(storage, char name) {
  log(name);
  co_await corank::yield_now{};
  log(name);
}

corank::task<> waits(storage, char name) {
  test::guard end('~');
  for (;;) {
    log(name);
    co_await corank::wait_for_wake{};
  }
}

}  // namespace

TEST(scheduling, urgent_first_and_fair_among_equals) {
  spawn(priority{5}, twice({}, 'a'))->detach();
  spawn(priority{3}, twice({}, 'b'))->detach();
  spawn(priority{5}, twice({}, 'c'))->detach();
  spawn(priority{63}, twice({}, 'd'))->detach();
  EXPECT_EQ(executor.ready().bits(), uint64_t{1} << 3 | uint64_t{1} << 5 | uint64_t{1} << 63);
  executor.run_until_idle();
  EXPECT_LOG("bbacacdd");
  EXPECT_ALL_FREE();
}

TEST(scheduling, levels_of_both_words) {
  static constexpr unsigned levels[] = {63, 31, 32, 0};
  for (unsigned level : levels)
    spawn(*priority::from(level), twice({}, static_cast<char>('0' + level % 10)))->detach();
  executor.run_until_idle();
  EXPECT_LOG("00112233");
  EXPECT_ALL_FREE();
}

TEST(scheduling, any_number_of_wakes_makes_one_poll) {
  auto handle = spawn(priority{9}, waits({}, 'w'));
  ASSERT_TRUE(handle.has_value());
  const corank::coroutine_id id = handle->id();
  executor.run_until_idle();
  EXPECT_LOG("w");
  EXPECT_TRUE(corank::wake(id));
  EXPECT_TRUE(corank::wake(id));
  EXPECT_EQ(executor.state(id), corank::state::ready);
  executor.run_until_idle();
  EXPECT_LOG("w");
  EXPECT_TRUE(handle->cancel());
  EXPECT_LOG("~");
  EXPECT_FALSE(corank::wake(id));
  EXPECT_FALSE(handle->cancel());
  executor.run_until_idle();
  EXPECT_LOG("");
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(scheduling, a_stale_identifier_reaches_no_coroutine) {
  auto first = spawn(priority{9}, waits({}, 'x'));
  ASSERT_TRUE(first.has_value());
  const corank::coroutine_id stale = first->id();
  first->cancel();
  first->detach();
  auto second = spawn(priority{9}, waits({}, 'y'));  // in the same storage
  ASSERT_TRUE(second.has_value());
  executor.run_until_idle();
  EXPECT_LOG("y");  // the first had not begun
  EXPECT_NE(stale, second->id());
  EXPECT_FALSE(corank::wake(stale));
  EXPECT_FALSE(corank::cancel(stale));
  EXPECT_FALSE(corank::reprioritize(stale, priority{1}));
  EXPECT_EQ(executor.state(stale), corank::state::exited);
  EXPECT_FALSE(executor.level(stale).has_value());
  second->cancel();
  second->detach();
  EXPECT_LOG("~");
  EXPECT_ALL_FREE();
}

TEST(scheduling, generations_wrap_around_after_256) {
  corank::coroutine_id first;
  for (int round = 0; round <= 256; ++round) {
    auto handle = spawn(priority{9}, twice({}, '.'));
    ASSERT_TRUE(handle.has_value());
    if (round == 0) first = handle->id();
    EXPECT_EQ(handle->id() == first, round == 0 || round == 256);
    handle->cancel();
  }
  EXPECT_ALL_FREE();
}

TEST(scheduling, a_full_table_is_an_error) {
  corank::join_handle<> handles[8];
  for (auto& each : handles) each = *spawn(priority{9}, waits({}, '.'));
  auto refused = spawn(priority{1}, waits({}, '!'));
  ASSERT_TRUE(!refused.has_value());
  EXPECT_EQ(refused.error(), corank::spawn_error::no_storage);
  EXPECT_EQ(executor.live(), 8u);
  handles[3].cancel();
  handles[3].detach();
  executor.limit(7);
  auto limited = spawn(priority{1}, waits({}, '!'));
  ASSERT_TRUE(!limited.has_value());
  EXPECT_EQ(limited.error(), corank::spawn_error::table_full);
  executor.limit(~0u);
  for (auto& each : handles) each.detach();
  EXPECT_TRUE(executor.ready().contains(9));
  test::logged("");
  for (int at = 0; at < 7; ++at) {
    EXPECT_EQ(executor.step_once(), corank::step::ran);
  }
  EXPECT_LOG(".......");
  EXPECT_EQ(executor.live(), 7u);
}

namespace {
corank::coroutine_id everyone[8];
corank::task<> remembers(storage, int me) {
  everyone[me] = corank::current();
  co_await corank::wait_for_wake{};
}
}  // namespace

TEST(scheduling, detached_coroutines_are_freed_when_they_end) {
  // The seven coroutines of the test before wait forever, and their identifiers are lost. Clearing
  // the slots ends them.
  test::frames.clear();
  EXPECT_LOG("~~~~~~~");
  EXPECT_ALL_FREE();
  for (int me = 0; me < 8; ++me) spawn(priority{4}, remembers({}, me))->detach();
  executor.run_until_idle();
  EXPECT_EQ(test::frames.free(), 0u);
  for (auto id : everyone) corank::wake(id);
  executor.run_until_idle();
  EXPECT_ALL_FREE();
}

namespace {
corank::task<> cancels_itself(storage) {
  test::guard end('~');
  corank::cancel(corank::current());
  log('1');
  co_await corank::yield_now{};
  log('2');
}
corank::task<> moves_itself(storage) {
  corank::reprioritize(corank::current(), priority{40});
  log('a' + static_cast<char>(executor.running() == 40));
  co_await corank::yield_now{};
  log('z');
}
}  // namespace

TEST(scheduling, a_running_coroutine_is_cancelled_when_its_poll_ends) {
  auto handle = spawn(priority{4}, cancels_itself({}));
  executor.run_until_idle();
  EXPECT_LOG("1~");
  EXPECT_EQ(handle->take().error(), corank::join_error::cancelled);
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(scheduling, a_running_coroutine_moves_when_it_yields) {
  auto first = spawn(priority{4}, moves_itself({}));
  auto second = spawn(priority{30}, twice({}, '.'));
  executor.run_until_idle();
  EXPECT_LOG("b..z");
  first->detach();
  second->detach();
  EXPECT_ALL_FREE();
}

namespace {
// Records whether a coroutine is ready at its level when the frame that has it is destroyed.
struct looks_round {
  explicit looks_round(unsigned at) : level(at) {}
  looks_round(looks_round&& other) noexcept
      : level(corank::detail::exchange(other.level, corank::levels_count)) {}
  ~looks_round() {
    if (level < corank::levels_count) log(executor.ready().contains(level) ? 'y' : 'n');
  }
  unsigned level;
};
corank::task<> ends(storage, looks_round) { co_return; }
}  // namespace

TEST(scheduling, a_finished_coroutine_hides_no_ready_one) {
  spawn(priority{9}, ends({}, looks_round(9)))->detach();
  spawn(priority{9}, twice({}, '.'))->detach();
  executor.run_until_idle();
  EXPECT_LOG("y..");
  spawn(priority{9}, ends({}, looks_round(9)))->detach();
  executor.run_until_idle();
  EXPECT_LOG("n");
  EXPECT_ALL_FREE();
}

TEST(scheduling, outside_a_poll_no_coroutine_is_current) {
  EXPECT_FALSE(corank::wake(corank::current()));
  EXPECT_EQ(executor.running(), corank::levels_count);
  EXPECT_EQ(executor.step_once(), corank::step::idle);
}
