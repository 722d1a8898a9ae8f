// Prints text to the debugger (here: QEMU), and ends the program.
#pragma once

#include <stdint.h>

namespace semihosting {

#if defined(__riscv)
// The debugger knows the call by the instructions around the breakpoint, which lie in one page.
[[gnu::noinline]] inline int call(int operation, const void* argument) {
  register int a0 asm("a0") = operation;
  register const void* a1 asm("a1") = argument;
  asm volatile(
      ".option push\n\t"
      ".option norvc\n\t"
      ".balign 16\n\t"
      "slli zero, zero, 0x1f\n\t"
      "ebreak\n\t"
      "srai zero, zero, 7\n\t"
      ".option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
  return a0;
}
#else
inline int call(int operation, const void* argument) {
  register int r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
#endif

inline void write(const char* text) { call(0x04, text); }

inline void write(uint32_t number) {
  char digits[11];
  char* at = digits + 10;
  *at = 0;
  do {
    *--at = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  write(at);
}

inline void write_hex(uint32_t number) {
  char digits[9];
  for (int at = 0; at < 8; ++at) digits[at] = "0123456789abcdef"[number >> (28 - 4 * at) & 15];
  digits[8] = 0;
  write(digits);
}

// Prints texts and numbers, one after the other.
template <class... Parts>
void print(Parts... parts) {
  (write(parts), ...);
}

// Ends QEMU, with exit code 0 or 1.
[[noreturn]] inline void exit(bool success) {
  constexpr uintptr_t application_exit = 0x20026, run_time_error = 0x20023;
  call(0x18, reinterpret_cast<const void*>(success ? application_exit : run_time_error));
  for (;;) asm volatile("wfi");
}

}  // namespace semihosting
