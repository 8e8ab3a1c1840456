// The backward kernel of recurrent networks: the steps in reverse, then one product for all steps for each weight and for x. Each
// number is computed by one task in a fixed order.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/recurrent/cpu/cell_gradients.h"
#include "families/recurrent/cpu/cells.h"
#include "families/recurrent/cpu/half_step_matrix.h"
#include "families/recurrent/cpu/products.h"
#include "families/recurrent/cpu/step_matrix.h"

namespace heddle::cpu_kernels {
namespace {

// Sums of the columns of a matrix: short ones in T, and these in f64.
template <class T> std::vector<T> sums_of_columns(const T* matrix, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kColumns = 128, kRows = 64;
  std::vector<T> sums(static_cast<std::size_t>(columns));
  parallel_for(columns, kColumns, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    double totals[kColumns] = {};
    for (std::int64_t first = 0; first < rows; first += kRows) {
      T part[kColumns] = {};
      for (std::int64_t row = first; row < std::min(rows, first + kRows); ++row)
        for (std::int64_t j = 0; j < n; ++j) part[j] += matrix[row * columns + begin + j];
      for (std::int64_t j = 0; j < n; ++j) totals[j] += static_cast<double>(part[j]);
    }
    for (std::int64_t j = 0; j < n; ++j)
      sums[static_cast<std::size_t>(begin + j)] = static_cast<T>(totals[j]);
  });
  return sums;
}

// A row of d_, the gradients of the gates before their functions, is (gates); for a gru that resets behind the product it is
// (new gate's part from x, reset, update, new gate's part from h): the last three are those of the product with weight_hh.
// A step is the product with weight_hh and the cell; a second product is as in the forward pass.
// H: what operands of products are rounded to; T: not rounded.
template <class T, class H> class RecurrentBackward {
 public:
  RecurrentBackward(const RecurrentProblem& problem, const RecurrentArrays& in, const NDArray& results,
                    const NDArray& kept, const NDArray& grad, const RecurrentGradients& gradients)
      : p(problem),
        in_(in),
        gradients_(gradients),
        sequences_(problem, in.lengths),
        width_((p.gates() + (splits_new_gate() ? 1 : 0)) * p.hidden),
        output_(results.data<const T>()),
        gates_(kept.data<const T>()),
        beside_(gates_ + p.units() * p.gates()),
        output_grad_(grad.data<const T>()),
        final_h_grad_(output_grad_ + p.output_size()),
        final_c_grad_(final_h_grad_ + p.state_size()),
        d_(sequences_.rows() * width_),
        before_(sequences_.rows() * p.state),
        h_grad_(p.state_size()),
        state_grads_(p.projected ? sequences_.rows() * p.state : 0),
        c_grad_(p.cell_size()),
        first_c_(p.cell_size()) {}

  void run() {
    if (p.is_gru() || gradients_.weight_hh.defined()) gather_states();
    if (p.has_cell_state()) sort_state(p, p.hidden, sequences_, read_or_null<T>(in_.c), first_c_.data());
    const std::int64_t steps = sequences_.steps(), gates = resets_before() ? 2 : p.gates();
    const T* const weight = in_.weight_hh.data<const T>();
    const Matrix matrix(weight, false, gates * p.hidden, 1, p.state, steps);
    std::optional<Matrix> second;
    if (p.projected) second.emplace(in_.weight_hr.data<const T>(), false, p.state, 1, p.hidden, steps);
    if (resets_before())
      second.emplace(weight + 2 * p.hidden * p.hidden, false, p.hidden, 1, p.hidden, steps);
    const bool to_start = gradients_.h.defined() || gradients_.c.defined();
    for (std::int64_t step = steps - 1; step >= (to_start ? -1 : 0); --step) {
      for_each_block(p, p.state,
                     [&](std::int64_t begin, std::int64_t end) { block(matrix, step, begin, end); });
      if (!second) continue;
      for_each_block(p, p.hidden,
                     [&](std::int64_t begin, std::int64_t end) { second_block(*second, step, begin, end); });
    }
    of_initial(gradients_.h, h_grad_.data(), p.state);
    of_initial(gradients_.c, c_grad_.data(), p.hidden);
    of_weights();
    of_biases();
    of_peepholes();
    of_x();
  }

 private:
  using Matrix = MatrixOfSteps<T, H>;

  // before_: the state before each step, in the order of `sequences_`.
  void gather_states() const {
    const T* const h = read_or_null<T>(in_.h);
    sequences_.for_each_row(p.state, [&](std::int64_t step, std::int64_t i) {
      T* const to = before_.data() + sequences_.row(step, i) * p.state;
      if (step > 0) {
        std::copy_n(output_ + sequences_.place(step - 1, i) * p.state, p.state, to);
      } else if (h) {
        std::copy_n(h + sequences_.element(i) * p.state, p.state, to);
      } else {
        std::fill_n(to, p.state, T{0});
      }
    });
  }

  // Calls body(i, product) for rows 0 to `active` - 1 of a matrix at `from`.
  template <class Body>
  void multiply(const Matrix& matrix, std::int64_t active, const T* from, std::int64_t stride,
                std::int64_t begin, std::int64_t end, const Body& body) const {
    const std::int64_t width = Matrix::tile_width(begin, end);
    const ScratchOf<T> tile(std::min(active, kBlockRows) * width);
    for (std::int64_t first = 0; first < active; first += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, active - first);
      matrix.multiply(rows, from + first * stride, stride, begin, end, tile.data());
      for (std::int64_t i = 0; i < rows; ++i) body(first + i, tile.data() + i * width);
    }
  }

