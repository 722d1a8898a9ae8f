// GPIO, timer, serial port, ADC and I2C, with one operation each for coroutines. Every operation
// has two phases: it is started, and its interrupt completes it (the thesis, section 3.2.3). Each
// board's header has the devices that QEMU emulates there with their interrupts, under the same
// names:
//
//                 timer   serial port   GPIO   ADC   I2C
//   lm3s6965        x          x          x     x     x     QEMU's lm3s6965evb, a Cortex-M3
//   mps2-an386      x          x                            a Cortex-M4
//
// QEMU emulates neither the GPIO nor the ADC of mps2-an386, and its I2C as two wires without an
// interrupt.
//
// netduinoplus2 (stm32f405), the Cortex-M4 board of the tests and benchmarks, has no GPIO and no
// I2C, and neither its ADC nor its serial port's sender interrupts.
#pragma once

#if defined(CORANK_BOARD_lm3s6965)
#include "lm3s6965/hal.hpp"
#elif defined(CORANK_BOARD_mps2_an386)
#include "mps2-an386/hal.hpp"
#else
#error "the HAL has the boards lm3s6965 and mps2-an386: corank_firmware(... BOARD ... HAL)"
#endif
