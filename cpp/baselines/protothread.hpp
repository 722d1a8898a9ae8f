// Protothreads: a task is a function that continues at a label, by a switch over the line number.
// The macros are written anew from the description of protothreads. Data on the stack is lost at
// each yield, so a task keeps its data in a struct. The models `protothreads` of the
// microcontroller's benchmarks and of the interleaver's are written with these macros.
#pragma once

#define PT_BEGIN(pt)   \
  switch ((pt).line) { \
    case 0:
#define PT_YIELD(pt)      \
  do {                    \
    (pt).line = __LINE__; \
    return false;         \
    case __LINE__:;       \
  } while (false)
#define PT_END(pt) \
  }                \
  (pt).line = 0;   \
  return true
