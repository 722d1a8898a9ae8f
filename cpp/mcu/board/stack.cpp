// Paints the stack and guards its end. `STACK_GUARD OFF` of corank_firmware() leaves this out.
//
// Armv7-M has an MPU in most chips: the guard's 128 bytes are read-only. A push there, or an
// exception that stores registers there, is a fault of memory management. Armv6-M has none, and
// Armv8-M another one, which is not used here: there, check stack::has_overflowed(). On RISC-V a
// locked region of the physical memory protection is read-only in machine mode, too.
#include "stack.hpp"

#include <corank/port.hpp>

extern "C" {

// The first thing after reset, so that nothing below its own frame is in use.
void corank_guard_stack() {
  uint32_t* end;
#if defined(__riscv)
  asm volatile("mv %0, sp" : "=r"(end));
#else
  asm volatile("mov %0, sp" : "=r"(end));
#endif
  for (volatile uint32_t* at = _stack_guard; at < end; ++at) *at = stack::paint;
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)
  struct mpu {
    volatile uint32_t type, control, number, base, attributes;
  };
  auto& unit = *reinterpret_cast<mpu*>(0xE000ED90);
  const uint32_t regions = unit.type >> 8 & 0xFF;
  if (regions == 0) return;
  constexpr uint32_t size_128 = 6 << 1, read_only = 5u << 24, never_execute = 1u << 28, enable = 1;
  // The last region counts where several overlap. Elsewhere everything is as without the MPU.
  unit.number = regions - 1;
  unit.base = reinterpret_cast<uintptr_t>(_stack_guard);
  unit.attributes = never_execute | read_only | size_128 | enable;
  constexpr uint32_t default_map = 4;
  unit.control = default_map | enable;
  // An exception of its own: the hard fault could not store registers either, and would lock up.
  auto& handlers = *reinterpret_cast<volatile uint32_t*>(0xE000ED24);
  handlers = handlers | 1u << 16;
  asm volatile("dsb\n\tisb" ::: "memory");
#elif defined(__riscv)
  // 128 bytes: four bits of the address say how many. No entry before this one may cover them.
  const uintptr_t region = reinterpret_cast<uintptr_t>(_stack_guard) >> 2 | 0xF;
  constexpr uint32_t locked = 0x80, power_of_two = 0x18, read_only = 0x01;
  asm volatile("csrw pmpaddr0, %0\n\tcsrw pmpcfg0, %1" ::"r"(region),
               "r"(locked | power_of_two | read_only)
               : "memory");
#endif
}

#if !defined(__riscv)

[[gnu::used, noreturn]] static void report_overflow() { corank::port::fatal(stack::overflow); }

// The stack is full, so the handler begins at its top again.
[[gnu::naked, gnu::weak]] void mem_manage_handler() {
  asm volatile(
      "ldr r0, =_stack_top\n\t"
      "mov sp, r0\n\t"
      "cpsid i\n\t"
      "bl %c0\n\t"
      ".ltorg" ::"i"(report_overflow));
}
#endif
}
