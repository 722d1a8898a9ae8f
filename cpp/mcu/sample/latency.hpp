// Measures the time from an interrupt handler's first instruction to the first one of the code that
// waited. Only the firmware for this measurement has the code.
#pragma once

#if defined(CORANK_LATENCY)

#include "board/semihosting.hpp"
#include "board/systick.hpp"

namespace latency {

inline uint32_t began, total, count;

inline void start() { systick::count(); }
[[gnu::always_inline]] inline void interrupted() { began = systick::now(); }
[[gnu::always_inline]] inline void woken() {
  total += (systick::now() - began) & systick::top;
  ++count;
}
// A tick is 80 ns (12.5 MHz), and an instruction 64 ns under -icount shift=6.
inline void show() { semihosting::print("@latency ", total * 80 / 64 / count, "\n"); }

}  // namespace latency

#else

namespace latency {
inline void start() {}
inline void interrupted() {}
inline void woken() {}
inline void show() {}
}  // namespace latency

#endif
