// Switches between stacks of one host thread.
#pragma once

#include <cstddef>

namespace heddle::emulated_gpu {

// Saves the caller's registers on its stack and the stack's address in *from; continues where `to` was saved.
extern "C" void heddle_switch_stack(void** from, void* to);

// What heddle_switch_stack() takes to call entry() on an unused stack. entry() must not return.
void* prepare_stack(void* low, std::size_t bytes, void (*entry)());

}  // namespace heddle::emulated_gpu
