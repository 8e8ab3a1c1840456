// Updates of weights on GPUs by the steps of the CPU: a thread updates one element at a time. Norms of a weight are added up by blocks
// of threads in an order that depends on its size alone, not in the CPU's.
#include "cuda/indices.h"
#include "cuda/read_present.h"
#include "families/optimizer/cuda/block_sum.h"
#include "families/optimizer/cuda/kernels.h"
#include "families/optimizer/steps/adadelta_functors.h"
#include "families/optimizer/steps/adagrad_functors.h"
#include "families/optimizer/steps/adam_functors.h"
#include "families/optimizer/steps/lamb_functors.h"
#include "families/optimizer/steps/lars_functors.h"
#include "families/optimizer/steps/lion_functors.h"
#include "families/optimizer/steps/nadam_functors.h"
#include "families/optimizer/steps/rmsprop_functors.h"
#include "families/optimizer/steps/sgd_functors.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

template <class T, class Step> struct UpdateOne {
  Part<T> all;
  Step step;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < all.n; i += thread.global_size()) step(all.at(i, i, 1));
  }
};

// A weight has as many blocks as its size asks for.
template <class T, class Step> struct UpdateMany {
  Part<T> parts[kMostParts];
  unsigned first[kMostParts + 1];  // block of each weight; behind the last one: how many there are
  int count;
  Step step;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const unsigned block = thread.block_index().x;
    int low = 0, high = count - 1;  // the last weight that begins at or before the block
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first[middle] <= block)
        low = middle;
      else
        high = middle - 1;
    }
    const Part<T>& all = parts[low];
    const long long threads = thread.size(), own = (block - first[low]) * threads + thread.rank();
    const long long step_by = (first[low + 1] - first[low]) * threads;
    for (long long i = own; i < all.n; i += step_by) step(all.at(i, i, 1));
  }
};

// The counts of rows that have none yet.
struct SetCounts {
  long long *counts, rows, earlier;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    if (counts[0] >= 0) return;  // CountRows sets it
    for (long long i = 1 + thread.global_index(); i < rows; i += thread.global_size()) counts[i] = earlier;
  }
};

// Counts an update of each present row, and makes its step.
template <class T, class Step> struct CountRows {
  RowUpdate<T> update;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const PresentRows& rows = update.rows;
    const long long count = present_count(thread, rows);
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const long long row = present_row(thread, rows, i);
      if (row < 0) continue;
      const long long so_far = update.counts[row];
      const long long updates = (so_far < 0 ? update.earlier : so_far) + 1;
      update.counts[row] = updates;
      static_cast<Step*>(update.steps)[i] = Step(update.call, updates);
    }
    // The first row's, if it is not present.
    if (thread.global_index() != 0 || (count > 0 && rows.x.rows[0] == 0)) return;
    if (update.counts[0] < 0) update.counts[0] = update.earlier;
  }
};

template <class T, class Step> struct UpdateRows {
  RowUpdate<T> update;
  Step step;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = present_count(thread, update.rows) * update.width;
    const auto* const steps = static_cast<const Step*>(update.steps);
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Split at = split(i, update.width);
      const long long row = present_row(thread, update.rows, at.quotient);
      if (row < 0) continue;
      (steps ? steps[at.quotient] : step)(update.all.at(row * update.width + at.rest, i, 1));
    }
  }
};

template <template <class> class StepOf, class T>
const char* update_rows(void* on, const RowUpdate<T>& update, const void* step) {
  const auto stream = static_cast<cudaStream_t>(on);
  const PresentRows& rows = update.rows;
  if (update.counts) {
    const SetCounts set{update.counts, rows.bound, update.earlier};
    if (const char* problem = on_gpu::launch_over(stream, rows.bound, set)) return problem;
    const CountRows<T, StepOf<T>> count{update};
    if (const char* problem = on_gpu::launch_over(stream, rows.x.capacity, count)) return problem;
  }
  return on_gpu::launch_over(stream, rows.x.capacity * update.width,
                             UpdateRows<T, StepOf<T>>{update, *static_cast<const StepOf<T>*>(step)});
}

