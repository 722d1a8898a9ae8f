// Protothreads: a task is a function that continues at a label, by a switch over the line number.
// Written anew from their description; what lies on the stack is lost at each yield, so what a task
// keeps is in a struct. The models `protothreads` of the microcontroller's benchmarks and of the
// interleaver's are written with it.
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
