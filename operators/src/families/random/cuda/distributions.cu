// Random distributions on GPUs: a thread draws an element from the random stream of its own that it has on the CPU. Logarithms and others
// are those of CUDA's library, so that the last digits may differ, and seldom which proposal is accepted.
#include <cmath>

#include "cuda/report.h"
#include "cuda/team.h"
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

// A team of threads takes a row.
struct CheckLogits {
  Teams teams;
  const double* logits;
  long long rows, n;
  FaultSlot* slot;

  struct Found {
    long long bad, finite;  // the first column that is NaN or infinity, or n; whether one is finite
  };
  struct Join {
    HEDDLE_DEVICE Found operator()(Found a, Found b) const {
      return {a.bad < b.bad ? a.bad : b.bad, a.finite | b.finite};
    }
  };
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long row = team.line();
    const double* const line = logits + row * n;
    Found found{n, 0};
    for (long long c = team.position(); row < rows && c < n; c += team.size()) {
      const bool finite = line[c] - line[c] == 0;
      found = Join{}(found, {finite || line[c] < 0 ? n : c, finite});  // -infinity is allowed
    }
    found = team.all(found, Join{});
    if (row >= rows || team.position() != 0) return;
    if (found.bad < n)
      report(thread, slot, row * (n + 1) + found.bad, on_gpu::bits_as<unsigned long long>(line[found.bad]));
    else if (!found.finite)
      report(thread, slot, row * (n + 1) + n, 0, 1);
  }
};

// The Gumbel-max trick, as on the CPU. A team of threads takes a sample; a thread takes two neighbouring classes at a time, since a
// block of the random stream has two numbers.
struct Categorical {
  Teams teams;
  const double* logits;
  long long count, n, samples;
  std::uint64_t seed, start;
  long long* indices;

  struct Best {
    double value;
    long long index;  // -1: no class
  };
  struct Join {
    HEDDLE_DEVICE Best operator()(const Best& a, const Best& b) const {
      if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
      if (a.value == b.value) return a.index < b.index ? a : b;
      return b.value > a.value ? b : a;
    }
  };
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long i = team.line();
    const bool exists = i < count;
    const double* const line = logits + (exists ? i / samples * n : 0);
    Best best{0, -1};
    for (long long first = 2ll * team.position(); exists && first < n; first += 2ll * team.size()) {
      ElementStream stream(seed, start, i, static_cast<std::uint32_t>(first / 2));
      for (long long c = first; c < first + 2 && c < n; ++c) {
        const double value = line[c] - std::log(stream.exponential());
        if (line[c] - line[c] == 0) best = Join{}(best, {value, c});
      }
    }
    best = team.all(best, Join{});
    if (exists && team.position() == 0) indices[i] = best.index < 0 ? 0 : best.index;
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
  const Teams of_row = teams_for(rows, n, false), of_sample = teams_for(rows * samples, (n + 1) / 2, false);
  if (const char* const problem =
          launch_teams(stream, rows, 1, of_row, CheckLogits{of_row, logits, rows, n, slot}))
    return problem;
  return launch_teams(stream, rows * samples, 1, of_sample,
                      Categorical{of_sample, logits, rows * samples, n, samples, seed, start, indices});
}

}  // namespace heddle::cuda_kernels
