// Registers resampling for GPUs. The entries of the axes are made on the CPU and copied.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <heddle/array_error.h>
#include <heddle/gpu_memory.h>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/scratch.h"
#include "families/resample/cuda/kernels.h"
#include "families/resample/map_kernels.h"

namespace heddle::cuda_kernels {
namespace {

// Vectors one after the other in page-locked memory, whose copy on the GPU has them at the same offsets.
class Tables {
 public:
  template <class E> std::size_t add(const std::vector<E>& values) {
    const std::size_t at = bytes_.size(), size = values.size() * sizeof(E);
    bytes_.resize(at + (size + 15) / 16 * 16);
    if (size) std::memcpy(bytes_.data() + at, values.data(), size);
    return at;
  }
  std::size_t size() const { return bytes_.size(); }
  // Enqueues the copy.
  void send(const KernelContext& context, const Scratch& to) const {
    std::byte* const memory = gpu_allocate_pinned(bytes_.size());
    if (!memory) throw OutOfMemory("the tables of a resampling", bytes_.size());
    const std::shared_ptr<std::byte> kept(memory, [](std::byte* one) { gpu_free_pinned(one); });
    std::memcpy(memory, bytes_.data(), bytes_.size());
    context.stream().copy(to.data(), memory, bytes_.size());
    context.stream().check_when_done([kept] {});  // until then the memory is read
  }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
void run(const KernelContext& context, const ResampleProblem& p, Resample& all, bool nearest) {
  Tables tables;
  std::size_t begins[3], indices[3], weights[3];
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const resampling::AxisMap<T> map =
        nearest ? resampling::forward_map<T>(p, p.axes[axis]) : resampling::axis_map<T>(p, p.axes[axis]);
    all.axes[axis].in = size_before(p, axis);
    all.axes[axis].out = map.outputs();
    all.axes[axis].identity = map.identity;
    begins[axis] = tables.add(map.begin);
    indices[axis] = tables.add(map.index);
    weights[axis] = tables.add(map.weight);
  }
  const Scratch memory(context, "the tables of a resampling", tables.size());
  tables.send(context, memory);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto* const begin = memory.as<std::byte>();
    all.axes[axis].begin = reinterpret_cast<const long long*>(begin + begins[axis]);
    all.axes[axis].index = reinterpret_cast<const long long*>(begin + indices[axis]);
    all.axes[axis].weight = begin + weights[axis];
  }
  const auto launch = nearest ? launch_nearest : launch_resample;
  check_launch(context, launch(context.stream().native(), all));
}

void resample_kernel(const KernelContext& context, const ResampleProblem& p, const NDArray& x,
                     const NDArray& y) {
  if (y.size() == 0) return;
  Resample all{};
  all.planes = p.planes;
  all.x = read<void>(x);
  all.y = written<void>(y);
  all.bytes = static_cast<int>(size_of(x.dtype()));
  const bool nearest = p.mode == Interpolation::nearest || p.mode == Interpolation::nearest_exact;
  if (x.dtype() == DType::f64)
    run<double>(context, p, all, nearest && !p.transposed);
  else
    run<float>(context, p, all, nearest && !p.transposed);
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(resample) {
  table.add<ResampleKernel>("resample", DeviceKind::cuda, cuda_kernels::resample_kernel);
}

}  // namespace heddle
