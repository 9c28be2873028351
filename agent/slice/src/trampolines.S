/* One jump for every exported name that is not hooked, so that programs can be linked against the shim.
 * The first call of a name goes through trampoline_resolve(); every later one is a load and a jump (1 to 2 ns).
 * Arguments pass untouched: all registers that can hold one are kept over the first call. */

#if defined(__x86_64__)

    .macro trampoline name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    endbr64
    jmp *(trampoline_table + 8 * number)(%rip)
    .size \name, . - \name
    .local first_\name
    .type first_\name, @function
first_\name:
    endbr64
    pushq $number
    jmp resolve
    .pushsection .data.rel.local.trampolines, "aw", @progbits
    .quad first_\name
    .popsection
    .set number, number + 1
    .endm

    .text
    .p2align 4
    .type resolve, @function
resolve: /* the stack: number, return address; 16-byte aligned here (the caller's call and our push) */
    .cfi_startproc
    .cfi_def_cfa_offset 16
    subq $192, %rsp
    .cfi_adjust_cfa_offset 192
    movq %rdi, 128(%rsp)
    movq %rsi, 136(%rsp)
    movq %rdx, 144(%rsp)
    movq %rcx, 152(%rsp)
    movq %r8, 160(%rsp)
    movq %r9, 168(%rsp)
    movq %rax, 176(%rsp)
    movups %xmm0, (%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    movq 192(%rsp), %rdi
    call trampoline_resolve
    movq %rax, %r11
    movq 128(%rsp), %rdi
    movq 136(%rsp), %rsi
    movq 144(%rsp), %rdx
    movq 152(%rsp), %rcx
    movq 160(%rsp), %r8
    movq 168(%rsp), %r9
    movq 176(%rsp), %rax
    movups (%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    addq $200, %rsp
    .cfi_adjust_cfa_offset -200
    jmp *%r11
    .cfi_endproc
    .size resolve, . - resolve

#elif defined(__aarch64__)

    .macro trampoline name
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    hint #34 /* bti c */
    adrp x16, trampoline_table + 8 * number
    add x16, x16, :lo12:trampoline_table + 8 * number
    ldr x17, [x16]
    br x17
    .size \name, . - \name
    .local first_\name
    .type first_\name, %function
first_\name:
    hint #34
    mov x16, #number
    b resolve
    .pushsection .data.rel.local.trampolines, "aw", %progbits
    .xword first_\name
    .popsection
    .set number, number + 1
    .endm

    .text
    .p2align 4
    .type resolve, %function
resolve: /* x16: the number */
    .cfi_startproc
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov x0, x16
    bl trampoline_resolve
    mov x17, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x17
    .cfi_endproc
    .size resolve, . - resolve

#else
#error "the slice library knows x86-64 and aarch64"
#endif

    .pushsection .data.rel.local.trampolines, "aw"
    .p2align 3
    .globl trampoline_table
    .hidden trampoline_table
trampoline_table:
    .popsection
    .hidden trampoline_resolve
    .set number, 0
    .text
#define NAME(name) trampoline name;
#include NAMES
    .section .note.GNU-stack, "", %progbits
