// The timer of the core: a one-shot interrupt, and, under QEMU's -icount, a counter of
// instructions.
#pragma once

#include <stdint.h>

namespace systick {

struct registers {
  volatile uint32_t control;
  volatile uint32_t reload;
  volatile uint32_t current;
};

inline registers& at() { return *reinterpret_cast<registers*>(0xE000E010); }

inline constexpr uint32_t top = 0x00FFFFFF;
enum control : uint32_t { enable = 1, interrupt = 2, core_clock = 4 };

inline void stop() {
  at().control = 0;
  // Drops a pending interrupt that has not been taken: PENDSTCLR.
  *reinterpret_cast<volatile uint32_t*>(0xE000ED04) = 1u << 25;
}

// Interrupts after `ticks` ticks of the core's clock (at least 1), and every `then` ticks after
// that.
inline void fire_after(uint32_t ticks, uint32_t then) {
  stop();
  at().reload = ticks;
  at().current = 0;
  at().control = enable | interrupt | core_clock;
  // The counter takes its first value a tick later. A later write takes effect when the counter
  // wraps.
  while (at().current == 0) {
  }
  at().reload = then;
}

// What a handler calls first after fire_after(): SysTick repeats by itself.
inline void interrupted() {}

inline void count() {
  at().control = 0;
  at().reload = top;
  at().current = 0;
  at().control = enable | core_clock;
  while (at().current == 0) {
  }
}

// Returns the ticks since count(), modulo 2^24.
inline uint32_t now() { return top - at().current; }

}  // namespace systick