  // Elements that have `step`; the states of all stand before the first one.
  std::int64_t active(std::int64_t step) const { return step < 0 ? p.batch : sequences_.active(step); }

  // Numbers of the state from begin to end: its gradient behind `step`, and what of the cell needs no second product. Step -1 stands for
  // the initial state.
  void block(const Matrix& matrix, std::int64_t step, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = end - begin, width = p.state;
    const std::int64_t continued = sequences_.active(step + 1);  // elements that have the step behind
    const bool adds = p.is_gru();  // to the part of the state that came through no gate
    if (continued > 0)
      multiply(matrix, continued, d_row(step + 1, 0) + (splits_new_gate() ? p.hidden : 0), width_, begin, end,
               [&](std::int64_t i, const T* from) {
                 T* const h = h_grad_.data() + i * width + begin;
                 if (adds) {
                   for (std::int64_t u = 0; u < n; ++u) h[u] += from[u];
                 } else {
                   std::copy_n(from, n, h);
                 }
               });
    for (std::int64_t i = continued; i < active(step); ++i)
      std::copy_n(final_h_grad_ + sequences_.element(i) * width + begin, n,
                  h_grad_.data() + i * width + begin);
    if (!p.projected) start_cells(step, begin, n);
    if (step < 0) return;
    for (std::int64_t i = 0; i < active(step); ++i) {
      T* const h_grad = h_grad_.data() + i * width + begin;
      const T* const of_output = output_grad_ + sequences_.place(step, i) * width + begin;
      for (std::int64_t u = 0; u < n; ++u) h_grad[u] += of_output[u];
      if (p.projected) {
        std::copy_n(h_grad, n, state_grads_.data() + sequences_.row(step, i) * width + begin);
      } else {
        cell(step, i, begin, n, h_grad);
      }
    }
  }

  // The gradients of the cell states of elements that end with `step`.
  void start_cells(std::int64_t step, std::int64_t begin, std::int64_t n) const {
    if (!p.has_cell_state()) return;
    for (std::int64_t i = sequences_.active(step + 1); i < active(step); ++i)
      std::copy_n(final_c_grad_ + sequences_.element(i) * p.hidden + begin, n,
                  c_grad_.data() + i * p.hidden + begin);
  }

  // Units from begin to end: what the second product is needed for.
  void second_block(const Matrix& matrix, std::int64_t step, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = end - begin, hidden = p.hidden;
    if (p.projected) start_cells(step, begin, n);
    if (step < 0) return;
    if (p.projected) {
      multiply(matrix, active(step), state_grads_.data() + sequences_.row(step, 0) * p.state, p.state, begin,
               end, [&](std::int64_t i, T* h_grad) { cell(step, i, begin, n, h_grad); });
      return;
    }
    multiply(matrix, active(step), d_row(step, 0) + 2 * hidden, width_, begin, end,
             [&](std::int64_t i, const T* reset_grad) {
               gru_reset_gradients(n, gates(step, i, begin).first,
                                   before_.data() + sequences_.row(step, i) * hidden + begin, reset_grad,
                                   h_grad_.data() + i * hidden + begin, d_row(step, i) + begin);
             });
  }

  T* d_row(std::int64_t step, std::int64_t i) const { return d_.data() + sequences_.row(step, i) * width_; }
  Gates<T> d(std::int64_t step, std::int64_t i, std::int64_t begin) const {
    return {d_row(step, i) + begin, p.hidden, static_cast<int>(p.hidden > 0 ? width_ / p.hidden : 0)};
  }
  Gates<const T> gates(std::int64_t step, std::int64_t i, std::int64_t begin) const {
    return {gates_ + sequences_.row(step, i) * p.gates() * p.hidden + begin, p.hidden,
            static_cast<int>(p.gates())};
  }
  // The cell state behind a step and before it.
  const T* c(std::int64_t step, std::int64_t i) const {
    return step < 0 ? first_c_.data() + i * p.hidden : beside_ + sequences_.row(step, i) * p.hidden;
  }

