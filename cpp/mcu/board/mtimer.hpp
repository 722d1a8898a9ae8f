// The timer of the machine (ACLINT): a one-shot interrupt. Beside it, a counter of instructions.
//
//   extern "C" void timer_handler() { mtimer::interrupted(); ... }
#pragma once

#include <stdint.h>

#if !defined(CORANK_MTIMER)
// The address of the timer on QEMU's `virt` and on SiFive's chips.
#define CORANK_MTIMER 0x02000000
#endif

namespace mtimer {

inline constexpr uint32_t top = 0xFFFFFFFF;

namespace detail {
inline uint64_t due = 0;
inline uint32_t period = 0;

inline volatile uint32_t* compare() {
  return reinterpret_cast<volatile uint32_t*>(CORANK_MTIMER + 0x4000);
}
inline volatile uint32_t* counter() {
  return reinterpret_cast<volatile uint32_t*>(CORANK_MTIMER + 0xBFF8);
}
inline constexpr uint32_t interrupt = 1u << 7;
}  // namespace detail

// Returns the ticks since reset, which never stop.
inline uint64_t time() {
  for (;;) {
    const uint32_t high = detail::counter()[1], low = detail::counter()[0];
    if (high == detail::counter()[1]) return uint64_t{high} << 32 | low;
  }
}

// Interrupts once, at `due`, or at once if that has passed. Masked, or from the handler.
inline void fire_at(uint64_t due) {
  // In between, the halves are never a time that has passed.
  detail::compare()[1] = top;
  detail::compare()[0] = static_cast<uint32_t>(due);
  detail::compare()[1] = static_cast<uint32_t>(due >> 32);
  asm volatile("csrs mie, %0" ::"r"(detail::interrupt) : "memory");
}

inline void stop() { asm volatile("csrc mie, %0" ::"r"(detail::interrupt) : "memory"); }

// Interrupts after `ticks` ticks (at least 1), and every `then` ticks after that.
inline void fire_after(uint32_t ticks, uint32_t then) {
  stop();
  detail::period = then;
  detail::due = time() + ticks;
  fire_at(detail::due);
}

// What a handler calls first after fire_after().
inline void interrupted() {
  detail::due += detail::period;
  fire_at(detail::due);
}

namespace detail {
inline uint32_t instructions() {
  uint32_t number;
  asm volatile("csrr %0, minstret" : "=r"(number)::"memory");
  return number;
}
inline uint32_t began = 0;
}  // namespace detail

inline void count() { detail::began = detail::instructions(); }

// Returns the instructions since count(), modulo 2^32.
inline uint32_t now() { return detail::instructions() - detail::began; }

}  // namespace mtimer
