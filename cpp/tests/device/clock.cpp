// A clock without a tick loses no deadline, wherever in the loop its interrupt comes.
#include "../unit/test.hpp"

#include "board/tickless.hpp"
#include "handler.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;

namespace {

uint32_t interrupts;
corank::ticks latest;

void interrupted() {
  ++interrupts;
  tickless::interrupted();
}

corank::task<> sleeps_three_times(test::storage, corank::ticks duration) {
  for (int round = 0; round < 3; ++round) {
    const corank::ticks due = corank::time::now() + duration;
    co_await corank::time::sleep(duration);
    const corank::ticks late = tickless::counter() - due;
    if (late > latest) latest = late;
  }
}

}  // namespace

TEST(clock, a_tickless_loop_misses_no_deadline) {
  // Any shorter than the longest period of a timer: a deadline that is missed is that late.
  constexpr corank::ticks limit = 20'000;
  timer_instead = interrupted;
  tickless::start();
  latest = 0;
  // The interrupt moves by one tick each time, from before the loop's sleep to long after it.
  for (corank::ticks duration = 1; duration < 3000; duration += duration < 1500 ? 1 : 97) {
    interrupts = 0;
    auto handle = spawn(priority{5}, sleeps_three_times({}, duration));
    auto other = spawn(priority{6}, sleeps_three_times({}, 2 * duration + 7));
    tickless::run_until([&] { return handle->has_exited() && other->has_exited(); });
    handle->detach(), other->detach();
    // One for each deadline, and some whose time was not quite reached.
    EXPECT_TRUE(interrupts <= 16);
  }
  EXPECT_TRUE(latest < limit);
  timer::stop();
  timer_instead = nullptr;
  corank::time::on_earlier_deadline(nullptr);
  EXPECT_ALL_FREE();
}
