// How kernels cut their loops into pieces for several workers.
#pragma once

#include <cstdint>

#include "cpu/loops/function_ref.h"

namespace heddle::cpu_kernels {

// Elements a chunk of an elementwise loop: as many as make up for the cost of handing the chunk to another worker.
inline constexpr std::int64_t kElementGrain = 32768;

// parallel_for, which is not called if there is one chunk only.
void parallel_chunks(std::int64_t count, std::int64_t grain,
                     FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

}  // namespace heddle::cpu_kernels