  // h_grad: the gradient of what the cell gives. Of a gru it becomes that of the state before, without what comes through gates.
  void cell(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n, T* h_grad) const {
    const Gates<const T> own = gates(step, i, begin);
    const Gates<T> to = d(step, i, begin);
    if (p.cell == RecurrentCell::tanh) return tanh_backward(n, own.first, h_grad, to.first);
    if (p.cell == RecurrentCell::relu) return relu_backward(n, own.first, h_grad, to.first);
    if (p.cell == RecurrentCell::lstm) return lstm(step, i, begin, n, h_grad);
    const std::int64_t row = sequences_.row(step, i) * p.hidden + begin;
    const T* const before = before_.data() + row;
    if (resets_before())
      return gru_update_gradients(n, own.second, own.third, before, h_grad, to.second, to.third);
    gru_gradients(n, own.first, own.second, own.third, beside_ + row, before, h_grad, to.first, to.second,
                  to.third, to.fourth);
  }

  void lstm(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n, const T* h_grad) const {
    const Gates<const T> own = gates(step, i, begin);
    const Gates<T> to = d(step, i, begin);
    const T *const before = c(step - 1, i) + begin, *const behind = c(step, i) + begin;
    T* const c_grad = c_grad_.data() + i * p.hidden + begin;
    if (const T* const peepholes = read_or_null<T>(in_.peepholes))
      return lstm_gradients_with_peepholes(n, own, Gates<const T>(peepholes + begin, p.hidden, 3), before,
                                           behind, h_grad, c_grad, to);
    lstm_gradients(n, own.first, own.second, own.third, own.fourth, before, behind, h_grad, c_grad, to.first,
                   to.second, to.third, to.fourth);
  }

  void of_initial(const NDArray& gradient, const T* sorted, std::int64_t width) const {
    T* const to = write_or_null<T>(gradient);
    if (!to) return;
    for (std::int64_t i = 0; i < p.batch; ++i)
      std::copy_n(sorted + i * width, width, to + sequences_.element(i) * width);
  }

  // c (gates * hidden, columns) = the transpose of d_'s part at `first`, times a matrix (rows, columns).
  void product_with_gates(std::int64_t first, std::int64_t count, const T* matrix, std::int64_t columns,
                          T* to) const {
    rounded_product<H, T>(count, columns, sequences_.rows(), {d_.data() + first, width_, true},
                          {matrix, columns, false}, to, columns);
  }

  // What a step's second product multiplied: rows (hidden) of tanh(c) behind the output gate, or of the state behind the reset gate.
  const T* gated_rows(T* rows) const {
    sequences_.for_each_row(p.hidden, [&](std::int64_t step, std::int64_t i) {
      const std::int64_t at = sequences_.row(step, i) * p.hidden;
      const Gates<const T> own = gates(step, i, 0);
      if (p.projected) {
        tanh_behind_gate(p.hidden, own.fourth, beside_ + at, rows + at);
      } else {
        product_of(p.hidden, own.first, before_.data() + at, rows + at);
      }
    });
    return rows;
  }

  void of_weights() const {
    const std::int64_t hidden = p.hidden, all = p.gates() * hidden;
    if (T* const to = write_or_null<T>(gradients_.weight_hh)) {
      if (resets_before()) {
        product_with_gates(0, 2 * hidden, before_.data(), hidden, to);
        const ScratchOf<T> memory(sequences_.rows() * hidden);
        product_with_gates(2 * hidden, hidden, gated_rows(memory.data()), hidden, to + 2 * hidden * hidden);
      } else {
        product_with_gates(splits_new_gate() ? hidden : 0, all, before_.data(), p.state, to);
      }
    }
    if (T* const to = write_or_null<T>(gradients_.weight_hr)) {
      const ScratchOf<T> memory(sequences_.rows() * hidden);
      rounded_product<H, T>(p.state, hidden, sequences_.rows(), {state_grads_.data(), p.state, true},
                            {gated_rows(memory.data()), hidden, false}, to, hidden);
    }
    if (T* const to = write_or_null<T>(gradients_.weight_ih)) {
      const ScratchOf<T> memory(sequences_.in_place() ? 0 : sequences_.rows() * p.features);
      const T* const x = rows_of_x(p, sequences_, in_.x.data<const T>(), memory.data());
      if (splits_new_gate()) {
        product_with_gates(hidden, 2 * hidden, x, p.features, to);
        product_with_gates(0, hidden, x, p.features, to + 2 * hidden * p.features);
      } else {
        product_with_gates(0, all, x, p.features, to);
      }
    }
  }

