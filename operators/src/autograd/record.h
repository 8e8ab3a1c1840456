// Functions shared by operators with a gradient.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/autograd.h>

namespace heddle::operators_detail {

// What the function of a recompute() uses besides its inputs. While one lives, its thread's operators note it there.
class OuterUse {
 public:
  OuterUse();
  ~OuterUse();
  OuterUse(const OuterUse&) = delete;
  OuterUse& operator=(const OuterUse&) = delete;
  static OuterUse* current() noexcept;
  void add(const NDArray& leaf) { leaves_.push_back(leaf); }
  // The leaves that were differentiated, each as often as operators used it.
  const std::vector<NDArray>& leaves() const { return leaves_; }
  std::uint64_t first() const { return first_; }  // the sequence number of the first node of the function

 private:
  std::vector<NDArray> leaves_;
  const std::uint64_t first_;
  OuterUse* const outer_;
};

// grad() with allow_unused, that calls no hooks of leaves: an outer pass adds the result to the leaves.
std::vector<NDArray> grad_for_outer_pass(const std::vector<NDArray>& outputs,
                                         const std::vector<NDArray>& inputs,
                                         const std::vector<NDArray>& seeds);

// Makes the array a leaf that lives for a call: an input of a recomputed function.
void make_passing_leaf(NDArray& array);

// Whether a Backward runs whose operators are recorded. A Backward that pushes kernels of its own, which are
// not recorded, then has to compute by operators, or to call refuse_second_gradient().
bool differentiating_gradient();

// As record(), for an operator whose Backward returns no array that it keeps, except grad_output and saved
// ones: a leaf takes the result as its gradient without a copy.
void record_op(const char* name, NDArray& output, std::vector<NDArray> inputs, std::vector<NDArray> saved,
               Backward backward, Where where = Where::current());

// Throws Error that names `op`: there is no second gradient.
[[noreturn]] void refuse_second_gradient(const char* op);

// The priority of the gradients of weights, above that of inputs' gradients, with which the backward pass
// continues: ranks then reduce the gradients of weights during the pass, not after it.
inline constexpr int kWeightsFirst = 1;

// The gradient of an input of `shape` that was broadcast: sums `gradient` over the axes that broadcasting
// added or stretched.
NDArray sum_to_shape(const NDArray& gradient, const Shape& shape);

}  // namespace heddle::operators_detail
