// Interrupts at every instruction of wake, park, pop, yield and block in turn, without a lost wake
// (rule W4).
//
// Each scene runs again and again. The timer fires one tick later each time, until it fires after
// the scene's end. Under QEMU's -icount, time is the number of instructions, so it fires at each
// instruction at least once. `sweep` checks this by the program counters that the handler found on
// the stack.
#include "../unit/test.hpp"

#include "board/timer.hpp"
#include "handler.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;

namespace {

// The work of the handler.
void (*act)();
volatile uint32_t fired;
volatile uintptr_t interrupted;
// The time of a second interrupt, if the scene does not continue because it has missed the first
// one.
constexpr uint32_t alarm = 20000;
volatile bool slept_through;

}  // namespace

void (*timer_instead)() = nullptr;

extern "C" void timer_seen(uintptr_t at) {
  if (timer_instead != nullptr) return timer_instead();
  timer::interrupted();
  fired = fired + 1;
  if (fired == 1) {
    interrupted = at;
    act();
  } else {
    slept_through = true;
    timer::stop();
    act();
  }
}

namespace {

// Runs before the scene, so that the earliest interrupts come before its first instruction.
// The compiler estimates code size by lines, so each instruction is one.
#define CORANK_EIGHT_NOPS "nop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\t"
[[gnu::always_inline]] inline void run_up() {
  asm volatile(CORANK_EIGHT_NOPS CORANK_EIGHT_NOPS CORANK_EIGHT_NOPS);
}
// The timer is set up by then.
constexpr uint32_t first_tick = 16;

// Tests whether an interrupt at `here` leaves out none after the one at `previous`.
bool is_next(uintptr_t previous, uintptr_t here) {
  if (previous == 0) return true;
  const instruction last = decode(reinterpret_cast<const uint16_t*>(previous));
  return last.leads_elsewhere || here == previous + last.bytes;
}

struct sweep_result {
  uint32_t places = 0;    // different program counters
  uint32_t skipped = 0;   // an instruction at which no interrupt came
  uint32_t lost = 0;      // scenes that did not end as they should
  bool complete = false;  // the last interrupts came after the scene
};

// Runs `scene` with an interrupt at each instruction. `prepare` sets the scene, and `check` returns
// whether the state afterwards is right.
template <class Prepare, class Scene, class Check>
sweep_result sweep(void (*handler)(), Prepare prepare, Scene scene, Check check) {
  sweep_result result;
  uintptr_t previous = 0;
  uint32_t after_the_end = 0;
  act = handler;
  for (uint32_t ticks = first_tick; ticks < 4000 && after_the_end < 4; ++ticks) {
    prepare();
    fired = 0;
    slept_through = false;
    timer::fire_after(ticks, alarm);
    run_up();
    scene();
    const bool late = fired == 0;
    while (fired == 0) {
    }
    timer::stop();
    if (late) ++after_the_end;
    if (!check() || slept_through) ++result.lost;
    const uintptr_t here = interrupted;
    if (!late && here != previous) {
      ++result.places;
      if (!is_next(previous, here)) ++result.skipped;
      previous = here;
    }
  }
  result.complete = after_the_end == 4;
  return result;
}

#define EXPECT_SWEPT(result)         \
  do {                               \
    const sweep_result r = (result); \
    EXPECT_EQ(r.lost, 0u);           \
    EXPECT_EQ(r.skipped, 0u);        \
    EXPECT_TRUE(r.places >= 16);     \
    EXPECT_TRUE(r.complete);         \
  } while (false)

// Two coroutines that count how often they are woken. The handler wakes both, and each must have
// been polled after the interrupt.
volatile uint32_t wakes_seen[2];
volatile uint32_t interrupts_seen[2];
corank::coroutine_id sleepers[2];

corank::task<> sleeper(test::storage, int me) {
  for (;;) {
    co_await corank::wait_for_wake{};
    wakes_seen[me] = wakes_seen[me] + 1;
    interrupts_seen[me] = fired;
  }
}

struct two_sleepers {
  corank::join_handle<> handles[2];
  two_sleepers(priority a, priority b) {
    handles[0] = *spawn(a, sleeper({}, 0));
    handles[1] = *spawn(b, sleeper({}, 1));
    for (int me = 0; me < 2; ++me) sleepers[me] = handles[me].id();
    executor.run_until_idle();
  }
  ~two_sleepers() {
    for (auto& each : handles) each.cancel();
  }
};

void clear_counts() {
  for (int me = 0; me < 2; ++me) {
    wakes_seen[me] = 0;
    interrupts_seen[me] = 0;
  }
}

void wake_both() {
  corank::wake(sleepers[0]);
  corank::wake(sleepers[1]);
}
void wake_first() { corank::wake(sleepers[0]); }

// Runs all coroutines. Returns whether both have been polled since the interrupt and none is ready.
bool both_heard_it() {
  executor.run_until_idle();
  return interrupts_seen[0] >= 1 && interrupts_seen[1] >= 1 && executor.ready().empty();
}
bool first_heard_it() {
  executor.run_until_idle();
  return interrupts_seen[0] >= 1 && wakes_seen[0] <= 2 && executor.ready().empty() &&
         executor.state(sleepers[0]) == corank::state::blocked;
}

}  // namespace

