# OpenSBI enters here with the hart's number in a0 and the device tree's address in a1; paging is off.
    .section .text.start
    .globl _start
_start:
    # Once only: see `start_others` in boot/harts.rs.
    la      t0, entered
    li      t1, 1
    amoswap.w.aqrl t1, t1, (t0)
    bnez    t1, start_other
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

# OpenSBI enters here on every other hart, with its number in a0; paging is off.
    .globl start_other
start_other:
    la      a1, START
    ld      t0, 0(a1)
    ld      sp, 8(a1)
    csrw    satp, t0
    sfence.vma
    csrw    sscratch, zero
    mv      s0, sp
    call    boot_other
    mv      sp, s0
    call    run

# Not among what is cleared.
    .section .data.entered, "aw"
    .balign 4
entered:
    .word   0
