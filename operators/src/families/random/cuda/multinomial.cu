// multinomial on GPUs: the CPU's draws. A thread adds up the weights of a row in the CPU's order; the others load them.
#include <cmath>
#include <limits>

#include "cuda/radix_sort.h"
#include "cuda/report.h"
#include "cuda/team.h"
#include "families/random/cuda/kernels.h"
#include "families/random/stream_functors.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using functors::ElementStream;

constexpr int kSumFault = 1, kFewFault = 2;  // WeightFault
constexpr int kLoaded = 1024;                // weights of a row at a time

struct RowSum {
  double total, largest;
  long long last;  // the last index with a weight above 0
};

struct AddUp {
  MultinomialDraw draw;
  RowSum* rows;
  double* sums;  // null: not wanted

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, loaded, double[kLoaded]);
    const long long row = thread.block_index().x, n = draw.n;
    const double* const weights = draw.weights + row * n;
    RowSum sum{0, 0, 0};
    long long above = 0;
    bool refused = false;
    for (long long first = 0; first < n; first += kLoaded) {
      const int count = n - first < kLoaded ? static_cast<int>(n - first) : kLoaded;
      for (int i = thread.rank(); i < count; i += thread.size()) loaded[i] = weights[first + i];
      thread.barrier();
      for (int i = 0; thread.rank() == 0 && i < count; ++i) {
        const double weight = loaded[i];
        if (!refused && (!(weight >= 0) || weight - weight != 0)) {
          report(thread, draw.slot, row * (n + 2) + first + i, on_gpu::bits_as<unsigned long long>(weight));
          refused = true;
        }
        if (weight > 0) ++above, sum.last = first + i;
        if (weight > sum.largest) sum.largest = weight;
        sum.total += weight;
        loaded[i] = sum.total;
      }
      thread.barrier();
      for (int i = thread.rank(); sums && i < count; i += thread.size())
        sums[row * n + first + i] = loaded[i];
      thread.barrier();
    }
    if (thread.rank() != 0) return;
    rows[row] = sum;
    const bool infinite = sum.total - sum.total != 0;
    if (!refused && infinite) report(thread, draw.slot, row * (n + 2) + n, 0, kSumFault);
    if (refused || infinite || above >= (draw.replacement ? 1 : draw.samples)) return;
    report(thread, draw.slot, row * (n + 2) + n + 1,
           on_gpu::bits_as<unsigned long long>(static_cast<double>(above)), kFewFault);
  }
};

struct DrawFromSums {
  MultinomialDraw draw;
  const RowSum* rows;
  const double* sums;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = draw.rows * draw.samples;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const long long row = i / draw.samples;
      ElementStream stream(draw.seed, draw.start, i);
      const double wanted = stream.uniform() * rows[row].total;
      const double* const list = sums + row * draw.n;
      long long low = 0, high = draw.n;
      while (low < high) {
        const long long middle = low + (high - low) / 2;
        if (wanted < list[middle])
          high = middle;
        else
          low = middle + 1;
      }
      draw.indices[i] = low < rows[row].last ? low : rows[row].last;
    }
  }
};

// Each weight is the rate of an exponential time. Times are not negative: their bits have their order.
struct MakeTimes {
  MultinomialDraw draw;
  const RowSum* rows;
  unsigned long long* keys;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long pairs = (draw.n + 1) / 2;
    for (long long i = thread.global_index(); i < draw.rows * pairs; i += thread.global_size()) {
      const long long row = i / pairs, pair = i % pairs;
      ElementStream stream(draw.seed, draw.start, row * draw.samples);
      stream.skip(pair);
      for (long long c = 2 * pair; c < 2 * pair + 2 && c < draw.n; ++c) {
        const double time = stream.exponential(), weight = draw.weights[row * draw.n + c];
        const double scaled =
            weight > 0 ? time / (weight / rows[row].largest) : std::numeric_limits<double>::infinity();
        keys[row * draw.n + c] = on_gpu::bits_as<unsigned long long>(scaled) & 0x7fffffffffffffffull;
      }
    }
  }
};

struct TakeFirst {
  MultinomialDraw draw;
  const unsigned* order;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = draw.rows * draw.samples;
    for (long long i = thread.global_index(); i < count; i += thread.global_size())
      draw.indices[i] = order[i / draw.samples * draw.n + i % draw.samples];
  }
};

std::size_t row_bytes(const MultinomialDraw& draw) {
  return (static_cast<std::size_t>(draw.rows) * sizeof(RowSum) + 255) / 256 * 256;
}

}  // namespace

std::size_t multinomial_space(const MultinomialDraw& draw) {
  return row_bytes(draw) + (draw.replacement ? static_cast<std::size_t>(draw.rows * draw.n) * sizeof(double)
                                             : sort_bytes(draw.rows, draw.n, 8));
}

const char* launch_multinomial(void* on, const MultinomialDraw& draw, std::byte* space) {
  const auto stream = static_cast<cudaStream_t>(on);
  auto* const rows = reinterpret_cast<RowSum*>(space);
  std::byte* const rest = space + row_bytes(draw);
  double* const sums = draw.replacement ? reinterpret_cast<double*>(rest) : nullptr;
  const dim3 grid(static_cast<unsigned>(draw.rows));
  if (const char* const problem = launch_grid(on, grid, AddUp{draw, rows, sums})) return problem;
  const long long count = draw.rows * draw.samples;
  if (draw.replacement) return on_gpu::launch_over(stream, count, DrawFromSums{draw, rows, sums});
  const SortJob job{draw.rows, draw.n, 8, 63, rest};
  auto* const keys = static_cast<unsigned long long*>(keys_to_sort(job));
  if (const char* const problem =
          on_gpu::launch_over(stream, draw.rows * ((draw.n + 1) / 2), MakeTimes{draw, rows, keys}))
    return problem;
  SortedKeys sorted{};
  if (const char* const problem = sort_keys(on, job, sorted)) return problem;
  return on_gpu::launch_over(stream, count, TakeFirst{draw, sorted.order});
}

}  // namespace heddle::cuda_kernels
