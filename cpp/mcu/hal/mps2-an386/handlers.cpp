// The interrupt handlers of the HAL: each completes its operation, and does nothing else.
#include "hal.hpp"

extern "C" {

void irq0_handler() {  // UART0, a byte was received
  // Before the last check for a byte: a later byte interrupts again.
  hal::uart0::clear = hal::uart0::receive_interrupt;
  while ((hal::uart0::state & hal::uart0::receive_full) != 0)
    hal::detail::received.try_send(static_cast<uint8_t>(hal::uart0::data));
}

void irq1_handler() {  // UART0, a byte was sent
  hal::uart0::clear = hal::uart0::send_interrupt;
  hal::detail::sent.complete();
}

void irq8_handler() {  // timer 0
  hal::timer0::clear = 1;
  hal::detail::ticks.release();
}
}
