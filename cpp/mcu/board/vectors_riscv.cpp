// The first instructions after reset, and the trap handler, for 32-bit RISC-V in machine mode.
#include <corank/port.hpp>

#include "stack.hpp"

extern "C" {

// Called by the first instructions.
void reset_handler();

void default_handler() {
  for (;;) asm volatile("ebreak");
}

// A firmware defines the handlers that it needs. An interrupt stays pending until its handler has
// told the device. Handlers do not interrupt each other.
#define CORANK_HANDLER(name) void name() __attribute__((weak, alias("default_handler")))
CORANK_HANDLER(software_handler);
CORANK_HANDLER(timer_handler);
CORANK_HANDLER(external_handler);

// What the processor cannot execute ends the program. `cause`, `at` and `value` are mcause, mepc
// and mtval. A firmware may define another one. It begins at the top of the stack.
[[gnu::weak, noreturn]] void exception_handler(uint32_t cause, [[maybe_unused]] uintptr_t at,
                                               uintptr_t value) {
  constexpr uint32_t store_access_fault = 7;
  const auto guard = reinterpret_cast<uintptr_t>(_stack_guard);
  if (cause == store_access_fault && value - guard < 128) corank::port::fatal(stack::overflow);
  corank::port::fatal("corank: the processor cannot execute an instruction: see mcause and mepc");
}

[[gnu::used]] static void dispatch(uint32_t cause) {
  switch (cause & 0x7FFF'FFFF) {
    case 3:
      return software_handler();
    case 7:
      return timer_handler();
    case 11:
      return external_handler();
    default:
      return default_handler();
  }
}

// An exception finds no place on a stack that has overflowed, and does not return: it begins at the
// top. mscratch keeps a register until it is known which of the two this is.
[[gnu::naked, gnu::used, gnu::aligned(4)]] static void trap_entry() {
  asm volatile(
      "csrw mscratch, t0\n\t"
      "csrr t0, mcause\n\t"
      "bgez t0, 1f\n\t"
      "csrr t0, mscratch\n\t"
      "addi sp, sp, -64\n\t"
      "sw ra, 0(sp)\n\t"
      "sw t0, 4(sp)\n\t"
      "sw t1, 8(sp)\n\t"
      "sw t2, 12(sp)\n\t"
      "sw t3, 16(sp)\n\t"
      "sw t4, 20(sp)\n\t"
      "sw t5, 24(sp)\n\t"
      "sw t6, 28(sp)\n\t"
      "sw a0, 32(sp)\n\t"
      "sw a1, 36(sp)\n\t"
      "sw a2, 40(sp)\n\t"
      "sw a3, 44(sp)\n\t"
      "sw a4, 48(sp)\n\t"
      "sw a5, 52(sp)\n\t"
      "sw a6, 56(sp)\n\t"
      "sw a7, 60(sp)\n\t"
      "csrr a0, mcause\n\t"
      "call %0\n\t"
      "lw ra, 0(sp)\n\t"
      "lw t0, 4(sp)\n\t"
      "lw t1, 8(sp)\n\t"
      "lw t2, 12(sp)\n\t"
      "lw t3, 16(sp)\n\t"
      "lw t4, 20(sp)\n\t"
      "lw t5, 24(sp)\n\t"
      "lw t6, 28(sp)\n\t"
      "lw a0, 32(sp)\n\t"
      "lw a1, 36(sp)\n\t"
      "lw a2, 40(sp)\n\t"
      "lw a3, 44(sp)\n\t"
      "lw a4, 48(sp)\n\t"
      "lw a5, 52(sp)\n\t"
      "lw a6, 56(sp)\n\t"
      "lw a7, 60(sp)\n\t"
      "addi sp, sp, 64\n\t"
      "mret\n"
      "1:\n\t"
      "csrr a0, mcause\n\t"
      "csrr a1, mepc\n\t"
      "csrr a2, mtval\n\t"
      "la sp, _stack_top\n\t"
      "tail exception_handler" ::"i"(dispatch));
}

// The first thing in the image, where execution begins. Interrupts are on from here, and each
// device's is enabled by itself, as on a Cortex-M.
[[gnu::naked, gnu::used, gnu::section(".vectors")]] void corank_entry() {
  asm volatile(
      ".option push\n\t"
      ".option norelax\n\t"
      "la gp, __global_pointer$\n\t"
      ".option pop\n\t"
      "la sp, _stack_top\n\t"
      "la t0, %0\n\t"
      "csrw mtvec, t0\n\t"
      "csrw mie, zero\n\t"
      "csrsi mstatus, 8\n\t"
      "tail reset_handler" ::"i"(trap_entry));
}
}
