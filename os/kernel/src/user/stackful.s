# Going on on another stack. What a function may expect to find unchanged after a call is kept on the stack that is left. `tp` is not:
# it names the hart, and a stack may go on on another one.

    .section .text.switch_stack, "ax", @progbits
    .globl switch_stack
switch_stack:
    # a0: where to write the stack pointer that is left; a1: the one to go on with.
    addi    sp, sp, -14*8
    sd      ra, 0*8(sp)
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11
    sd      s\r, (\r+1)*8(sp)
    .endr
    sd      sp, 0(a0)
    mv      sp, a1
    ld      ra, 0*8(sp)
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11
    ld      s\r, (\r+1)*8(sp)
    .endr
    addi    sp, sp, 14*8
    ret

    .globl begin_on_stack
begin_on_stack:
    # s0: what the function gets, s1: the function; it does not return.
    mv      a0, s0
    jr      s1
