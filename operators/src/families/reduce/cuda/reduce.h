// The kernels of a reduction. A type F defines how elements are joined:
//   F::Value            the type in which an element is loaded
//   F::Partial          the type of partial results
//   load(x, at, type)   loads an element
//   start()             the partial result of no element
//   take(value, index)  the partial result of one element; `index` counts the elements of a result
//   operator()(a, b)    the partial result of the elements of both
//   finish(y, at, dtype, partial, count)  stores the result of `count` elements as y's element `at`
// Each thread joins every k-th element, or every k-th four, in four partial results, these are joined by a tree, and so are
// those of the threads and of the parts of long reductions.
#pragma once

#include "cuda/load_four.h"
#include "families/reduce/cuda/plan.h"

namespace heddle::cuda_kernels {

template <class F> struct ReduceElements {
  using V = typename F::Value;
  using P = typename F::Partial;

  F fold;
  Plan plan;
  const void* x;
  void* y;
  P* partials;  // parts x results; null if there is one part
  Type dtype, result;

  HEDDLE_DEVICE V load(long long from, long long i) const {
    long long at[1] = {i};
    if (!plan.dense) plan.reduced.locate(i, at);
    return fold.load(x, from + at[0], dtype);
  }
  // Elements i, i + gap, i + 2 gap, i + 3 gap.
  HEDDLE_DEVICE void load_some(long long from, long long i, long long gap, V (&values)[4]) const {
    if constexpr (std::is_floating_point_v<V>) {
      if (gap == 1 && plan.dense) return load_four<V>(x, from + i, dtype, values);
    } else if (gap == 1 && plan.dense) {
      std::uint32_t bits[4];
      if (load_four_bits(x, from + i, on_gpu::size_of(dtype), bits)) {
        for (int j = 0; j < 4; ++j) values[j] = value_of_bits<V>(bits[j], dtype);
        return;
      }
    }
    for (int j = 0; j < 4; ++j) values[j] = load(from, i + j * gap);
  }
  // Joins the elements of [first, last) that the thread has to take.
  HEDDLE_DEVICE P run(const Team& team, long long from, long long first, long long last) const {
    P sums[4];
    for (int j = 0; j < 4; ++j) sums[j] = fold.start();
    const long long gap = plan.dense ? 1 : team.size(), step = 4ll * team.size();
    long long i = first + (plan.dense ? 4ll * team.position() : team.position());
    for (; i + 3 * gap < last; i += step) {
      V values[4];
      load_some(from, i, gap, values);
      for (int j = 0; j < 4; ++j) sums[j] = fold(sums[j], fold.take(values[j], i + j * gap));
    }
    for (int j = 0; j < 4; ++j) {
      const long long index = i + j * gap;
      if (index < last) sums[j] = fold(sums[j], fold.take(load(from, index), index));
    }
    return fold(fold(sums[0], sums[1]), fold(sums[2], sums[3]));
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, plan.teams);
    const long long line = team.line();
    const bool exists = line < plan.results;
    const long long part = thread.block_index().y, first = part * plan.parts.size;
    long long at[2] = {};
    P total = fold.start();
    if (exists) {
      const long long last = first + plan.parts.size < plan.count ? first + plan.parts.size : plan.count;
      plan.kept.locate(line, at);
      total = run(team, at[1], first, last);
    }
    total = team.all(total, fold);
    if (!exists || team.position() != 0) return;
    if (partials)
      partials[part * plan.results + line] = total;
    else
      fold.finish(y, at[0], result, total, plan.count);
  }
};

template <class F> struct ReduceParts {
  using P = typename F::Partial;
  F fold;
  Plan plan;
  Teams teams;
  const P* partials;
  void* y;
  Type result;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long line = team.line();
    const bool exists = line < plan.results;
    P total = fold.start();
    if (exists) {
      for (long long part = team.position(); part < plan.parts.count; part += team.size())
        total = fold(total, partials[part * plan.results + line]);
    }
    total = team.all(total, fold);
    if (!exists || team.position() != 0) return;
    long long at[2];
    plan.kept.locate(line, at);
    fold.finish(y, at[0], result, total, plan.count);
  }
};

template <class F>
const char* reduce(void* stream, const F& fold, const Reduction& reduction, ScratchBlocks& scratch) {
  using P = typename F::Partial;
  const Plan plan = plan_of(reduction);
  P* const partials = plan.parts.count > 1 ? scratch.take_array<P>(plan.parts.count * plan.results) : nullptr;
  const ReduceElements<F> kernel{
      fold, plan, reduction.x, reduction.y, partials, Type{reduction.dtype}, Type{reduction.result}};
  const char* const problem = launch_teams(stream, plan.results, plan.parts.count, plan.teams, kernel);
  if (problem || !partials) return problem;
  const Teams teams = teams_for(plan.results, plan.parts.count, true);
  const ReduceParts<F> rest{fold, plan, teams, partials, reduction.y, Type{reduction.result}};
  return launch_teams(stream, plan.results, 1, teams, rest);
}

}  // namespace heddle::cuda_kernels
