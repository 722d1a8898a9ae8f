// The interrupt of SysTick, which several suites use.
#pragma once

// Called instead of the handler that interrupts.cpp needs, if it is not null.
extern void (*systick_instead)();
