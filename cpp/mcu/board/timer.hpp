// The timer that every chip of an architecture has: SysTick, or RISC-V's machine timer.
#pragma once

#if defined(__riscv)
#include "mtimer.hpp"
namespace timer = mtimer;
#else
#include "systick.hpp"
namespace timer = systick;
#endif
