// The forward pass of recurrent networks on a GPU: one product for the inputs of all steps, then a product and a kernel for each step, and
// where a product stands behind the cell another two.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/recurrent/cuda/problem.h"

namespace heddle::cuda_kernels {
namespace {

class RecurrentForward {
 public:
  RecurrentForward(const KernelContext& context, const RecurrentProblem& p, const RecurrentArrays& in,
                   const NDArray& results, const NDArray& kept)
      : context_(context),
        stream_(context.stream().native()),
        in_(in),
        memory_(context),
        r_(recurrence_of(context, p, in, memory_, true)),
        products_(context, r_, memory_),
        empty_(results.size() == 0) {
    if (empty_) return;
    const DType dtype = products_.dtype();
    a_.bias_ih = read_address(in.bias_ih);
    a_.bias_hh = read_address(in.bias_hh);
    a_.first_h = read_address(in.h);
    a_.first_c = read_address(in.c);
    a_.peepholes = read_address(in.peepholes);
    a_.bias = memory_.take((r_.gates + 1) * r_.hidden, dtype);
    a_.output = written_address(results);
    a_.h = products_.in_array(a_.output, p.output_size());
    a_.c = products_.in_array(a_.h, p.state_size());
    if (products_.rounds()) a_.h_operand = memory_.take(p.state_size(), products_.operands());
    if (has_second()) a_.between = memory_.take(r_.batch * r_.hidden, products_.operands());
    a_.gates = written_address(kept);
    if (a_.gates) a_.beside = products_.in_array(a_.gates, p.units() * r_.gates);
    tile_ = memory_.take(r_.batch * r_.gates * r_.hidden, dtype);
    second_tile_ = has_second() ? memory_.take(p.state_size(), dtype) : nullptr;
  }

  void run() {
    if (empty_) return;
    check_launch(context_, launch_forward_start(stream_, r_, a_));
    if (r_.steps == 0) return;
    multiply_inputs();
    const void* const weight = products_.operand(in_.weight_hh);
    const void* second = nullptr;
    if (r_.projected) second = products_.operand(in_.weight_hr);
    if (resets_before()) second = products_.in_operand(weight, 2 * r_.hidden * r_.hidden);
    for (long long i = 0; i < r_.steps; ++i) step(r_.reverse ? r_.steps - 1 - i : i, weight, second);
  }

 private:
  bool resets_before() const { return r_.cell == Cell::gru_reset_before; }
  bool has_second() const { return r_.projected || resets_before(); }

  void multiply_inputs() {
    const long long rows = r_.steps * r_.batch, width = r_.gates * r_.hidden;
    const void* const x = products_.operand(in_.x);
    products_.multiply(rows, width, r_.features, {x, r_.features, false},
                       {products_.operand(in_.weight_ih), r_.features, true}, a_.gates, width);
  }

  void step(long long time, const void* weight, const void* second) {
    const long long columns = (resets_before() ? 2 : r_.gates) * r_.hidden;
    products_.multiply(r_.batch, columns, r_.state, {a_.h_operand ? a_.h_operand : a_.h, r_.state, false},
                       {weight, r_.state, true}, tile_, columns);
    a_.tile = tile_;
    check_launch(context_, launch_forward_cell(stream_, r_, a_, time));
    if (!has_second()) return;
    products_.multiply(r_.batch, r_.state, r_.hidden, {a_.between, r_.hidden, false},
                       {second, r_.hidden, true}, second_tile_, r_.state);
    a_.tile = second_tile_;
    check_launch(context_, launch_forward_state(stream_, r_, a_, time));
  }

  const KernelContext& context_;
  void* const stream_;
  const RecurrentArrays& in_;
  Blocks memory_;
  const Recurrence r_;
  const Products products_;
  const bool empty_;
  ForwardArrays a_{};
  void *tile_ = nullptr, *second_tile_ = nullptr;
};

void recurrent_kernel(const KernelContext& context, const RecurrentProblem& problem,
                      const RecurrentArrays& in, const NDArray& results, const NDArray& kept) {
  RecurrentForward(context, problem, in, results, kept).run();
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(recurrent) {
  table.add<RecurrentKernel>("recurrent", DeviceKind::cuda, cuda_kernels::recurrent_kernel);
}

}  // namespace heddle
