// All five devices of the LM3S6965; see ../hal.hpp. An operation that can be completed at once does
// not wait (the thesis, section 3.3.4).
#pragma once

#include "../serial.hpp"
#include "registers.hpp"

namespace hal {

// The reason why a transfer on the I2C bus has failed.
enum class i2c_error : uint8_t { no_acknowledge };

namespace detail {
inline corank::split_phase_event<uint16_t> converted;
inline corank::split_phase_event<> transferred, pressed;
inline corank::semaphore ticks{0};
}  // namespace detail

// Starts the timer: it ticks every `cycles` of the core's clock, and each tick triggers the ADC.
inline void start_timer(uint32_t cycles) {
  timer0::config = 0;
  timer0::mode = 2;  // periodic
  timer0::load = cycles;
  timer0::mask = timer0::timed_out;
  timer0::control = timer0::enabled | timer0::triggers_adc;
  enable(timer0_irq);
}

// Waits for the next tick. Missed ticks follow one by one.
[[nodiscard]] inline auto next_tick() { return detail::ticks.acquire(); }

// Measures the voltage at a channel, 0 to 1023, at the timer's next tick.
[[nodiscard]] inline auto read_adc(uint32_t channel) {
  return detail::converted.after(
      [channel] {
        adc0::active = 0;
        adc0::trigger = adc0::by_timer;
        adc0::channel = channel;
        adc0::control = adc0::last_and_interrupt;
        adc0::mask = 1;
        adc0::active = 1;
        enable(adc0_irq);
      },
      [] {
        adc0::active = 0;
        adc0::clear = 1;
      });
}

// Makes one step on the I2C bus.
[[nodiscard]] inline auto i2c_step(uint32_t command) {
  return detail::transferred.after([command] {
    i2c0::control = command;
    // Without an answer the chip interrupts, but QEMU does not. The failure is then detected at
    // once.
    if ((i2c0::control & (i2c0::busy | i2c0::failed)) == i2c0::failed)
      detail::transferred.complete();
  });
}

inline void start_serial() {
  uart0::control = uart0::enabled;
  uart0::mask = uart0::transmit_interrupt | uart0::receive_interrupt;
  enable(uart0_irq);
}

// Sends one byte, and waits until it has been sent.
[[nodiscard]] inline auto send_byte(char byte) {
  return detail::sent.after([byte] { uart0::data = static_cast<unsigned char>(byte); });
}

// Waits until pin `number` of port A is low.
[[nodiscard]] inline auto pin_low(unsigned number) {
  return detail::pressed.after(
      [number] {
        gpio_a::digital = 0xFF;
        gpio_a::direction = gpio_a::direction & ~(1u << number);
        gpio_a::level_sense = 1u << number;
        gpio_a::active_high = 0;
        gpio_a::mask = 1u << number;
        enable(gpio_a_irq);
      },
      [] { gpio_a::mask = 0; });
}

// Reads `count` bytes from register `first` of a device on the bus.
inline corank::task<corank::result<void, i2c_error>> read_i2c(auto&, uint8_t device, uint8_t first,
                                                              uint8_t* into, unsigned count) {
  i2c0::config = 0x10;
  i2c0::mask = 1;
  enable(i2c0_irq);
  i2c0::address = device * 2u;
  i2c0::data = first;
  co_await i2c_step(i2c0::start | i2c0::run);
  i2c0::address = device * 2u | 1;
  for (unsigned at = 0; at < count; ++at) {
    if ((i2c0::control & i2c0::failed) != 0) co_return corank::failure{i2c_error::no_acknowledge};
    const uint32_t last = at + 1 == count ? i2c0::stop : i2c0::acknowledge;
    co_await i2c_step((at == 0 ? i2c0::start : 0) | i2c0::run | last);
    into[at] = static_cast<uint8_t>(i2c0::data);
  }
  co_return {};
}

}  // namespace hal

#include "../send.hpp"
