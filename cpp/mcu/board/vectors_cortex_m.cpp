// The vector table of a Cortex-M.
#include <stdint.h>

extern "C" {

extern uint32_t _stack_top[];

void reset_handler();

void default_handler() {
  for (;;) asm volatile("bkpt 1");
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
