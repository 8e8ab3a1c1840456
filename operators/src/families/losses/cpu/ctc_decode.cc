// Kernel of the decoder of connectionist temporal classification by the best path.
#include <algorithm>
#include <cstdint>
#include <string>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/losses/ctc_kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kDecodedGrain = 1 << 15;  // elements per chunk

void ctc_greedy_kernel(const KernelContext&, const CtcProblem& p, const NDArray& x,
                       const NDArray& input_lengths, const NDArray& labels, const NDArray& numbers) {
  const auto* const lengths = input_lengths.defined() ? input_lengths.data<const std::int64_t>() : nullptr;
  for (std::int64_t n = 0; lengths && n < p.batch; ++n)
    if (lengths[n] < 0 || lengths[n] > p.steps)
      throw InvalidArgument("ctc_greedy_decode: the input length of sequence " + std::to_string(n) + " is " +
                            std::to_string(lengths[n]) + "; want 0 to " + std::to_string(p.steps));
  auto* const all = labels.data<std::int64_t>();
  auto* const found = numbers.data<std::int64_t>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kDecodedGrain / std::max<std::int64_t>(1, p.steps * p.classes));
  visit_floating(x.dtype(), [&]<class T>() {
    const T* const from = x.data<const T>();
    parallel_for(p.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        std::int64_t* const row = all + n * p.steps;
        const std::int64_t steps = lengths ? std::clamp<std::int64_t>(lengths[n], 0, p.steps) : p.steps;
        std::int64_t count = 0, before = p.blank;
        for (std::int64_t t = 0; t < steps; ++t) {
          const T* const scores = from + (t * p.batch + n) * p.classes;
          const std::int64_t best = std::max_element(scores, scores + p.classes) - scores;
          if (best != before && best != p.blank) row[count++] = best;
          before = best;
        }
        std::fill(row + count, row + p.steps, std::int64_t{-1});
        found[n] = count;
      }
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(ctc_decode) {
  table.add<CtcGreedyKernel>("ctc_greedy_decode", DeviceKind::cpu, ctc_greedy_kernel);
}

}  // namespace heddle::cpu_kernels
