// The errors that end the program, with their messages. On the host alone, because each needs a
// process.
#include "test.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;
using test::storage;

namespace {

corank::slot<48 * sizeof(void*)> inner_slot;

corank::task<int> inner(corank::in<inner_slot>) {
  co_await corank::yield_now{};
  co_return 1;
}

corank::task<> calls_twice_at_once(storage) {
  auto first = inner({});
  co_await inner({});
}

corank::split_phase_event<> operation;

corank::task<> operates(storage) {
  co_await operation.after([] {});
}

corank::result<int, char> error() { return corank::failure{'e'}; }

}  // namespace

TEST(fatal_death, a_call_into_a_taken_slot_is_fatal) {
  EXPECT_DEATH(
      {
        spawn(priority{5}, calls_twice_at_once({}))->detach();
        executor.run_until_idle();
      },
      "a coroutine was awaited whose slot is taken: await checked\\(\\) where that can happen");
}

TEST(fatal_death, the_wrong_side_of_a_result_is_fatal) {
  EXPECT_DEATH((void)error().value(), "result::value\\(\\) of an error");
  EXPECT_DEATH(({
                 corank::result<int, char> good = 3;
                 (void)good.error();
               }),
               "result::error\\(\\) of a result that is no error");
}

TEST(fatal_death, a_missing_output_is_fatal) {
  EXPECT_DEATH((void)spawn(priority{5}, inner({}))->take(),
               "take\\(\\) of a coroutine that has not exited");
  EXPECT_DEATH(({
                 auto handle = spawn(priority{5}, inner({}));
                 executor.run_until_idle();
                 (void)handle->take();
                 (void)handle->take();
               }),
               "output was taken twice");
}

TEST(fatal_death, a_second_waiter_for_one_operation_is_fatal) {
  EXPECT_DEATH(({
                 spawn(priority{5}, operates({}))->detach();
                 spawn(priority{5}, operates({}))->detach();
                 executor.run_until_idle();
               }),
               "two coroutines wait for one split_phase_event");
}

TEST(fatal_death, numbers_out_of_range_are_fatal) {
  EXPECT_DEATH(corank::bounded(0), "the share is at least 1");
  EXPECT_DEATH(corank::time::ticker(0), "period is not zero");
}
