// Stands in for gpu_kernels.cu in a build without CUDA, in which no array has memory on a GPU that a kernel could use.
#include "arrays/gpu_kernels.h"

namespace heddle::ndarray_detail {
namespace {

constexpr const char* kWhy = "this build has no CUDA; configure with -DHEDDLE_CUDA=ON";

}  // namespace

const char* gpu_copy(void*, const GpuShape&, const GpuView&, const GpuView&) { return kWhy; }
const char* gpu_fill(void*, const GpuShape&, const GpuView&, const GpuNumber&) { return kWhy; }
const char* gpu_range(void*, long long, const GpuView&, const GpuRange&) { return kWhy; }

}  // namespace heddle::ndarray_detail
