// Random distributions on GPUs: a thread draws an element from the random stream of its own that it has on the CPU. Logarithms and others
// are those of CUDA's library, so that the last digits may differ, and seldom which proposal is accepted.
#include <cmath>

#include "cuda/report.h"
#include "families/random/count_functors.h"
#include "families/random/cuda/kernels.h"
#include "families/random/distribution_functors.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

template <class Sampler> struct Draw {
  DistributionDraw draw;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < draw.count; i += thread.global_size()) {
      double values[kMostParameters];
      bool fit = true;
      for (int k = 0; k < kMostParameters; ++k) {
        if (k >= draw.parameters) break;
        values[k] = draw.arrays[k] ? draw.arrays[k][i] : draw.numbers[k];
        if (!draw.arrays[k] || fits(ParameterRange{draw.ranges[k]}, values[k])) continue;
        if (fit)
          report(thread, draw.slot, k * draw.count + i, on_gpu::bits_as<unsigned long long>(values[k]));
        fit = false;
      }
      if (!fit) continue;  // a sampler may not end
      ElementStream stream(draw.seed, draw.start, i);
      on_gpu::store(draw.y, i, on_gpu::Type{draw.dtype}, Sampler::of(stream, values));
    }
  }
};

template <class Sampler> const char* draw(void* stream, const DistributionDraw& draw) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), draw.count, Draw<Sampler>{draw});
}

struct CheckLogits {
  const double* logits;
  long long rows, n;
  FaultSlot* slot;
  HEDDLE_DEVICE void check(on_gpu::Thread& thread, long long row) const {
    const double* const line = logits + row * n;
    bool any = false;
    for (long long c = 0; c < n; ++c) {
      if (line[c] - line[c] == 0) any = true;
      if (line[c] - line[c] == 0 || line[c] < 0) continue;  // finite, or -infinity
      return report(thread, slot, row * (n + 1) + c, on_gpu::bits_as<unsigned long long>(line[c]));
    }
    if (!any) report(thread, slot, row * (n + 1) + n, 0, 1);
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long row = thread.global_index(); row < rows; row += thread.global_size()) check(thread, row);
  }
};

// The Gumbel-max trick, as on the CPU.
struct Categorical {
  const double* logits;
  long long count, n, samples;
  std::uint64_t seed, start;
  long long* indices;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      ElementStream stream(seed, start, i);
      const double* const line = logits + i / samples * n;
      double best = 0;
      long long index = -1;
      for (long long c = 0; c < n; ++c) {
        const double value = line[c] - std::log(stream.exponential());
        if (line[c] - line[c] != 0 || (index >= 0 && !(value > best))) continue;
        best = value;
        index = c;
      }
      indices[i] = index < 0 ? 0 : index;
    }
  }
};

}  // namespace

const DistributionEntry kDistributions[kDistributionCount] = {
    {"exponential", draw<SampleExponential>},
    {"gamma", draw<SampleGamma>},
    {"beta", draw<SampleBeta>},
    {"poisson", draw<SamplePoisson>},
    {"binomial", draw<SampleBinomial>},
    {"truncated_normal", draw<SampleTruncatedNormal>}};

const char* launch_categorical(void* stream, const double* logits, long long rows, long long n,
                               long long samples, std::uint64_t seed, std::uint64_t start, long long* indices,
                               FaultSlot* slot) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (const char* const problem = on_gpu::launch_over(cuda_stream, rows, CheckLogits{logits, rows, n, slot}))
    return problem;
  return on_gpu::launch_over(cuda_stream, rows * samples,
                             Categorical{logits, rows * samples, n, samples, seed, start, indices});
}

}  // namespace heddle::cuda_kernels
