# The way between kernel and user mode. See trap.rs for the layouts.
#
# The trampoline lies at the same address in every address space, so that `satp` can change under it. `tp` is the
# address of the hart's page while the kernel runs; it waits in `sscratch` while user mode runs, and `sscratch` is zero
# while the kernel runs.

    # The hart's page.
    .equ HART_A0, 0
    .equ HART_A1, 8
    .equ HART_TP, 16
    .equ HART_KERNEL_SATP, 24
    .equ HART_FLUSH, 32
    .equ HART_CONTEXT, 40
    .equ HART_STACK, 48
    .equ HART_LEAVE, 56
    .equ HART_KERNEL_TRAP, 64
    .equ HART_EMERGENCY, 72

    # The user context: x1 to x31 at eight times their number, then this.
    .equ CONTEXT_PC, 256

    .section .text.trampoline
    .globl trap_entry
    .balign 4
trap_entry:
    csrrw   tp, sscratch, tp
    beqz    tp, from_kernel
    sd      a0, HART_A0(tp)
    ld      a0, HART_KERNEL_SATP(tp)
    csrw    satp, a0
    ld      a0, HART_FLUSH(tp)
    beqz    a0, 1f
    sfence.vma
1:  ld      a0, HART_CONTEXT(tp)
    sd      x1, 1*8(a0)
    sd      x2, 2*8(a0)
    sd      x3, 3*8(a0)
    .irp r, 5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd      x\r, \r*8(a0)
    .endr
    ld      t0, HART_A0(tp)
    sd      t0, 10*8(a0)
    csrrw   t0, sscratch, zero
    sd      t0, 4*8(a0)
    csrr    t0, sepc
    sd      t0, CONTEXT_PC(a0)
    # Return to the caller of `enter_user`, with the cause. The other control registers are read where they are needed: most
    # traps do without, and an emulator leaves its straight way for each.
    csrr    a0, scause
    ld      sp, HART_STACK(tp)
    ld      ra, 0*8(sp)
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11
    ld      s\r, (\r+1)*8(sp)
    .endr
    addi    sp, sp, 14*8
    ret

from_kernel:
    # The kernel takes no interrupts and makes no mistakes: what comes here is a defect. Report it from a fresh stack.
    csrrw   tp, sscratch, tp
    ld      sp, HART_EMERGENCY(tp)
    ld      t0, HART_KERNEL_TRAP(tp)
    csrr    a0, scause
    csrr    a1, stval
    csrr    a2, sepc
    jr      t0

    .globl trap_leave
trap_leave:
    # a0: context, a1: the process's satp.
    ld      t0, CONTEXT_PC(a0)
    csrw    sepc, t0
    csrw    sscratch, tp
    ld      t0, 10*8(a0)
    sd      t0, HART_A0(tp)
    ld      t0, 11*8(a0)
    sd      t0, HART_A1(tp)
    ld      t0, 4*8(a0)
    sd      t0, HART_TP(tp)
    ld      x1, 1*8(a0)
    ld      x2, 2*8(a0)
    ld      x3, 3*8(a0)
    .irp r, 5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld      x\r, \r*8(a0)
    .endr
    csrw    satp, a1
    ld      a0, HART_FLUSH(tp)
    beqz    a0, 1f
    sfence.vma
1:  ld      a0, HART_A0(tp)
    ld      a1, HART_A1(tp)
    ld      tp, HART_TP(tp)
    sret

    .section .text.enter_user, "ax", @progbits
    .globl enter_user
enter_user:
    addi    sp, sp, -14*8
    sd      ra, 0*8(sp)
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11
    sd      s\r, (\r+1)*8(sp)
    .endr
    sd      sp, HART_STACK(tp)
    sd      a0, HART_CONTEXT(tp)
    ld      t0, HART_LEAVE(tp)
    jr      t0
