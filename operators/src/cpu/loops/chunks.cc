#include "cpu/loops/chunks.h"

#include <heddle/parallel.h>

namespace heddle::cpu_kernels {

void parallel_chunks(std::int64_t count, std::int64_t grain,
                     FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  if (count <= 0) return;
  if (count <= grain) return body(0, count);
  parallel_for(count, grain, body);
}

}  // namespace heddle::cpu_kernels
