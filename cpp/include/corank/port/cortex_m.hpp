// The port for Armv6-M, Armv7-M and Armv8-M. PRIMASK masks interrupts.
#pragma once

#include <stdint.h>

// The hook of fatal(): a firmware may define it, to log the message and to stop or to reset. It may
// run in an interrupt handler. corank_firmware() brings one that prints in the debugger.
extern "C" [[noreturn]] [[gnu::weak]] void corank_fatal(const char* message);

namespace corank::port {

using saved = uint32_t;
inline constexpr bool parallel = false;
// The 16-bit instructions of Armv6-M and of Armv8-M's baseline have no branch for tail calls: clang
// refuses them and GCC makes none. GCC makes none below -O2 either. No macro tells that level, so
// define CORANK_TAIL_CALLS as 0 there, for the whole program; the CMake package does for Debug.
#ifdef CORANK_TAIL_CALLS
inline constexpr bool tail_calls = CORANK_TAIL_CALLS;
#else
inline constexpr bool tail_calls = __ARM_ARCH_ISA_THUMB >= 2;
#endif

[[gnu::always_inline]] inline saved mask() {
  saved before;
  asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(before)::"memory");
  return before;
}

[[gnu::always_inline]] inline void restore(saved before) {
  asm volatile("msr primask, %0" ::"r"(before) : "memory");
}

// Sleeps with wfi, which a pending interrupt ends even if it is masked. So no wake is lost. The
// handler runs when the mask is restored.
[[gnu::always_inline]] inline void wait() { asm volatile("dsb\n\twfi" ::: "memory"); }

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
