// Stands in for gpu_random.cu in a build without CUDA, in which no array has memory on a GPU that a kernel could use.
#include "random/gpu_random.h"

namespace heddle::ndarray_detail {
namespace {

constexpr const char* kWhy = "this build has no CUDA; configure with -DHEDDLE_CUDA=ON";

}  // namespace

const char* gpu_uniform(void*, const GpuDraw&, bool, double, double, double) { return kWhy; }
const char* gpu_normal(void*, const GpuDraw&, bool, double, double) { return kWhy; }
const char* gpu_bernoulli(void*, const GpuDraw&, int, std::uint64_t, std::uint64_t) { return kWhy; }
const char* gpu_integers(void*, const GpuDraw&, int, std::int64_t, std::uint64_t) { return kWhy; }

}  // namespace heddle::ndarray_detail
