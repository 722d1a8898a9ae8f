// The handler of SysTick, and Thumb's instructions.
#include "board/timer.hpp"
#include "handler.hpp"

extern "C" {

[[gnu::used]] void systick_seen(const uintptr_t* stacked) { timer_seen(stacked[6]); }

[[gnu::naked]] void systick_handler() {
  // An RTOS's tasks have a stack of their own. A call, because Armv6-M has no branch as far as the
  // other function may be.
  asm volatile(
      ".syntax unified\n\t"
      "mov r0, sp\n\t"
      "mov r1, lr\n\t"
      "lsrs r1, r1, #3\n\t"
      "bcc 1f\n\t"
      "mrs r0, psp\n"
      "1:\n\t"
      "push {r4, lr}\n\t"
      "bl systick_seen\n\t"
      "pop {r4, pc}");
}
}

instruction decode(const uint16_t* at) {
  const uint16_t first = at[0];
  if (first >> 11 >= 0x1D) {
    const bool branch_or_special = (first & 0xF800) == 0xF000 && (at[1] & 0x8000) != 0;
    const bool loads_pc = ((first & 0xFE50) == 0xE810 && (at[1] & 0x8000) != 0) ||
                          ((first & 0xFF70) == 0xF850 && at[1] >> 12 == 15);
    const bool table = (first & 0xFFF0) == 0xE8D0;
    return {4, branch_or_special || loads_pc || table};
  }
  const bool conditional = first >> 12 == 0xD, plain = first >> 11 == 0x1C,
             exchange = first >> 8 == 0x47;
  const bool compare = (first & 0xF500) == 0xB100, pop = first >> 8 == 0xBD,
             masks = first == 0xB672, breakpoint = first >> 8 == 0xBE;
  const bool it_block = first >> 8 == 0xBF, to_pc = (first & 0xFF87) == 0x4687;
  return {2, conditional || plain || exchange || compare || pop || masks || breakpoint ||
                 it_block || to_pc};
}
