// The port for RISC-V in machine mode; 32 bits are tested. mstatus.MIE masks interrupts.
#pragma once

#include <stdint.h>

#include "fatal.hpp"

namespace corank::port {

using saved = uintptr_t;
inline constexpr bool parallel = false;
// Every RISC-V instruction set has a branch for tail calls. GCC makes none below -O2. No macro
// tells that level, so define CORANK_TAIL_CALLS as 0 there, for the whole program; the CMake
// package does for Debug.
#ifdef CORANK_TAIL_CALLS
inline constexpr bool tail_calls = CORANK_TAIL_CALLS;
#else
inline constexpr bool tail_calls = true;
#endif

[[gnu::always_inline]] inline saved mask() {
  saved before;
  asm volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory");
  return before;
}

// Sets the bits that mask() has read. Only MIE is clear since then, because a masked part changes
// no other one. So no instruction is needed to choose it.
[[gnu::always_inline]] inline void restore(saved before) {
  asm volatile("csrs mstatus, %0" ::"r"(before) : "memory");
}

// Sleeps with wfi, which a pending interrupt ends even if it is masked, provided that mie enables
// it. So no wake is lost. The handler runs when the mask is restored.
[[gnu::always_inline]] inline void wait() { asm volatile("wfi" ::: "memory"); }

[[gnu::always_inline]] inline void poke() {}

}  // namespace corank::port
