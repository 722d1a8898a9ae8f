// The core's interrupt controller, as far as the HAL uses it.
#pragma once

#include "io.hpp"

namespace hal {

// Enables a device's interrupt.
inline void enable(unsigned irq) { io(0xE000E100 + 4 * (irq / 32)) = 1u << (irq % 32); }

// Tests whether a device has requested its interrupt and the interrupt has not been taken yet.
[[nodiscard]] inline bool is_pending(unsigned irq) {
  return (io(0xE000E200 + 4 * (irq / 32)) >> (irq % 32) & 1) != 0;
}

}  // namespace hal
