// Counts instructions and prints the counts. Every model's firmware includes this file, so that all
// are counted in the same way.
#pragma once

#include "board/semihosting.hpp"
#include "board/systick.hpp"

#define CORANK_TEXT_OF(x) #x
#define CORANK_TEXT(x) CORANK_TEXT_OF(x)

namespace bench {

// The number of yields of each task.
inline constexpr uint32_t rounds = 1000;
inline constexpr uint32_t most_tasks = 64;

// Prints one row: instructions per switch, with two decimals. QEMU's -icount shift=0 gives each
// instruction a nanosecond, and SysTick counts at 168 MHz.
inline void row(const char* model, uint32_t tasks, uint32_t levels, uint32_t first_level,
                uint32_t ticks) {
  const uint32_t switches = tasks * rounds;
  const uint64_t total = static_cast<uint64_t>(ticks) * 1000 * 100 / 168;
  const auto hundredths = static_cast<uint32_t>((total + switches / 2) / switches);
  semihosting::print("@row {\"experiment\": \"mcu-switch\", \"model\": \"", model,
                     "\", \"tasks\": ", tasks, ", \"levels\": ", levels);
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
  systick::count();
  const uint32_t before = systick::now();
  run();
  return (systick::now() - before) & systick::top;
}

}  // namespace bench
