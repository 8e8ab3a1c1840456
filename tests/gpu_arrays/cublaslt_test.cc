// Products of matrices when cuBLASLt fails: Heddle's own kernel computes them.
#include "cuda/libraries/cublaslt.h"

#include <cuda_runtime_api.h>
#include <emulated_gpu.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/log.h>
#include <heddle/matmul.h>
#include <heddle/ndarray.h>

#include "problems.h"

using namespace heddle;

namespace {

// The product of small integers on a GPU, which has the same bits in any order of sums.
std::vector<float> product_on(Device device, std::int64_t size) {
  const NDArray a = arange(size * size).view({size, size}).copy_to(device);
  return matmul(a, a).to_vector<float>();
}

}  // namespace

TEST_CASE("products of a GPU on which cuBLASLt cannot be used, or that it was not built for") {
  if (gpu_count() < 7) return;
  const auto before = cuda_kernels::cublaslt_stats().called;
  for (const std::int64_t size : {5, 6}) {
    emulated_gpu::cublaslt_create_status = size == 5 ? 1 : 0;  // it is not tried again
    CHECK(product_on(gpu(6), size) == product_on(cpu(), size));
  }
  for (const int status : {8, 15}) {
    emulated_gpu::cublaslt_heuristic_status = status;
    CHECK(product_on(gpu(5), status) == product_on(cpu(), status));
    emulated_gpu::cublaslt_heuristic_status = 0;
    CHECK(product_on(gpu(5), status) == product_on(cpu(), status));
  }
  CHECK(cuda_kernels::cublaslt_stats().called == before);
  CHECK(product_on(gpu(5), 7) == product_on(cpu(), 7));
  CHECK(cuda_kernels::cublaslt_stats().called == before + 1);
  CHECK(problems() == "");
}
