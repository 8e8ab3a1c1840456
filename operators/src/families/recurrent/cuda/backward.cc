// The backward pass of recurrent networks on a GPU: the steps in reverse, with a kernel and a product each, then one product for all steps
// for each weight and for x.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/products/cuda/kernels.h"
#include "families/recurrent/cuda/problem.h"

namespace heddle::cuda_kernels {
namespace {

class RecurrentBackward {
 public:
  RecurrentBackward(const KernelContext& context, const RecurrentProblem& p, const RecurrentArrays& in,
                    const NDArray& results, const NDArray& kept, const NDArray& grad,
                    const RecurrentGradients& gradients)
      : context_(context),
        stream_(context.stream().native()),
        in_(in),
        gradients_(gradients),
        memory_(context),
        r_(recurrence_of(context, p, in, memory_, false)),
        products_(context, r_, memory_),
        rows_(r_.steps * r_.batch) {
    const DType dtype = products_.dtype(), operands = products_.operands();
    a_.first_h = read_address(in.h);
    a_.first_c = read_address(in.c);
    a_.peepholes = read_address(in.peepholes);
    a_.gates = read_address(kept);
    if (a_.gates) a_.beside = in_array(a_.gates, p.units() * r_.gates);
    a_.output = read_address(results);
    a_.output_grad = read_address(grad);
    a_.final_h_grad = in_array(a_.output_grad, p.output_size());
    a_.final_c_grad = in_array(a_.final_h_grad, p.state_size());
    a_.h_grad = state_gradient(gradients.h, p.state_size());
    a_.c_grad = state_gradient(gradients.c, p.cell_size());
    if (r_.projected) a_.state_grads = memory_.take(rows_ * r_.state, operands);
    a_.d = memory_.take(rows_ * r_.width, dtype);
    if (products_.rounds()) a_.d_operand = memory_.take(rows_ * r_.width, operands);
    d_ = a_.d_operand ? a_.d_operand : a_.d;
    if (has_second()) a_.tile = tile_ = memory_.take(r_.batch * r_.hidden, dtype);
  }

  void run() {
    check_launch(context_, launch_backward_start(stream_, r_, a_));
    const void* const weight = products_.operand(in_.weight_hh);
    const void* second = nullptr;
    if (r_.projected) second = products_.operand(in_.weight_hr);
    if (resets_before()) second = products_.in_operand(weight, 2 * r_.hidden * r_.hidden);
    for (long long i = 0; i < r_.steps; ++i) step(r_.reverse ? i : r_.steps - 1 - i, weight, second);
    of_state_weight();
    of_projection();
    of_input_weight();
    of_biases();
    of_peepholes();
    of_x();
  }

 private:
  bool resets_before() const { return r_.cell == Cell::gru_reset_before; }
  bool splits_new_gate() const { return r_.cell == Cell::gru; }
  bool has_second() const { return r_.projected || resets_before(); }
  const void* in_array(const void* data, long long elements) const {
    return products_.in_array(const_cast<void*>(data), elements);
  }

  // The gradient of an initial state holds those of the states behind a step.
  void* state_gradient(const NDArray& gradient, long long count) {
    return gradient.defined() ? written_address(gradient) : memory_.take(count, products_.dtype());
  }

  // The operands d, transposed, from a column on.
  GemmMatrix transposed_d(long long column) const {
    return {products_.in_operand(d_, column), r_.width, true};
  }
  // The rows of d of one step.
  GemmMatrix d_of_step(long long time, long long column) const { return of_step(d_, r_.width, time, column); }
  GemmMatrix of_step(const void* all, long long width, long long time, long long column) const {
    const long long first = r_.batch_first ? time : time * r_.batch;
    return {products_.in_operand(all, first * width + column), r_.batch_first ? r_.steps * width : width,
            false};
  }

  void step(long long time, const void* weight, const void* second) {
    const long long hidden = r_.hidden;
    if (r_.projected) {
      check_launch(context_, launch_backward_state(stream_, r_, a_, time));
      products_.multiply(r_.batch, hidden, r_.state, of_step(a_.state_grads, r_.state, time, 0),
                         {second, hidden, false}, tile_, hidden);
    }
    check_launch(context_, launch_backward_cell(stream_, r_, a_, time));
    if (resets_before()) {
      products_.multiply(r_.batch, hidden, hidden, d_of_step(time, 2 * hidden), {second, hidden, false},
                         tile_, hidden);
      check_launch(context_, launch_backward_reset(stream_, r_, a_, time));
    }
    const bool last = time == (r_.reverse ? r_.steps - 1 : 0);
    if (last && !gradients_.h.defined()) return;
    products_.multiply(r_.batch, r_.state, (resets_before() ? 2 : r_.gates) * hidden,
                       d_of_step(time, splits_new_gate() ? hidden : 0), {weight, r_.state, false}, a_.h_grad,
                       r_.state, 1);
  }

