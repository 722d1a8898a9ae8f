// The registers of the LM3S6965's devices, as far as the HAL uses them, by the names of its data
// sheet.
#pragma once

#include "../nvic.hpp"

namespace hal {

// Numbers of interrupts.
enum irq : unsigned { gpio_a_irq = 0, uart0_irq = 5, i2c0_irq = 8, adc0_irq = 14, timer0_irq = 19 };

namespace sysctl {
// Clocks of the devices.
inline constexpr io adc{0x400FE100}, i2c_timers_uarts{0x400FE104}, gpios{0x400FE108};

inline void clock_devices() {
  adc = adc | 1u << 16;
  i2c_timers_uarts = i2c_timers_uarts | 1u << 12 | 1u << 16 | 1u;
  gpios = gpios | 0x7F;
}
}  // namespace sysctl

namespace uart0 {
inline constexpr io data{0x4000C000}, flags{0x4000C018}, control{0x4000C030}, mask{0x4000C038},
    state{0x4000C040}, clear{0x4000C044};
constexpr uint32_t receive_empty = 1u << 4, receive_interrupt = 1u << 4,
                   transmit_interrupt = 1u << 5, enabled = 0x301;
}  // namespace uart0

namespace timer0 {
inline constexpr io config{0x40030000}, mode{0x40030004}, control{0x4003000C}, mask{0x40030018},
    clear{0x40030024}, load{0x40030028};
constexpr uint32_t enabled = 1, triggers_adc = 1u << 5, timed_out = 1;
}  // namespace timer0

namespace adc0 {
inline constexpr io active{0x40038000}, mask{0x40038008}, clear{0x4003800C}, trigger{0x40038014},
    channel{0x40038040}, control{0x40038044}, fifo{0x40038048}, fifo_state{0x4003804C};
constexpr uint32_t by_timer = 5, last_and_interrupt = 6, fifo_empty = 1u << 8;
}  // namespace adc0

namespace i2c0 {
inline constexpr io address{0x40020000}, control{0x40020004}, data{0x40020008}, mask{0x40020010},
    clear{0x4002001C}, config{0x40020020};
constexpr uint32_t run = 1, start = 2, stop = 4, acknowledge = 8, busy = 1, failed = 2;
}  // namespace i2c0

namespace gpio_a {
inline constexpr io data{0x40004000 + 0x3FC}, direction{0x40004400}, level_sense{0x40004404},
    active_high{0x4000440C}, mask{0x40004410}, clear{0x4000441C}, digital{0x4000451C};
}  // namespace gpio_a

}  // namespace hal
