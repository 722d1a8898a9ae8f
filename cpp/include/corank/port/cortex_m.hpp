// The port for Armv6-M, Armv7-M and Armv8-M. PRIMASK masks interrupts.
//
// With CORANK_BASEPRI defined, for the whole program, BASEPRI masks those whose priority has this
// number or a greater one. So more urgent interrupts wait for nothing here. Their handlers use
// nothing of this library. Only Armv7-M and the mainline of Armv8-M have BASEPRI. The chip's number
// of priority bits says which numbers differ: with four bits, those in steps of 16.
#pragma once

#include <stdint.h>

#include "fatal.hpp"

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

#if defined(CORANK_BASEPRI)

static_assert(CORANK_BASEPRI > 0 && CORANK_BASEPRI < 256, "BASEPRI is 1 to 255: 0 masks nothing");
static_assert(__ARM_ARCH_ISA_THUMB >= 2,
              "this processor has no BASEPRI: do not define CORANK_BASEPRI");

// basepri_max only ever raises the mask, so one by the firmware that is stricter stays.
[[gnu::always_inline]] inline saved mask() {
  saved before;
  asm volatile("mrs %0, basepri\n\tmsr basepri_max, %1\n\tisb"
               : "=&r"(before)
               : "r"(CORANK_BASEPRI)
               : "memory");
  return before;
}

[[gnu::always_inline]] inline void restore(saved before) {
  asm volatile("msr basepri, %0" ::"r"(before) : "memory");
}

// An interrupt that BASEPRI masks does not end wfi, and one that PRIMASK masks does. So PRIMASK
// masks during the sleep.
[[gnu::always_inline]] inline void wait() {
  saved before;
  asm volatile(
      "cpsid i\n\t"
      "mrs %0, basepri\n\t"
      "msr basepri, %1\n\t"
      "dsb\n\t"
      "wfi\n\t"
      "msr basepri, %0\n\t"
      "cpsie i"
      : "=&r"(before)
      : "r"(0)
      : "memory");
}

#else

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

#endif

[[gnu::always_inline]] inline void poke() {}

}  // namespace corank::port
