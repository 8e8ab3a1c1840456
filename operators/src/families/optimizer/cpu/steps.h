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
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/parallel.h>

#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/present_rows.h"
#include "families/optimizer/kernels.h"

namespace heddle::cpu_kernels {

// Elements per chunk: enough to amortize passing the chunk to another worker, few enough for a cache.
constexpr std::int64_t kUpdateGrain = 16384;
constexpr std::size_t kMostState = 4;

// n elements of a weight, of the arrays of its state, and of the gradient.
template <class T> struct WeightPart {
  std::int64_t n;
  T* weight;
  std::array<T*, kMostState> state;
  const T* grad;

  WeightPart at(std::int64_t begin, std::int64_t grad_begin, std::int64_t count) const {
    WeightPart part{count, weight + begin, state, grad + grad_begin};
    for (T*& array : part.state) array = array ? array + begin : nullptr;
    return part;
  }
};

template <class T>
WeightPart<T> whole_weight(const NDArray& weight, std::span<const NDArray> state, const NDArray& grad) {
  WeightPart<T> all{weight.size(), weight.data<T>(), {}, grad.data<const T>()};
  for (std::size_t i = 0; i < state.size(); ++i) all.state[i] = state[i].data<T>();
  return all;
}

// Calls body(weight, gradient, state...) with references to each element of the part, and to those of its
// first arrays of state.
template <class T, class F, class... S>
void update_loop(std::int64_t n, const F& body, T* __restrict weight, const T* __restrict grad,
                 S* __restrict... state) {
  for (std::int64_t i = 0; i < n; ++i) body(weight[i], grad[i], state[i]...);
}
template <int kArrays, class T, class F> void for_elements(const WeightPart<T>& part, const F& body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    update_loop(part.n, body, part.weight, part.grad, part.state[I]...);
  }
  (std::make_index_sequence<kArrays>());
}

// Sums of squares of the weight, and of its update or gradient.
struct Norms {
  double weight = 0, update = 0;
};

template <class T, template <class> class Step>
concept NormStep = requires(Step<T> step, const WeightPart<T>& part) {
  step.take(step.norms(part));
};

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

template <template <class> class Step> void RuleTable::add(OptimizerRule rule) {
  rule.whole = &update_whole<Step>;
  if constexpr (!NormStep<float, Step>) rule.of_rows = &update_rows<Step>;
  all_.push_back(std::move(rule));
}

}  // namespace heddle::cpu_kernels
