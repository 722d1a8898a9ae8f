// The interrupt handlers of the HAL: each completes its operation, and does nothing else.
#include "hal/hal.hpp"

#include "sample/latency.hpp"

extern "C" {

void irq0_handler() {  // GPIO, port A
  hal::gpio_a::mask = 0;
  hal::detail::pressed.complete();
}

void irq5_handler() {  // UART0
  hal::uart0::clear = hal::uart0::transmit_interrupt;
  hal::detail::sent.complete();
}

void irq8_handler() {  // I2C0
  hal::i2c0::clear = 1;
  hal::detail::transferred.complete();
}

void irq14_handler() {  // ADC0, sequencer 0
  latency::interrupted();
  hal::adc0::clear = 1;
  hal::adc0::active = 0;
  hal::detail::converted.complete(static_cast<uint16_t>(hal::adc0::fifo));
}

void irq19_handler() {  // timer 0
  hal::timer0::clear = hal::timer0::timed_out;
  hal::detail::ticks.release();
}
}
