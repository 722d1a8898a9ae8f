// From reset to main(), and the vector table. Needs no library.
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
int __aeabi_atexit(void*, void (*)(void*), void*) { return 0; }
int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }

// clang without optimisation makes tables for unwinding, which refer to these. Neither they nor the
// tables are linked (sections.ld), but without them the linker would search for libgcc's.
void __aeabi_unwind_cpp_pr0() {}
void __aeabi_unwind_cpp_pr1() {}

void default_handler() {
  for (;;) asm volatile("bkpt 1");
}

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
}

// A firmware defines the handlers that it needs.
#define CORANK_HANDLER(name) void name() __attribute__((weak, alias("default_handler")))
CORANK_HANDLER(nmi_handler);
CORANK_HANDLER(hard_fault_handler);
#if defined(CORANK_STACK_GUARD)
void mem_manage_handler();
#else
CORANK_HANDLER(mem_manage_handler);
#endif
CORANK_HANDLER(svc_handler);
CORANK_HANDLER(pendsv_handler);
CORANK_HANDLER(systick_handler);
using handler = void (*)();
[[gnu::section(".vectors"), gnu::used]] const handler vectors[] = {
    reinterpret_cast<handler>(_stack_top),
    reset_handler,
    nmi_handler,
    hard_fault_handler,
    mem_manage_handler,
    default_handler,
    default_handler,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    svc_handler,
    default_handler,
    nullptr,
    pendsv_handler,
    systick_handler,
};
}

// Behind the core's sixteen vectors, those of the board's devices: irq0_handler and so on. A macro
// of the assembler makes them, because the preprocessor cannot count.
#define CORANK_TEXT_OF(x) #x
#define CORANK_TEXT(x) CORANK_TEXT_OF(x)
asm("\t.altmacro\n"
    "\t.macro device_vector number\n"
    "\t.weak irq\\number\\()_handler\n"
    "\t.thumb_set irq\\number\\()_handler, default_handler\n"
    "\t.long irq\\number\\()_handler\n"
    "\t.endm\n"
    "\t.pushsection .vectors.devices,\"a\",%progbits\n"
    "\t.set corank_device, 0\n"
    "\t.rept " CORANK_TEXT(CORANK_DEVICE_VECTORS) "\n"
    "\tdevice_vector %corank_device\n"
    "\t.set corank_device, corank_device + 1\n"
    "\t.endr\n"
    "\t.popsection\n"
    "\t.noaltmacro\n");
