// Kernels of optimizers, made of steps, which have the constants of one update and update parts of a weight.
//
//   template <class T> struct SignumStep {
//     SignumStep(const UpdateCall& call, std::int64_t updates);  // updates: this one included
//     void operator()(const WeightPart<T>& part) const;
//   };
//
// A step that needs norms of the whole weight has two members more: `Norms norms(part) const`, which are added
// over all parts, and which may update the state; and `void take(const Norms& all)` before operator().
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/parallel.h>

#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/present_rows.h"
#include "families/optimizer/cpu/weight_part.h"
#include "families/optimizer/kernels.h"

namespace heddle::cpu_kernels {

// Adds up the norms of chunks in their order.
template <class T, class Step> Norms total_norms(const WeightPart<T>& all, const Step& step) {
  std::vector<Norms> parts(static_cast<std::size_t>((all.n + kUpdateGrain - 1) / kUpdateGrain));
  parallel_for(all.n, kUpdateGrain, [&](std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(begin / kUpdateGrain)] = step.norms(all.at(begin, begin, end - begin));
  });
  Norms total;
  for (const Norms& part : parts) {
    total.weight += part.weight;
    total.update += part.update;
  }
  return total;
}

template <template <class> class Step>
void update_whole(const KernelContext&, const NDArray& weight, std::span<const NDArray> state,
                  const NDArray& grad, const UpdateCall& call, std::int64_t updates) {
  visit_floating(weight.dtype(), [&]<class T>() {
    const WeightPart<T> all = whole_weight<T>(weight, state, grad);
    Step<T> step(call, updates);
    if constexpr (NormStep<T, Step>) step.take(total_norms(all, step));
    parallel_for(all.n, kUpdateGrain, [&](std::int64_t begin, std::int64_t end) {
      std::as_const(step)(all.at(begin, begin, end - begin));
    });
  });
}

// The step of a row that has had `updates` updates, this one included. Rows that follow each other often have
// the same count.
template <class Step> class RowStep {
 public:
  explicit RowStep(const UpdateCall& call) : call_(&call), step_(call, 1) {}
  const Step& after(std::int64_t updates) {
    if (updates != updates_) step_ = Step(*call_, updates_ = updates);
    return step_;
  }

 private:
  const UpdateCall* call_;
  Step step_;
  std::int64_t updates_ = 1;
};

template <template <class> class Step>
void update_rows(const KernelContext&, const char* op, const NDArray& weight, std::span<const NDArray> state,
                 const NDArray& row_updates, const RowSparse& grad, const UpdateCall& call,
                 std::int64_t earlier) {
  const std::span<const std::int64_t> rows = present_rows(op, grad);
  const std::int64_t width = row_width(weight.shape());
  std::int64_t* counts = row_updates.defined() ? row_updates.data<std::int64_t>() : nullptr;
  if (counts && row_updates.size() > 0 && counts[0] < 0) std::fill_n(counts, row_updates.size(), earlier);
  visit_floating(weight.dtype(), [&]<class T>() {
    const WeightPart<T> all = whole_weight<T>(weight, state, grad.values());
    const std::int64_t grain = std::max<std::int64_t>(1, kUpdateGrain / std::max<std::int64_t>(1, width));
    parallel_chunks(std::ssize(rows), grain, [&](std::int64_t begin, std::int64_t end) {
      RowStep<Step<T>> step(call);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = rows[static_cast<std::size_t>(i)];
        step.after(counts ? ++counts[row] : earlier + 1)(all.at(row * width, i * width, width));
      }
    });
  });
}

// Updates a weight of at most kUpdateGrain elements, whose norms are those of one chunk.
template <class T, template <class> class Step>
void update_small(const UpdatedArrays& arrays, const NDArray& grad, RowStep<Step<T>>& steps) {
  const WeightPart<T> all = whole_weight<T>(arrays.weight, arrays.state, grad);
  std::int64_t& count = *arrays.updates.data<std::int64_t>();
  if constexpr (NormStep<T, Step>) {
    Step<T> step = steps.after(count + 1);
    step.take(total_norms(all, step));
    std::as_const(step)(all);
  } else {
    steps.after(count + 1)(all);
  }
  ++count;
}

template <template <class> class Step>
void update_list(const KernelContext&, std::span<const UpdatedArrays> all, std::span<const NDArray> grads,
                 const UpdateCall& call) {
  RowStep<Step<float>> f32(call);
  RowStep<Step<double>> f64(call);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].weight.dtype() == DType::f32) {
      update_small<float, Step>(all[i], grads[i], f32);
    } else {
      update_small<double, Step>(all[i], grads[i], f64);
    }
  }
}

template <template <class> class Step> void RuleTable::add(OptimizerRule rule) {
  rule.whole = &update_whole<Step>;
  rule.list = &update_list<Step>;
  if constexpr (!NormStep<float, Step>) rule.of_rows = &update_rows<Step>;
  all_.push_back(std::move(rule));
}

}  // namespace heddle::cpu_kernels
