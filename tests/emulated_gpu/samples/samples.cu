#include "samples/kernels.h"
#include "samples/samples.h"

namespace heddle::test {
namespace {

template <template <Bug> class K, Bug bug, class... Arguments>
cudaError_t start(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes,
                  Arguments... arguments) {
  return on_gpu::launch(stream, grid, block, shared_bytes, K<bug>{arguments...});
}

// Launches the kernel with one of the bugs that it knows.
template <template <Bug> class K, Bug... known, class... Arguments>
cudaError_t start_with(Bug bug, Arguments... arguments) {
  cudaError_t status = cudaErrorInvalidValue;
  (void)((known == bug ? (status = start<K, known>(arguments...), true) : false) || ...);
  return status;
}

unsigned up(long long count, int by) { return static_cast<unsigned>((count + by - 1) / by); }

}  // namespace

cudaError_t vector_add(cudaStream_t stream, Bug bug, const float* a, const float* b, float* sum,
                       long long count) {
  return start_with<VectorAdd, Bug::none, Bug::off_by_one>(bug, stream,
                                                           dim3(on_gpu::blocks_for(count, kBlock, 16)),
                                                           dim3(kBlock), std::size_t{0}, a, b, sum, count);
}

cudaError_t sum(cudaStream_t stream, Bug bug, const double* values, double* total, long long count,
                unsigned blocks, int shared_bytes) {
  const std::size_t needed = kBlock / on_gpu::kWarp * sizeof(double);
  return start_with<Sum, Bug::none, Bug::barrier_dropped, Bug::not_atomic, Bug::wrong_lane,
                    Bug::early_return>(bug, stream, dim3(blocks), dim3(kBlock),
                                       shared_bytes < 0 ? needed : static_cast<std::size_t>(shared_bytes),
                                       values, total, count);
}

cudaError_t softmax_rows(cudaStream_t stream, Bug bug, const float* in, float* out, int rows, int columns) {
  return start_with<SoftmaxRows, Bug::none, Bug::barrier_dropped, Bug::divergent>(
      bug, stream, dim3(static_cast<unsigned>(rows)), dim3(kBlock), kBlock / on_gpu::kWarp * sizeof(float),
      in, out, columns);
}

cudaError_t transpose(cudaStream_t stream, Bug bug, const float* in, float* out, int rows, int columns) {
  return start_with<Transpose, Bug::none, Bug::barrier_dropped, Bug::off_by_one>(
      bug, stream, dim3(up(columns, kTile), up(rows, kTile)), dim3(kTile, kTileRows), std::size_t{0}, in, out,
      rows, columns);
}

cudaError_t histogram(cudaStream_t stream, Bug bug, const int* values, int* counts, long long count,
                      unsigned blocks) {
  return start_with<Histogram, Bug::none, Bug::barrier_dropped, Bug::not_atomic>(
      bug, stream, dim3(blocks), dim3(kBlock), std::size_t{0}, values, counts, count);
}

cudaError_t scan(cudaStream_t stream, Bug bug, const int* in, int* out, int* sums, long long count) {
  const unsigned blocks = up(count, kBlock);
  const cudaError_t first = start_with<BlockScan, Bug::none, Bug::barrier_dropped>(
      bug, stream, dim3(blocks), dim3(kBlock), std::size_t{0}, in, out, sums, count);
  if (first != cudaSuccess) return first;
  const cudaError_t second =
      on_gpu::launch(stream, 1, kBlock, 0, BlockScan<Bug::none>{sums, sums, nullptr, blocks});
  if (second != cudaSuccess) return second;
  return on_gpu::launch(stream, blocks, kBlock, 0, AddBefore{out, sums, count});
}

cudaError_t fill(cudaStream_t stream, float* out, float value, long long count) {
  return on_gpu::launch(stream, on_gpu::blocks_for(count, kBlock), kBlock, 0, Fill{out, value, count});
}

}  // namespace heddle::test
