// The registers of the LM3S6965's devices, as far as the HAL uses them, by the names of its data sheet.
#pragma once

#include "../nvic.hpp"

namespace hal {

// Numbers of interrupts.
enum irq : unsigned { gpio_a_irq = 0, uart0_irq = 5, i2c0_irq = 8, adc0_irq = 14, timer0_irq = 19 };

namespace sysctl {
// Clocks of the devices: ADC; I2C0, timer 0 and 1, UART0; GPIO A to G.
inline void clock_devices() {
  at(0x400FE100) = at(0x400FE100) | 1u << 16;
  at(0x400FE104) = at(0x400FE104) | 1u << 12 | 1u << 16 | 1u;
  at(0x400FE108) = at(0x400FE108) | 0x7F;
}
}  // namespace sysctl

namespace uart0 {
inline reg &data = at(0x4000C000), &flags = at(0x4000C018), &control = at(0x4000C030), &mask = at(0x4000C038), &state = at(0x4000C040), &clear = at(0x4000C044);
constexpr uint32_t receive_empty = 1u << 4, receive_interrupt = 1u << 4, transmit_interrupt = 1u << 5, enabled = 0x301;
}  // namespace uart0

namespace timer0 {
inline reg &config = at(0x40030000), &mode = at(0x40030004), &control = at(0x4003000C), &mask = at(0x40030018), &clear = at(0x40030024), &load = at(0x40030028);
constexpr uint32_t enabled = 1, triggers_adc = 1u << 5, timed_out = 1;
}  // namespace timer0

namespace adc0 {
inline reg &active = at(0x40038000), &mask = at(0x40038008), &clear = at(0x4003800C), &trigger = at(0x40038014), &channel = at(0x40038040), &control = at(0x40038044),
           &fifo = at(0x40038048), &fifo_state = at(0x4003804C);
constexpr uint32_t by_timer = 5, last_and_interrupt = 6, fifo_empty = 1u << 8;
}  // namespace adc0

namespace i2c0 {
inline reg &address = at(0x40020000), &control = at(0x40020004), &data = at(0x40020008), &mask = at(0x40020010), &clear = at(0x4002001C), &config = at(0x40020020);
constexpr uint32_t run = 1, start = 2, stop = 4, acknowledge = 8, busy = 1, failed = 2;
}  // namespace i2c0

namespace gpio_a {
inline reg &data = at(0x40004000 + 0x3FC), &direction = at(0x40004400), &level_sense = at(0x40004404), &active_high = at(0x4000440C), &mask = at(0x40004410),
           &clear = at(0x4000441C), &digital = at(0x4000451C);
}  // namespace gpio_a

}  // namespace hal