TEST(interrupts, at_every_instruction_of_wake) {
  {
    two_sleepers same_level(priority{5}, priority{5});
    EXPECT_SWEPT(sweep(wake_both, clear_counts, [] { corank::wake(sleepers[0]); }, both_heard_it));
  }
  {
    two_sleepers two_levels(priority{5}, priority{40});
    EXPECT_SWEPT(sweep(wake_both, clear_counts, [] { corank::wake(sleepers[1]); }, both_heard_it));
  }
  EXPECT_ALL_FREE();
}

TEST(interrupts, at_every_instruction_of_pop_and_block) {
  {
    two_sleepers same_level(priority{5}, priority{5});
    const auto one_ready = [] {
      clear_counts();
      corank::wake(sleepers[0]);
    };
    const auto both_ready = [] {
      clear_counts();
      wake_both();
    };
    EXPECT_SWEPT(sweep(wake_both, one_ready, [] { executor.run_until_idle(); }, both_heard_it));
    EXPECT_SWEPT(sweep(wake_first, one_ready, [] { executor.run_until_idle(); }, first_heard_it));
    EXPECT_SWEPT(sweep(wake_both, both_ready, [] { executor.run_until_idle(); }, both_heard_it));
  }
  {
    two_sleepers two_levels(priority{5}, priority{40});
    const auto less_urgent_ready = [] {
      clear_counts();
      corank::wake(sleepers[1]);
    };
    EXPECT_SWEPT(
        sweep(wake_both, less_urgent_ready, [] { executor.run_until_idle(); }, both_heard_it));
  }
  EXPECT_ALL_FREE();
}

TEST(interrupts, at_every_instruction_of_park) {
  two_sleepers pair(priority{5}, priority{40});
  // No coroutine is ready. The interrupt comes before, in and after the decision to sleep. If it is
  // missed, the scene would sleep forever, and the alarm detects that.
  const auto until_woken = [] {
    for (;;) {
      executor.run_until_idle();
      if (interrupts_seen[0] != 0) return;
      executor.sleep();
    }
  };
  const auto check = [] {
    executor.run_until_idle();
    return interrupts_seen[0] == 1 && wakes_seen[0] == 1;
  };
  // This scene ends with the interrupt, so none comes after its end. The sweep is over when sleep
  // itself was interrupted many times.
  sweep_result result;
  uintptr_t previous = 0;
  act = wake_first;
  for (uint32_t ticks = first_tick; ticks < 120; ++ticks) {
    clear_counts();
    fired = 0;
    slept_through = false;
    timer::fire_after(ticks, alarm);
    run_up();
    until_woken();
    timer::stop();
    if (!check() || slept_through) ++result.lost;
    if (interrupted != previous) {
      ++result.places;
      if (!is_next(previous, interrupted)) ++result.skipped;
    }
    previous = interrupted;
  }
  EXPECT_EQ(result.lost, 0u);
  EXPECT_EQ(result.skipped, 0u);
  EXPECT_TRUE(result.places >= 16);
}

namespace {

volatile uint32_t turns;
corank::task<> yields(test::storage, uint32_t times) {
  while (times-- > 0) {
    turns = turns + 1;
    co_await corank::yield_now{};
  }
}

}  // namespace

