// The handler of the machine's timer, and RISC-V's instructions.
#include "board/timer.hpp"
#include "handler.hpp"

extern "C" void timer_handler() {
  uintptr_t at;
  asm volatile("csrr %0, mepc" : "=r"(at));
  timer_seen(at);
}

instruction decode(const uint16_t* at) {
  const uint16_t first = at[0];
  if ((first & 3) == 3) {
    const uint32_t opcode = first & 0x7F;
    const bool branch = opcode == 0x63, jump = opcode == 0x6F || opcode == 0x67;
    const bool system = opcode == 0x73;  // masks, breakpoints and wfi
    return {4, branch || jump || system};
  }
  const uint32_t quadrant = first & 3, kind = first >> 13;
  const bool jump = quadrant == 1 && (kind == 1 || kind == 5);                 // c.jal, c.j
  const bool branch = quadrant == 1 && kind >= 6;                              // c.beqz, c.bnez
  const bool by_register = quadrant == 2 && kind == 4 && (first & 0x7C) == 0;  // c.jr, c.jalr
  return {2, jump || branch || by_register};
}
