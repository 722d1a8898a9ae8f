// From reset to main(), and the vector table. Needs no library.
#include <stddef.h>
#include <stdint.h>

extern "C" {

extern uint32_t _data_begin[], _data_end[], _data_load[], _bss_begin[], _bss_end[], _stack_top[];
extern void (*_init_begin[])();
extern void (*_init_end[])();

int main();

// The C++ ABI's anchor for destructors at the end of the program. It never ends.
void* __dso_handle = nullptr;
int __aeabi_atexit(void*, void (*)(void*), void*) { return 0; }
int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }

void default_handler() {
  for (;;) asm volatile("bkpt 1");
}

void reset_handler() {
  // The floating-point unit, where the code is compiled for it.
#if defined(__ARM_FP)
  *reinterpret_cast<volatile uint32_t*>(0xE000ED88) = *reinterpret_cast<volatile uint32_t*>(0xE000ED88) | 0xFu << 20;
#endif
  const uint32_t* from = _data_load;
  for (uint32_t* to = _data_begin; to != _data_end;) *to++ = *from++;
  for (uint32_t* to = _bss_begin; to != _bss_end;) *to++ = 0;
  for (auto init = _init_begin; init != _init_end; ++init) (*init)();
  main();
  default_handler();
}

// A firmware defines those that it needs.
#define CORANK_HANDLER(name) void name() __attribute__((weak, alias("default_handler")))
CORANK_HANDLER(nmi_handler);
CORANK_HANDLER(hard_fault_handler);
CORANK_HANDLER(svc_handler);
CORANK_HANDLER(pendsv_handler);
CORANK_HANDLER(systick_handler);
#ifndef CORANK_CORE_VECTORS_ONLY
#define CORANK_IRQ(number) CORANK_HANDLER(irq##number##_handler)
#define CORANK_TEN(ten)                                                                                                              \
  CORANK_IRQ(ten##0); CORANK_IRQ(ten##1); CORANK_IRQ(ten##2); CORANK_IRQ(ten##3); CORANK_IRQ(ten##4); CORANK_IRQ(ten##5); CORANK_IRQ(ten##6); \
  CORANK_IRQ(ten##7); CORANK_IRQ(ten##8); CORANK_IRQ(ten##9)
CORANK_TEN();
CORANK_TEN(1);
CORANK_TEN(2);
CORANK_TEN(3);
CORANK_TEN(4);
CORANK_TEN(5);
CORANK_TEN(6);
CORANK_TEN(7);
#endif

#define CORANK_TEN_NAMES(ten)                                                                                                           \
  irq##ten##0_handler, irq##ten##1_handler, irq##ten##2_handler, irq##ten##3_handler, irq##ten##4_handler, irq##ten##5_handler, irq##ten##6_handler, \
      irq##ten##7_handler, irq##ten##8_handler, irq##ten##9_handler

using handler = void (*)();
// The core's sixteen, and those of the devices; a firmware without device interrupts can do without the latter.
[[gnu::section(".vectors"), gnu::used]] const handler vectors[] = {
    reinterpret_cast<handler>(_stack_top), reset_handler, nmi_handler, hard_fault_handler, default_handler, default_handler, default_handler,
    nullptr, nullptr, nullptr, nullptr, svc_handler, default_handler, nullptr, pendsv_handler, systick_handler,
#ifndef CORANK_CORE_VECTORS_ONLY
    CORANK_TEN_NAMES(), CORANK_TEN_NAMES(1), CORANK_TEN_NAMES(2), CORANK_TEN_NAMES(3), CORANK_TEN_NAMES(4), CORANK_TEN_NAMES(5),
    CORANK_TEN_NAMES(6), CORANK_TEN_NAMES(7),
#endif
};
}
