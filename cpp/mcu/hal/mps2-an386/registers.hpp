// The registers of Arm's MPS2 board with a Cortex-M4, as far as the HAL uses them, by the names of
// the Cortex-M System Design Kit.
#pragma once

#include "../nvic.hpp"

namespace hal {

// Numbers of interrupts.
enum irq : unsigned { uart0_receive_irq = 0, uart0_send_irq = 1, timer0_irq = 8 };

namespace uart0 {
inline constexpr io data{0x40004000}, state{0x40004004}, control{0x40004008}, clear{0x4000400C},
    divider{0x40004010};
constexpr uint32_t receive_full = 2, sends = 1, receives = 2, interrupts_sent = 4,
                   interrupts_received = 8, send_interrupt = 1, receive_interrupt = 2;
}  // namespace uart0

namespace timer0 {
inline constexpr io control{0x40000000}, value{0x40000004}, reload{0x40000008}, clear{0x4000000C};
constexpr uint32_t enabled = 1, interrupts = 8;
}  // namespace timer0

}  // namespace hal
