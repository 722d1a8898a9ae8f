// The stack: how much of it has been used, and whether it has overflowed.
//
// It grows down from the end of the RAM towards the variables, where the coroutines' slots lie. The
// start-up code paints it, and puts a guard of 128 bytes at its end (stack.cpp).
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
extern uint32_t _stack_guard[], _stack_bottom[], _stack_top[];
}

namespace stack {

// What the start-up code writes where no function has been yet.
inline constexpr uint32_t paint = 0xC0'4A'4B'ED;

// What the program says when the guard was written to.
inline constexpr char overflow[] =
    "corank: the stack has overflowed: see what takes it, or give the coroutines' slots less";

// Returns the bytes that are left for the stack. The linker checks that they are at least `STACK`
// of corank_firmware().
inline size_t size() {
  return reinterpret_cast<uintptr_t>(_stack_top) - reinterpret_cast<uintptr_t>(_stack_bottom);
}

// Returns the bytes that the stack has taken at most, all interrupts included: the high-water mark.
// It reads the painted part, 4 bytes at a time. A local array that was never written may hide a
// deeper use.
inline size_t used() {
  const volatile uint32_t* at = _stack_bottom;
  while (at != _stack_top && *at == paint) ++at;
  return reinterpret_cast<uintptr_t>(_stack_top) - reinterpret_cast<uintptr_t>(at);
}

// Tests whether something has been written behind the end of the stack. A processor with an MPU has
// ended the program before. Elsewhere, check this where the program is idle.
inline bool has_overflowed() {
  for (const volatile uint32_t* at = _stack_guard; at != _stack_bottom; ++at)
    if (*at != paint) return true;
  return false;
}

}  // namespace stack
