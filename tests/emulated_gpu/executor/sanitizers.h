// What the sanitizers offer to code that switches stacks and manages memory. The functions are null in a program
// without that sanitizer: the executor and the memory of the emulated GPU are compiled once for all, uninstrumented.
#pragma once

#include <cstddef>

extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* low, std::size_t bytes);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** low, std::size_t* bytes);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* at, std::size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* at, std::size_t bytes);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
}

namespace heddle::emulated_gpu {

inline bool with_asan() { return &__asan_poison_memory_region != nullptr; }
inline bool with_tsan() { return &__tsan_create_fiber != nullptr; }

inline void asan_poison(const volatile void* at, std::size_t bytes) {
  if (with_asan()) __asan_poison_memory_region(at, bytes);
}
inline void asan_unpoison(const volatile void* at, std::size_t bytes) {
  if (with_asan()) __asan_unpoison_memory_region(at, bytes);
}
inline void tsan_acquire(void* address) {
  if (with_tsan()) __tsan_acquire(address);
}
inline void tsan_release(void* address) {
  if (with_tsan()) __tsan_release(address);
}

}  // namespace heddle::emulated_gpu
