// The work of the tasks in the size measurements, as in the thesis, section 3.3.1: toggle a pin,
// yield, and so on forever.
#pragma once

#include <stdint.h>

inline volatile uint32_t& pin =
    *reinterpret_cast<volatile uint32_t*>(0x40020014);  // GPIOA's output data

[[gnu::noinline]] inline void toggle() { pin = pin ^ 1; }
