# OpenSBI enters here with the hart's number in a0 and the device tree's address in a1; paging is off.
    .section .text.start
    .globl _start
_start:
    la      t0, bss_start
    la      t1, bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:  la      sp, stack_top
    csrw    sscratch, zero
    call    boot
    # What boot had on the stack is of no use any more: the loop begins at its upper end.
    la      sp, stack_top
    call    run
