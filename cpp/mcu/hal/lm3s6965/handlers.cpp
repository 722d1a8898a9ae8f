// The interrupt handlers of the HAL: each completes its operation, and does nothing else.
#include "hal.hpp"

#if defined(CORANK_LATENCY)
#include "sample/latency.hpp"
#endif

extern "C" {

void irq0_handler() {  // GPIO, port A
  hal::gpio_a::mask = 0;
  hal::detail::pressed.complete();
}

void irq5_handler() {  // UART0
  const uint32_t happened = hal::uart0::state;
  // Before the last check for a byte: a later byte interrupts again.
  hal::uart0::clear = happened;
  while ((hal::uart0::flags & hal::uart0::receive_empty) == 0)
    hal::detail::received.try_send(static_cast<uint8_t>(hal::uart0::data));
  if ((happened & hal::uart0::transmit_interrupt) != 0) hal::detail::sent.complete();
}

void irq8_handler() {  // I2C0
  hal::i2c0::clear = 1;
  hal::detail::transferred.complete();
}

void irq14_handler() {  // ADC0, sequencer 0
#if defined(CORANK_LATENCY)
  latency::interrupted();
#endif
  hal::adc0::clear = 1;
  hal::adc0::active = 0;
  hal::detail::converted.complete(static_cast<uint16_t>(hal::adc0::fifo));
}

void irq19_handler() {  // timer 0
  hal::timer0::clear = hal::timer0::timed_out;
  hal::detail::ticks.release();
}
}
