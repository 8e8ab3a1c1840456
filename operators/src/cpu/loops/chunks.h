// How kernels divide their loops into chunks for several workers.
#pragma once

#include <cstdint>

#include "cpu/loops/function_ref.h"

namespace heddle::cpu_kernels {

// Elements of a chunk of an elementwise loop: enough to make up for the cost of passing the chunk to another
// worker.
inline constexpr std::int64_t kElementGrain = 32768;

// Calls the body as parallel_for does, but without parallel_for if there is one chunk only.
void parallel_chunks(std::int64_t count, std::int64_t grain,
                     FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

}  // namespace heddle::cpu_kernels
