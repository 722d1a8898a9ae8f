// A clock without a tick: the timer interrupts at the next deadline alone.
//
//   extern "C" void systick_handler() { tickless::interrupted(); }  // RISC-V: timer_handler
//   int main() {
//     ...
//     tickless::run();
//   }
//
// The time is in ticks of the timer. SysTick has 24 bits, so it interrupts at least every 2^24
// ticks. Setting it loses a few ticks each time. RISC-V's timer, as many of a chip's own, keeps
// counting beside its compare register, and loses none.
#pragma once

#include <corank/time.hpp>

#include "timer.hpp"

namespace tickless {

#if defined(__riscv)

// Returns the time.
inline corank::ticks counter() { return mtimer::time(); }

// Interrupts at `deadline`, or at once if it has passed. Masked.
inline void arm(corank::ticks deadline) { mtimer::fire_at(deadline); }

namespace detail {
inline void begin_period() {}
}  // namespace detail

#else

namespace detail {
// The time at which the present period began, and its length.
inline corank::ticks began = 0;
inline uint32_t period = 0;

inline volatile uint32_t& interrupt_control() {
  return *reinterpret_cast<volatile uint32_t*>(0xE000ED04);
}
inline constexpr uint32_t pending = 1u << 26, drop_pending = 1u << 25;

// Masked.
inline corank::ticks counter() {
  uint32_t left = systick::at().current;
  corank::ticks past = began;
  if ((interrupt_control() & pending) != 0) {
    // A new period has begun, and the handler has not run yet.
    left = systick::at().current;
    past += period;
  }
  return past + (period - left);
}
}  // namespace detail

// Returns the time.
inline corank::ticks counter() {
  corank::critical masked;
  return detail::counter();
}

// Interrupts at `deadline`, or at once if it has passed. Masked.
inline void arm(corank::ticks deadline) {
  // Long enough for this function to end before the interrupt.
  constexpr uint32_t shortest = 64;
  detail::began = detail::counter();
  const corank::ticks left = deadline > detail::began ? deadline - detail::began : 0;
  detail::period = left < shortest       ? shortest
                   : left > systick::top ? systick::top
                                         : static_cast<uint32_t>(left);
  systick::at().reload = detail::period;
  systick::at().current = 0;
  detail::interrupt_control() = detail::drop_pending;
  systick::at().control = systick::enable | systick::interrupt | systick::core_clock;
}

namespace detail {
inline void begin_period() {
  corank::critical masked;
  began += period;
}
}  // namespace detail

#endif

// The interrupt: advances the time, and is set for the next deadline.
inline void interrupted() {
  detail::begin_period();
  corank::time::advance(counter());
  const corank::ticks next = corank::time::next_deadline();
  corank::critical masked;
  arm(next);
}

// Begins to count.
inline void start() {
  corank::time::on_earlier_deadline(arm);
  const corank::ticks next = corank::time::next_deadline();
  corank::critical masked;
  arm(next);
}

// Runs until `ended` returns true, which is checked before each sleep and masked. Advances before
// it polls, because the time stands still between two interrupts.
template <class Ended>
void run_until(Ended ended) {
  while (!ended()) {
    corank::time::advance(counter());
    corank::executor.run_until_idle();
    corank::executor.sleep_unless(ended);
  }
}
[[noreturn]] inline void run() {
  start();
  run_until([] { return false; });
  __builtin_unreachable();
}

}  // namespace tickless
