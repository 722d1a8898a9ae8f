// Runs the tests on the target, or in an RTOS whose main() calls run_tests(). Prints one line for
// each test, then `N passed, N failed`, and ends QEMU with 0 or 1.
#include "../unit/test.hpp"

#include "board/semihosting.hpp"
#include "board/stack.hpp"
#if defined(CORANK_BOARD_lm3s6965)
#include "hal/lm3s6965/registers.hpp"
#endif
#if defined(CORANK_WITH_TRACES)
#include "../traces/replay.hpp"
#endif

namespace {

test::one* first = nullptr;
bool good;

}  // namespace

test::one::one(const char* suite_name, const char* test_name, void (*body)())
    : suite(suite_name), name(test_name), run(body), next(first) {
  first = this;
}

void test::failed(const char* file, int line, const char* what) {
  if (good) semihosting::print("FAILED\n");
  good = false;
  semihosting::print("  ", file, ":", static_cast<uint32_t>(line), ": ", what, "\n");
}

extern "C" void corank_fatal(const char* message) {
  semihosting::print("FAILED: ", message, "\n");
  semihosting::exit(false);
}

#if !defined(__riscv)
extern "C" void hard_fault_handler() {
  semihosting::print("FAILED: hard fault\n");
  semihosting::exit(false);
}
#endif

void run_tests();

#if !defined(CORANK_PORT)
int main() { run_tests(); }
#endif

void run_tests() {
#if defined(CORANK_BASEPRI)
  // SysTick, which wakes coroutines, is among the interrupts that are masked.
  *reinterpret_cast<volatile uint8_t*>(0xE000ED23) = 0xF0;
#endif
#if defined(CORANK_BOARD_lm3s6965)
  hal::sysctl::clock_devices();
#endif
  uint32_t passed = 0, failed = 0;
  // Each test was put in front of the list. Reversed, they run in the order of their files.
  test::one* in_order = nullptr;
  while (first != nullptr) {
    test::one* const next = first->next;
    first->next = in_order;
    in_order = first;
    first = next;
  }
  for (test::one* each = in_order; each != nullptr; each = each->next) {
    semihosting::print("test ", each->suite, ".", each->name, " ... ");
    good = true;
    each->run();
    ++(good ? passed : failed);
    if (good) semihosting::print("ok\n");
  }
#if defined(CORANK_WITH_TRACES)
  static const replay::embedded_trace traces[] = {
#include "traces.inc"
  };
  uint32_t skipped = 0;
  for (const replay::embedded_trace& each : traces) {
    const replay::report report = replay::run(each);
    if (report.what == replay::outcome::failed)
      semihosting::print("trace ", each.name, " FAILED: line ", uint32_t{report.line}, ": ",
                         report.message, "\n");
    if (report.what == replay::outcome::skipped)
      semihosting::print("trace ", each.name, " skipped: ", report.message, "\n");
    ++(report.what == replay::outcome::failed    ? failed
       : report.what == replay::outcome::skipped ? skipped
                                                 : passed);
  }
  semihosting::print(skipped, " traces skipped\n");
#endif
  if (stack::has_overflowed()) {
    semihosting::print("FAILED: the stack has overflowed\n");
    ++failed;
  }
  semihosting::print("stack: ", uint32_t{stack::used()}, " of ", uint32_t{stack::size()},
                     " bytes\n");
  semihosting::print(passed, " passed, ", failed, " failed\n");
  semihosting::exit(failed == 0);
}
