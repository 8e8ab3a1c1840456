#include "executor/stack_switch.h"

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <new>
#include <ucontext.h>
#endif

namespace heddle::emulated_gpu {

#if defined(__x86_64__)

// The callee-saved registers, and the words that control floating point.
asm(R"(
.text
.p2align 4
.globl heddle_switch_stack
.hidden heddle_switch_stack
.type heddle_switch_stack, @function
heddle_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size heddle_switch_stack, .-heddle_switch_stack
)");

void* prepare_stack(void* low, std::size_t bytes, void (*entry)()) {
  auto top = (reinterpret_cast<std::uintptr_t>(low) + bytes) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<std::uintptr_t*>(top);
  // entry() begins as if it had been called: its return address, 0, ends the chain of frames.
  *--words = 0;
  *--words = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 0; i < 6; ++i) *--words = 0;
  return words;
}

#elif defined(__aarch64__)

asm(R"(
.text
.p2align 4
.globl heddle_switch_stack
.hidden heddle_switch_stack
.type heddle_switch_stack, %function
heddle_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size heddle_switch_stack, .-heddle_switch_stack
)");

void* prepare_stack(void* low, std::size_t bytes, void (*entry)()) {
  auto top = (reinterpret_cast<std::uintptr_t>(low) + bytes) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<std::uintptr_t*>(top) - 20;
  for (int i = 0; i < 20; ++i) words[i] = 0;
  words[11] = reinterpret_cast<std::uintptr_t>(entry);  // x30
  return words;
}

#else

// On other processors the C library switches. A suspended stack holds its own ucontext_t.
extern "C" void heddle_switch_stack(void** from, void* to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}

void* prepare_stack(void* low, std::size_t bytes, void (*entry)()) {
  const auto end = (reinterpret_cast<std::uintptr_t>(low) + bytes - sizeof(ucontext_t)) & ~std::uintptr_t{63};
  auto* context = new (reinterpret_cast<void*>(end)) ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = low;
  context->uc_stack.ss_size = end - reinterpret_cast<std::uintptr_t>(low);
  makecontext(context, entry, 0);
  return context;
}

#endif

}  // namespace heddle::emulated_gpu
