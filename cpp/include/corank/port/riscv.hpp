// The port for 32-bit RISC-V in machine mode. mstatus.MIE masks interrupts.
#pragma once

#include <stdint.h>

// The hook of fatal(): as for the Cortex-M.
extern "C" [[noreturn]] [[gnu::weak]] void corank_fatal(const char* message);

namespace corank::port {

using saved = uint32_t;
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

#if defined(CORANK_FATAL_MESSAGES) && CORANK_FATAL_MESSAGES == 0
// Traps. The program has no texts of messages.
[[noreturn, gnu::always_inline]] inline void fatal(const char*) { __builtin_trap(); }
#else
// Calls the hook with a message, and traps without one.
[[noreturn, gnu::cold, gnu::noinline]] inline void fatal(const char* message) {
  if (corank_fatal != nullptr) corank_fatal(message);
  __builtin_trap();
}
#endif

}  // namespace corank::port
