// Rules of optimizers (optimizer.h), which say what an optimizer is: parameters, state, and the update of a
// weight by one op. The Optimizer owns the state and checks the arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>
#include <heddle/optimizers/launched_rates.h>
#include <heddle/row_sparse.h>

namespace heddle::operators_detail {

enum class ParamRange {
  not_negative,
  positive,
  fraction,   // in [0, 1)
  on_or_off,  // 0 or 1
};

struct OptimizerParam {
  std::string name;
  double value;  // the default
  ParamRange range;
  // The parameter is newer than its optimizer: texts for servers leave it out while it has its default, so
  // that servers of earlier versions read them.
  bool added_later = false;
};

// Values of all parameters of a rule, in its order.
using ParamValues = std::vector<double>;

// What an update is told besides its arrays.
struct UpdateCall {
  std::shared_ptr<const ParamValues> params;
  double lr, grad_scale;
  double decay_scale = 1;  // factor of the weight decay
  NDArray scale{};  // another factor of the gradient, with one element, read by the op; undefined: none

  double operator[](int param) const { return (*params)[static_cast<std::size_t>(param)]; }
};

// All arrays are contiguous, of one shape and dtype, f32 or f64. updates: how many updates the weight will
// have had, this one included.
using UpdateKernel = void(const KernelContext& context, const NDArray& weight, std::span<const NDArray> state,
                          const NDArray& grad, const UpdateCall& call, std::int64_t updates);
// Updates the rows that grad has; other rows of weight and state are unchanged. With row_updates, which is
// defined if the rule counts rows, each row has its own count of updates. If the first count is -1, the
// counts are not set yet: all rows have had `earlier` updates.
using UpdateRowsKernel = void(const KernelContext& context, const char* op, const NDArray& weight,
                              std::span<const NDArray> state, const NDArray& row_updates,
                              const RowSparse& grad, const UpdateCall& call, std::int64_t earlier);

// The arrays that an update changes. updates (i64, one element on cpu()) counts updates; row_updates (i64,
// one for each row) is defined for row-sparse gradients of rules that count rows.
struct UpdatedArrays {
  NDArray weight;
  std::vector<NDArray> state;
  NDArray updates, row_updates;
};
// Updates each weight as UpdateKernel does, and counts the update. No weight has row_updates. For small weights.
using UpdateListKernel = void(const KernelContext& context, std::span<const UpdatedArrays> all,
                              std::span<const NDArray> grads, const UpdateCall& call);

struct OptimizerRule {
  std::string name;
  std::string documentation;  // one line: what it computes, and the paper
  std::vector<OptimizerParam> params;
  // Names of the arrays of the state, which are like the weight and begin at 0.
  std::vector<std::string> (*state)(const ParamValues&);
  // Whether a step depends on the number of updates, so that rows are counted.
  bool (*counts)(const ParamValues&) = [](const ParamValues&) { return false; };
  // What is wrong with parameters that are each in their range; empty: nothing.
  std::string (*problem)(const ParamValues&) = [](const ParamValues&) { return std::string(); };
  const char* op;                    // name of the op of an update
  const char* op_of_rows = nullptr;  // null: a step needs the norm of the whole weight
  UpdateKernel* whole = nullptr;     // kernels for the CPU; those for GPUs are in the table of kernels
  UpdateRowsKernel* of_rows = nullptr;
  UpdateListKernel* list = nullptr;
};

// All rules, in the order of their names; made at first use.
const std::vector<OptimizerRule>& optimizer_rules();

// What one op updates. changed: an array of each storage that it changes.
struct UpdateList {
  std::vector<UpdatedArrays> arrays;
  std::vector<NDArray> changed;
};

// These push one op. Throw Error for a device without a kernel.
void push_update(const OptimizerRule& rule, const UpdatedArrays& arrays, const NDArray& grad,
                 const UpdateCall& call);
void push_update(const OptimizerRule& rule, const UpdatedArrays& arrays, const RowSparse& grad,
                 const UpdateCall& call);
void push_update(const OptimizerRule& rule, std::shared_ptr<const UpdateList> list,
                 std::vector<NDArray> grads, const UpdateCall& call);

// These push one op for all arrays, which are contiguous, f32 or f64; pairs are alike. averages[i] += (1 - d)
// * (weights[i] - averages[i]), where d is decay, or with warm_up min(decay, (1 + n) / (10 + n)) after n
// updates; `updates` (i64, one element on cpu()) counts them.
void average_update(const std::vector<NDArray>& averages, const std::vector<NDArray>& weights,
                    const NDArray& updates, double decay, bool warm_up);
void swap_values(const std::vector<NDArray>& a, const std::vector<NDArray>& b);

}  // namespace heddle::operators_detail