TEST(interrupts, at_every_instruction_of_yield) {
  two_sleepers pair(priority{5}, priority{33});
  static corank::join_handle<> runners[2];
  const auto prepare = [] {
    clear_counts();
    turns = 0;
    for (auto& each : runners) each = *spawn(priority{5}, yields({}, 3));
  };
  const auto check = [] {
    executor.run_until_idle();
    const bool good = turns == 6 && both_heard_it();
    for (auto& each : runners) each.detach();
    return good;
  };
  EXPECT_SWEPT(sweep(wake_both, prepare, [] { executor.run_until_idle(); }, check));
}

namespace {

corank::semaphore posts{0};
corank::channel<uint32_t, 2> bytes;
corank::split_phase_event<uint32_t> conversion;
corank::promise<uint32_t> reply;
corank::event button;
volatile uint32_t received;

corank::task<> takes_permit(test::storage) {
  auto permit = co_await posts.acquire();
  permit.forget();
  received = received + 1;
}
corank::task<> takes_byte(test::storage) { received = received + co_await bytes.receive(); }
corank::task<> converts(test::storage) {
  received = received + co_await conversion.after([] {});
}
corank::task<> awaits_reply(test::storage) { received = received + *co_await reply.get_future(); }
corank::task<> waits_for_button(test::storage) {
  co_await button;
  received = received + 1;
}

// Spawns, runs and ends one coroutine, which must receive 1 from the handler, whenever the
// interrupt comes.
template <class Make>
void one_receiver(Make make, void (*handler)()) {
  static Make* made;
  made = &make;
  static corank::join_handle<> handle;
  const auto prepare = [] {
    received = 0;
    reply.reset();
    button.reset();
  };
  const auto scene = [] {
    handle = *spawn(priority{7}, (*made)());
    executor.run_until_idle();
  };
  const auto check = [] {
    executor.run_until_idle();
    if (!handle.has_exited()) {
      // The interrupt came before the wait. Only an operation that had not begun may miss it.
      handle.cancel();
      handle.detach();
      return received == 0 && !conversion.is_started() && act != nullptr;
    }
    handle.detach();
    return received == 1;
  };
  EXPECT_SWEPT(sweep(handler, prepare, scene, check));
}

}  // namespace

TEST(interrupts, at_every_instruction_of_waiting_in_a_primitive) {
  one_receiver([] { return takes_permit({}); }, [] { posts.release(); });
  EXPECT_EQ(posts.available(), 0u);
  one_receiver([] { return takes_byte({}); }, [] { bytes.try_send(1); });
  EXPECT_FALSE(bytes.try_receive().has_value());
  one_receiver([] { return awaits_reply({}); }, [] { reply.set_value(1); });
  one_receiver([] { return waits_for_button({}); }, [] { button.set(); });
  button.reset();
  EXPECT_ALL_FREE();
}

TEST(interrupts, at_every_instruction_of_a_split_phase_operation) {
  // A device completes only an operation that was started. The handler does nothing before.
  static bool completed;
  const auto prepare = [] {
    received = 0;
    completed = false;
  };
  static corank::join_handle<> handle;
  const auto scene = [] {
    handle = *spawn(priority{7}, converts({}));
    executor.run_until_idle();
  };
  const auto check = [] {
    executor.run_until_idle();
    const bool good = completed ? received == 1 && handle.has_exited()
                                : !handle.has_exited() && conversion.is_started();
    handle.cancel();
    handle.detach();
    return good;
  };
  EXPECT_SWEPT(sweep([] { completed = conversion.complete(1); }, prepare, scene, check));
  EXPECT_ALL_FREE();
}

namespace {

corank::ticks due;

corank::task<> sleeps_until_due(test::storage) {
  co_await corank::time::sleep_until(due);
  received = received + 1;
}

}  // namespace

// The handler of a clock advances the time.
TEST(interrupts, at_every_instruction_of_a_sleep) {
  static corank::join_handle<> handle;
  const auto prepare = [] {
    received = 0;
    due = corank::time::now() + 5;
  };
  const auto scene = [] {
    handle = *spawn(priority{7}, sleeps_until_due({}));
    executor.run_until_idle();
  };
  const auto check = [] {
    executor.run_until_idle();
    const bool good = received == 1 && handle.has_exited() && corank::time::now() == due;
    handle.cancel();
    handle.detach();
    return good && corank::time::next_deadline() == corank::time::never;
  };
  EXPECT_SWEPT(sweep([] { corank::time::advance(due); }, prepare, scene, check));
  EXPECT_ALL_FREE();
}
