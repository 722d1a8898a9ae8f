// The interrupt of the timer, which several suites use, and what a processor tells about it.
#pragma once

#include <stdint.h>

// Called instead of the handler that interrupts.cpp needs, if it is not null.
extern void (*timer_instead)();

// The handler of interrupts.cpp; `at` is the address of the instruction before which it came.
extern "C" void timer_seen(uintptr_t at);

// How long an instruction is, and whether any other one may follow it: it is a branch, or the
// beginning of a masked part, at whose end the interrupt is taken.
struct instruction {
  uint32_t bytes;
  bool leads_elsewhere;
};
instruction decode(const uint16_t* at);
