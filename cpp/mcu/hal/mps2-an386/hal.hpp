// Timer and serial port of the MPS2 board; see ../hal.hpp.
#pragma once

#include "../serial.hpp"
#include "registers.hpp"

namespace hal {

namespace detail {
inline corank::semaphore ticks{0};
}  // namespace detail

// Starts the timer: it ticks every `cycles` of the core's clock.
inline void start_timer(uint32_t cycles) {
  timer0::reload = cycles - 1;
  timer0::value = cycles - 1;
  timer0::control = timer0::enabled | timer0::interrupts;
  enable(timer0_irq);
}

// Waits for the next tick. Missed ticks follow one by one.
[[nodiscard]] inline auto next_tick() { return detail::ticks.acquire(); }

inline void start_serial() {
  uart0::divider = 16;
  uart0::control =
      uart0::sends | uart0::receives | uart0::interrupts_sent | uart0::interrupts_received;
  enable(uart0_send_irq);
  enable(uart0_receive_irq);
}

// Sends one byte, and waits until it has been sent.
[[nodiscard]] inline auto send_byte(char byte) {
  return detail::sent.after([byte] { uart0::data = static_cast<unsigned char>(byte); });
}

}  // namespace hal

#include "../send.hpp"