const char* problem_of(cudaError_t status) {
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

template <template <class> class StepOf, class T>
const char* update(void* stream, const Part<T>* parts, int count, const void* step, double*) {
  using Step = StepOf<T>;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (count == 1)
    return on_gpu::launch_over(cuda_stream, parts[0].n,
                               UpdateOne<T, Step>{parts[0], *static_cast<const Step*>(step)});
  constexpr unsigned kMostBlocks = 1024;  // of a weight
  UpdateMany<T, Step> kernel{{}, {}, count, *static_cast<const Step*>(step)};
  for (int i = 0; i < count; ++i) {
    kernel.parts[i] = parts[i];
    kernel.first[i + 1] = kernel.first[i] + on_gpu::blocks_for(parts[i].n, on_gpu::kThreads, kMostBlocks);
  }
  const dim3 grid(kernel.first[count]);
  return problem_of(on_gpu::launch(cuda_stream, grid, dim3(on_gpu::kThreads), 0, kernel));
}

// The norms of each kNormGrain elements, which also update the state where the step does so.
template <class T, class Step> struct ChunkNorms {
  Part<T> all;
  Step step;
  double* sums;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long chunk = thread.block_index().x, begin = chunk * kNormGrain;
    const long long end = begin + kNormGrain < all.n ? begin + kNormGrain : all.n;
    double weight = 0, change = 0;
    for (long long i = begin + thread.rank(); i < end; i += kSumThreads) {
      const Norms one = step.norms(all.at(i, i, 1));
      weight += one.weight;
      change += one.update;
    }
    weight = block_sum(thread, weight);
    change = block_sum(thread, change);
    if (thread.rank() != 0) return;
    sums[2 * chunk] = weight;
    sums[2 * chunk + 1] = change;
  }
};

// The total of `chunks` norms behind them.
struct TotalNorms {
  double* sums;
  long long chunks;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    double weight = 0, change = 0;
    for (long long i = thread.rank(); i < chunks; i += kSumThreads) {
      weight += sums[2 * i];
      change += sums[2 * i + 1];
    }
    weight = block_sum(thread, weight);
    change = block_sum(thread, change);
    if (thread.rank() != 0) return;
    sums[2 * chunks] = weight;
    sums[2 * chunks + 1] = change;
  }
};

template <class T, class Step> struct UpdateByNorms {
  Part<T> all;
  Step step;
  const double* total;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Step own = step;
    own.take({total[0], total[1]});
    for (long long i = thread.global_index(); i < all.n; i += thread.global_size()) own(all.at(i, i, 1));
  }
};

template <template <class> class StepOf, class T>
const char* update_by_norms(void* stream, const Part<T>* parts, int, const void* step, double* sums) {
  using Step = StepOf<T>;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const Part<T>& all = parts[0];
  const Step& constants = *static_cast<const Step*>(step);
  const long long chunks = (all.n + kNormGrain - 1) / kNormGrain;
  const char* problem =
      problem_of(on_gpu::launch(cuda_stream, dim3(static_cast<unsigned>(chunks)), dim3(kSumThreads), 0,
                                ChunkNorms<T, Step>{all, constants, sums}));
  if (!problem)
    problem =
        problem_of(on_gpu::launch(cuda_stream, dim3(1), dim3(kSumThreads), 0, TotalNorms{sums, chunks}));
  if (problem) return problem;
  return on_gpu::launch_over(cuda_stream, all.n, UpdateByNorms<T, Step>{all, constants, sums + 2 * chunks});
}

}  // namespace

#define HEDDLE_RULE(name, Step)                                                                          \
  {                                                                                                      \
    name "_update", name "_update_list", name "_update_rows", update<Step, float>, update<Step, double>, \
        update_rows<Step, float>, update_rows<Step, double>                                              \
  }
const Rule kRules[kRuleCount] = {
    {"lamb_update", "lamb_update_list", nullptr, update_by_norms<LambStep, float>,
     update_by_norms<LambStep, double>, nullptr, nullptr},
    {"lars_update", "lars_update_list", nullptr, update_by_norms<LarsStep, float>,
     update_by_norms<LarsStep, double>, nullptr, nullptr},
    HEDDLE_RULE("adadelta", AdadeltaStep),
    HEDDLE_RULE("adagrad", AdagradStep),
    HEDDLE_RULE("adam", CoupledAdam),
    HEDDLE_RULE("adamw", DecoupledAdam),
    HEDDLE_RULE("lion", LionStep),
    HEDDLE_RULE("nadam", NadamStep),
    HEDDLE_RULE("rmsprop", RmspropStep),
    HEDDLE_RULE("sgd", SgdStep)};

}  // namespace heddle::cuda_kernels
