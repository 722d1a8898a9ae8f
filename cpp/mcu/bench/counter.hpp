// Counts instructions and prints the counts. Every model's firmware includes this file, so that all
// are counted in the same way.
#pragma once

#include "board/semihosting.hpp"
#include "board/timer.hpp"

#define CORANK_TEXT_OF(x) #x
#define CORANK_TEXT(x) CORANK_TEXT_OF(x)

namespace bench {

// The number of yields of each task.
inline constexpr uint32_t rounds = 1000;
inline constexpr uint32_t most_tasks = 64;

#if defined(__riscv)
#define CORANK_BENCH_ARCHITECTURE "-rv32"
#else
#define CORANK_BENCH_ARCHITECTURE ""
#endif

// Returns a hundred times the instructions in so many ticks. QEMU's -icount shift=0 gives each
// instruction a nanosecond. SysTick counts at 168 MHz; RISC-V counts the instructions themselves.
inline uint64_t hundredths_of(uint32_t ticks) {
#if defined(__riscv)
  return uint64_t{ticks} * 100;
#else
  return static_cast<uint64_t>(ticks) * 1000 * 100 / 168;
#endif
}

// Prints one row: instructions per switch, with two decimals.
inline void row(const char* model, uint32_t tasks, uint32_t levels, uint32_t first_level,
                uint32_t ticks) {
  const uint32_t switches = tasks * rounds;
  const auto hundredths = static_cast<uint32_t>((hundredths_of(ticks) + switches / 2) / switches);
  semihosting::print("@row {\"experiment\": \"mcu-switch\", \"model\": \"", model,
                     CORANK_BENCH_ARCHITECTURE "\", \"tasks\": ", tasks, ", \"levels\": ", levels);
  if (first_level != 0) semihosting::print(", \"first-level\": ", first_level);
  semihosting::print(
      ", \"compiler\": \"" CORANK_TEXT(CORANK_BENCH_COMPILER) "\", \"opt\": \"" CORANK_TEXT(
          CORANK_BENCH_OPT) "\"",
      ", \"metric\": \"instructions\", \"unit\": \"instructions\", \"value\": ", hundredths / 100,
      ".", hundredths / 10 % 10, hundredths % 10, "}\n");
}

// Returns the number of ticks that `run` takes.
template <class Run>
uint32_t count(Run run) {
  timer::count();
  const uint32_t before = timer::now();
  run();
  return (timer::now() - before) & timer::top;
}

}  // namespace bench
