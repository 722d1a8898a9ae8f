// A clock without a tick: SysTick interrupts at the next deadline alone.
//
//   extern "C" void systick_handler() { tickless::interrupted(); }
//   int main() {
//     ...
//     tickless::run();
//   }
//
// The time is in ticks of the core's clock. SysTick has 24 bits, so it interrupts at least every
// 2^24 ticks. Setting it loses a few ticks each time; a chip's own timer that keeps counting beside
// its compare register loses none.
#pragma once

#include <corank/time.hpp>

#include "systick.hpp"

namespace tickless {

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

// The interrupt: advances the time, and is set for the next deadline.
inline void interrupted() {
  {
    corank::critical masked;
    detail::began += detail::period;
  }
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

// Runs until `ended` returns true, which is checked after each interrupt. Advances before it polls,
// because the time stands still between two interrupts of SysTick.
template <class Ended>
void run_until(Ended ended) {
  while (!ended()) {
    corank::time::advance(counter());
    corank::executor.run_until_idle();
    corank::executor.sleep();
  }
}
[[noreturn]] inline void run() {
  start();
  run_until([] { return false; });
  __builtin_unreachable();
}

}  // namespace tickless
