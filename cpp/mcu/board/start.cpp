// From reset to main(). Needs no library.
#include <stddef.h>
#include <stdint.h>

#include "semihosting.hpp"

extern "C" {

extern uint32_t _data_begin[], _data_end[], _data_load[], _bss_end[], _stack_top[];
extern void (*_init_begin[])();
extern void (*_init_end[])();

int main();

// The C++ ABI's anchor for destructors at the end of the program. The program never ends.
void* __dso_handle = nullptr;
int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
#if defined(__arm__)
int __aeabi_atexit(void*, void (*)(void*), void*) { return 0; }

// clang without optimisation makes tables for unwinding, which refer to these. Neither they nor the
// tables are linked (sections.ld), but without them the linker would search for libgcc's.
void __aeabi_unwind_cpp_pr0() {}
void __aeabi_unwind_cpp_pr1() {}
#endif

// What is called for an interrupt without a handler, and after main(): vectors_*.cpp of the
// processor.
void default_handler();

// Prevents a loop from becoming a call of memcpy or memset, which are larger and slower here.
[[gnu::always_inline]] static inline void as_it_stands() { asm volatile("" ::: "memory"); }

#if defined(CORANK_STACK_GUARD)
void corank_guard_stack();
#endif

// The hook of port::fatal(), for a firmware that defines none: prints the message in the debugger,
// and ends. Without a debugger, that is a hard fault.
[[gnu::weak, noreturn]] void corank_fatal(const char* message) {
  semihosting::print(message, "\n");
  semihosting::exit(false);
}

void reset_handler() {
#if defined(CORANK_STACK_GUARD)
  corank_guard_stack();
#endif
  // Enables the floating-point unit if the code is compiled for it.
#if defined(__ARM_FP)
  *reinterpret_cast<volatile uint32_t*>(0xE000ED88) =
      *reinterpret_cast<volatile uint32_t*>(0xE000ED88) | 0xFu << 20;
#endif
  // .bss follows .data: see sections.ld.
  uint32_t* to = _data_begin;
  for (const uint32_t* from = _data_load; to != _data_end; as_it_stands()) *to++ = *from++;
  for (; to != _bss_end; as_it_stands()) *to++ = 0;
  for (auto init = _init_begin; init != _init_end; ++init) (*init)();
  main();
  default_handler();
  __builtin_unreachable();
}
}