  void of_biases() const {
    const std::int64_t hidden = p.hidden, all = p.gates() * hidden;
    T* const of_ih = write_or_null<T>(gradients_.bias_ih);
    T* const of_hh = write_or_null<T>(gradients_.bias_hh);
    if (!of_ih && !of_hh) return;
    const bool split = splits_new_gate();
    const std::vector<T> sums = sums_of_columns(d_.data(), sequences_.rows(), width_);
    const T* const from = sums.data();
    if (of_hh) std::copy_n(from + (split ? hidden : 0), all, of_hh);
    if (!of_ih) return;
    std::copy_n(from + (split ? hidden : 0), split ? 2 * hidden : all, of_ih);
    if (split) std::copy_n(from, hidden, of_ih + 2 * hidden);
  }

  void of_peepholes() const {
    T* const to = write_or_null<T>(gradients_.peepholes);
    if (!to) return;
    for_each_block(p, p.hidden, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t n = end - begin;
      std::vector<double> sums(static_cast<std::size_t>(3 * n));
      for (std::int64_t step = 0; step < sequences_.steps(); ++step)
        for (std::int64_t i = 0; i < active(step); ++i)
          add_peephole_gradients(n, Gates<const T>(d_row(step, i) + begin, p.hidden, 4),
                                 c(step - 1, i) + begin, c(step, i) + begin, sums.data());
      for (std::int64_t gate = 0; gate < 3; ++gate)
        for (std::int64_t u = 0; u < n; ++u)
          to[gate * p.hidden + begin + u] = static_cast<T>(sums[static_cast<std::size_t>(gate * n + u)]);
    });
  }

  void of_x() const {
    T* const to = write_or_null<T>(gradients_.x);
    if (!to) return;
    const std::int64_t rows = sequences_.rows(), hidden = p.hidden, features = p.features;
    const bool in_place = sequences_.in_place();
    const ScratchOf<T> memory(in_place ? 0 : rows * features);
    T* const made = in_place ? to : memory.data();
    const T* const weight = in_.weight_ih.data<const T>();
    const auto product = [&](std::int64_t first, std::int64_t gate, std::int64_t count, bool accumulate) {
      rounded_product<H, T>(rows, features, count, {d_.data() + first, width_, false},
                            {weight + gate * features, features, false}, made, features, accumulate);
    };
    if (splits_new_gate()) {
      product(hidden, 0, 2 * hidden, false);
      product(0, 2 * hidden, hidden, true);
    } else {
      product(0, 0, width_, false);
    }
    if (in_place) return;
    sequences_.for_each_place_behind(
        [&](std::int64_t place) { std::fill_n(to + place * features, features, T{0}); });
    sequences_.for_each_row(features, [&](std::int64_t step, std::int64_t i) {
      std::copy_n(made + sequences_.row(step, i) * features, features,
                  to + sequences_.place(step, i) * features);
    });
  }

  bool splits_new_gate() const { return p.cell == RecurrentCell::gru; }
  bool resets_before() const { return p.cell == RecurrentCell::gru_reset_before; }

  const RecurrentProblem& p;
  const RecurrentArrays& in_;
  const RecurrentGradients& gradients_;
  const Sequences sequences_;
  const std::int64_t width_;  // of d_
  const T *output_, *gates_, *beside_;
  const T *output_grad_, *final_h_grad_, *final_c_grad_;
  const ScratchOf<T> d_, before_;
  const ScratchOf<T> h_grad_;       // of the states behind a step, in the order of `sequences_`
  const ScratchOf<T> state_grads_;  // with a projection: of the states behind all steps
  const ScratchOf<T> c_grad_;
  const ScratchOf<T> first_c_;
};

void recurrent_backward_kernel(const KernelContext&, const RecurrentProblem& problem,
                               const RecurrentArrays& in, const NDArray& results, const NDArray& kept,
                               const NDArray& grad, const RecurrentGradients& gradients) {
  visit_products(problem, results.dtype(), [&]<class T, class H>() {
    RecurrentBackward<T, H>(problem, in, results, kept, grad, gradients).run();
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(recurrent_backward) {
  table.add<RecurrentBackwardKernel>("recurrent_backward", DeviceKind::cpu, recurrent_backward_kernel);
}

}  // namespace heddle::cpu_kernels
