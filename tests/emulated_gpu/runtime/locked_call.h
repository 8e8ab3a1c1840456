// Calls whose whole body holds Runtime::mutex.
#pragma once

#include "runtime/runtime.h"

namespace heddle::emulated_gpu {

template <class F> cudaError_t locked_call(const char* name, F body) noexcept {
  return call(name, [&body] {
    const std::lock_guard guard(runtime().mutex);
    body();
  });
}
template <class F> cudaError_t locked_release_call(const char* name, F body) noexcept {
  return release_call(name, [&body] {
    const std::lock_guard guard(runtime().mutex);
    body();
  });
}

// refuse_unsafe_call() for calls that do not hold it.
inline void refuse_unsafe_call_unlocked() {
  const std::lock_guard guard(runtime().mutex);
  refuse_unsafe_call();
}

}  // namespace heddle::emulated_gpu