  // to = the transpose of columns of d, times rows of operands.
  void product_with_gates(long long column, long long count, const void* rows, long long width,
                          void* to) const {
    if (!to) return;
    products_.multiply(count, width, rows_, transposed_d(column), {rows, width, false}, to, width);
  }

  void of_state_weight() {
    void* const to = written_address(gradients_.weight_hh);
    if (!to) return;
    const long long hidden = r_.hidden;
    void* const before = memory_.take(rows_ * r_.state, products_.operands());
    check_launch(context_, launch_states_before(stream_, r_, a_, before));
    if (!resets_before())
      return product_with_gates(splits_new_gate() ? hidden : 0, r_.gates * hidden, before, r_.state, to);
    product_with_gates(0, 2 * hidden, before, hidden, to);
    product_with_gates(2 * hidden, hidden, gated_rows(), hidden, products_.in_array(to, 2 * hidden * hidden));
  }

  const void* gated_rows() {
    void* const rows = memory_.take(rows_ * r_.hidden, products_.operands());
    check_launch(context_, launch_gated_rows(stream_, r_, a_, rows));
    return rows;
  }

  void of_projection() {
    void* const to = written_address(gradients_.weight_hr);
    if (!to) return;
    products_.multiply(r_.state, r_.hidden, rows_, {a_.state_grads, r_.state, true},
                       {gated_rows(), r_.hidden, false}, to, r_.hidden);
  }

  // x as an operand whose rows behind the lengths are 0, as those of d.
  const void* rows_of_x() {
    const void* const x = read_address(in_.x);
    if (!x || (!products_.rounds() && !r_.lengths)) return x;
    void* const rows = memory_.take(rows_ * r_.features, products_.operands());
    check_launch(context_, launch_rows_of_x(stream_, r_, x, rows));
    return rows;
  }

  void of_input_weight() {
    void* const to = written_address(gradients_.weight_ih);
    if (!to) return;
    const long long hidden = r_.hidden;
    const void* const x = rows_of_x();
    if (!splits_new_gate()) return product_with_gates(0, r_.gates * hidden, x, r_.features, to);
    product_with_gates(hidden, 2 * hidden, x, r_.features, to);
    product_with_gates(0, hidden, x, r_.features, products_.in_array(to, 2 * hidden * r_.features));
  }

  void sum_columns(const void* from, long long columns, void* to) {
    const auto type = static_cast<unsigned char>(products_.dtype());
    const ColumnSums problem{from, to, rows_, columns, type, type};
    const Scratch parts(context_, "sums of columns", static_cast<std::size_t>(column_sums_bytes(problem)));
    check_launch(context_, launch_column_sums(stream_, problem, parts.data()));
  }

  void of_biases() {
    void *const of_ih = written_address(gradients_.bias_ih), *const of_hh =
                                                                 written_address(gradients_.bias_hh);
    if (!of_ih && !of_hh) return;
    void* const sums = memory_.take(r_.width, products_.dtype());
    sum_columns(a_.d, r_.width, sums);
    check_launch(context_, launch_bias_gradients(stream_, r_, sums, of_ih, of_hh));
  }

  void of_peepholes() {
    void* const to = written_address(gradients_.peepholes);
    if (!to) return;
    void* const terms = memory_.take(rows_ * 3 * r_.hidden, products_.dtype());
    check_launch(context_, launch_peephole_terms(stream_, r_, a_, terms));
    sum_columns(terms, 3 * r_.hidden, to);
  }

  void of_x() {
    void* const to = written_address(gradients_.x);
    if (!to) return;
    const long long hidden = r_.hidden, features = r_.features;
    const void* const weight = products_.operand(in_.weight_ih);
    const auto product = [&](long long column, long long row, long long count, double beta) {
      products_.multiply(rows_, features, count, {products_.in_operand(d_, column), r_.width, false},
                         {products_.in_operand(weight, row * features), features, false}, to, features, beta);
    };
    if (!splits_new_gate()) return product(0, 0, r_.width, 0);
    product(hidden, 0, 2 * hidden, 0);
    product(0, 2 * hidden, hidden, 1);
  }

  const KernelContext& context_;
  void* const stream_;
  const RecurrentArrays& in_;
  const RecurrentGradients& gradients_;
  Blocks memory_;
  const Recurrence r_;
  const Products products_;
  const long long rows_;
  BackwardArrays a_{};
  const void* d_ = nullptr;  // as operands
  void* tile_ = nullptr;
};

void recurrent_backward_kernel(const KernelContext& context, const RecurrentProblem& problem,
                               const RecurrentArrays& in, const NDArray& results, const NDArray& kept,
                               const NDArray& grad, const RecurrentGradients& gradients) {
  RecurrentBackward(context, problem, in, results, kept, grad, gradients).run();
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(recurrent_backward) {
  table.add<RecurrentBackwardKernel>("recurrent_backward", DeviceKind::cuda,
                                     cuda_kernels::recurrent_backward_kernel);
}

}  // namespace heddle
