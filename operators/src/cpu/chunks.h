// How kernels cut their loops into pieces for several workers.
#pragma once

#include <cstdint>

#include <heddle/parallel.h>

namespace heddle::cpu_kernels {

// Elements a chunk of an elementwise loop: as many as make up for the cost of handing the chunk to another worker.
inline constexpr std::int64_t kElementGrain = 32768;

// parallel_for, which is not called if there is one chunk only.
template <class Body> void parallel_chunks(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (count <= grain) return body(std::int64_t{0}, count);
  parallel_for(count, grain, body);
}

}  // namespace heddle::cpu_kernels
