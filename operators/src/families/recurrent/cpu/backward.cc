// The backward kernel of recurrent networks: the steps in reverse, then one product for all steps for each weight and for x. Each
// number is computed by one task in a fixed order.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/floating.h"
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

// A row of d_, the gradients of the gates before their functions, is (gates) for tanh, relu and lstm. For a gru it is
// (new gate's part from x, reset, update, new gate's part from h): the last three are those of the product with weight_hh.
// H: what operands of products are rounded to; T: not rounded.
template <class T, class H> class RecurrentBackward {
 public:
  RecurrentBackward(const RecurrentProblem& problem, const RecurrentArrays& in, const NDArray& results,
                    const NDArray& kept, const NDArray& grad, const RecurrentGradients& gradients)
      : p(problem),
        in_(in),
        gradients_(gradients),
        sequences_(problem, in.lengths),
        width_((p.gates() + (is_gru() ? 1 : 0)) * p.hidden),
        output_(results.data<const T>()),
        gates_(kept.data<const T>()),
        beside_(gates_ + p.output_size() * p.gates()),
        output_grad_(grad.data<const T>()),
        final_h_grad_(output_grad_ + p.output_size()),
        final_c_grad_(final_h_grad_ + p.state_size()),
        d_(sequences_.rows() * width_),
        before_(sequences_.rows() * p.hidden),
        h_grad_(p.state_size()),
        c_grad_(c_grad_count()),
        first_c_(c_grad_count()) {}

  void run() {
    if (is_gru() || gradients_.weight_hh.defined()) gather_states();
    if (p.has_cell_state()) sort_state(p, sequences_, read_or_null<T>(in_.c), first_c_.data());
    const Matrix matrix(in_.weight_hh.data<const T>(), false, p.gates() * p.hidden, 1, p.hidden,
                        sequences_.steps());
    const bool to_start = gradients_.h.defined() || gradients_.c.defined();
    for (std::int64_t step = sequences_.steps() - 1; step >= (to_start ? -1 : 0); --step)
      for_each_block(p, [&](std::int64_t begin, std::int64_t end) { block(matrix, step, begin, end); });
    of_weights();
    of_x();
  }

 private:
  using Matrix = MatrixOfSteps<T, H>;

  // before_: the state before each step, in the order of `sequences_`.
  void gather_states() const {
    const T* const h = read_or_null<T>(in_.h);
    sequences_.for_each_row(p.hidden, [&](std::int64_t step, std::int64_t i) {
      T* const to = before_.data() + sequences_.row(step, i) * p.hidden;
      if (step > 0) {
        std::copy_n(output_ + sequences_.place(step - 1, i) * p.hidden, p.hidden, to);
      } else if (h) {
        std::copy_n(h + sequences_.element(i) * p.hidden, p.hidden, to);
      } else {
        std::fill_n(to, p.hidden, T{0});
      }
    });
  }

  // The units from begin to end: the gradient of the state behind `step`, and of the step's gates. Step -1 stands for the initial
  // state.
  void block(const Matrix& matrix, std::int64_t step, std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = end - begin, width = Matrix::tile_width(begin, end), hidden = p.hidden;
    const std::int64_t continued = sequences_.active(step + 1);  // elements that have the step behind
    const ScratchOf<T> tile(std::min(continued, kBlockRows) * width);
    for (std::int64_t first = 0; first < continued; first += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, continued - first);
      matrix.multiply(rows, gates_gradient(step + 1, first) + (is_gru() ? hidden : 0), width_, begin, end,
                      tile.data());
      for (std::int64_t i = first; i < first + rows; ++i) {
        const T* const from = tile.data() + (i - first) * width;
        T* const h = h_grad_.data() + i * hidden + begin;
        if (is_gru()) {
          for (std::int64_t u = 0; u < n; ++u) h[u] += from[u];
        } else {
          std::copy_n(from, n, h);
        }
      }
    }
    const std::int64_t active = step < 0 ? p.batch : sequences_.active(step);
    for (std::int64_t i = continued; i < active; ++i) {
      const std::int64_t to = i * hidden + begin, from = sequences_.element(i) * hidden + begin;
      std::copy_n(final_h_grad_ + from, n, h_grad_.data() + to);
      if (p.has_cell_state()) std::copy_n(final_c_grad_ + from, n, c_grad_.data() + to);
    }
    if (step < 0) return of_states(begin, n);
    for (std::int64_t i = 0; i < active; ++i) cell(step, i, begin, n);
  }

  T* gates_gradient(std::int64_t step, std::int64_t i) const {
    return d_.data() + sequences_.row(step, i) * width_;
  }

  void cell(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n) const {
    const std::int64_t row = sequences_.row(step, i), hidden = p.hidden;
    const Gates<const T> gates(gates_ + row * p.gates() * hidden + begin, hidden,
                               static_cast<int>(p.gates()));
    const Gates<T> d(gates_gradient(step, i) + begin, hidden, static_cast<int>(width_ / hidden));
    T* const h_grad = h_grad_.data() + i * hidden + begin;
    const T* const of_output = output_grad_ + sequences_.place(step, i) * hidden + begin;
    for (std::int64_t u = 0; u < n; ++u) h_grad[u] += of_output[u];
    const T* const beside = beside_ + row * hidden + begin;
    switch (p.cell) {
      case RecurrentCell::tanh:
        return tanh_backward(n, gates.first, h_grad, d.first);
      case RecurrentCell::relu:
        return relu_backward(n, gates.first, h_grad, d.first);
      case RecurrentCell::lstm: {
        const T* const before =
            step == 0 ? first_c_.data() + i * hidden : beside_ + sequences_.row(step - 1, i) * hidden;
        return lstm_gradients(n, gates.first, gates.second, gates.third, gates.fourth, before + begin, beside,
                              h_grad, c_grad_.data() + i * hidden + begin, d.first, d.second, d.third,
                              d.fourth);
      }
      case RecurrentCell::gru:
        return gru_gradients(n, gates.first, gates.second, gates.third, beside,
                             before_.data() + row * hidden + begin, h_grad, d.first, d.second, d.third,
                             d.fourth);
    }
  }

  void of_states(std::int64_t begin, std::int64_t n) const {
    T *const h = write_or_null<T>(gradients_.h), *const c = write_or_null<T>(gradients_.c);
    for (std::int64_t i = 0; i < p.batch; ++i) {
      const std::int64_t from = i * p.hidden + begin, to = sequences_.element(i) * p.hidden + begin;
      if (h) std::copy_n(h_grad_.data() + from, n, h + to);
      if (c) std::copy_n(c_grad_.data() + from, n, c + to);
    }
  }

  // c (gates * hidden, columns) = the transpose of d_'s part at `first`, times a matrix (rows, columns).
  void product_with_gates(std::int64_t first, std::int64_t count, const T* matrix, std::int64_t columns,
                          T* c) const {
    rounded_product<H, T>(count, columns, sequences_.rows(), {d_.data() + first, width_, true},
                          {matrix, columns, false}, c, columns);
  }

  void of_weights() const {
    const std::int64_t hidden = p.hidden, all = p.gates() * hidden;
    if (T* const to = write_or_null<T>(gradients_.weight_hh))
      product_with_gates(is_gru() ? hidden : 0, all, before_.data(), hidden, to);
    if (T* const to = write_or_null<T>(gradients_.weight_ih)) {
      const ScratchOf<T> memory(sequences_.in_place() ? 0 : sequences_.rows() * p.features);
      const T* const x = rows_of_x(p, sequences_, in_.x.data<const T>(), memory.data());
      if (is_gru()) {
        product_with_gates(hidden, 2 * hidden, x, p.features, to);
        product_with_gates(0, hidden, x, p.features, to + 2 * hidden * p.features);
      } else {
        product_with_gates(0, all, x, p.features, to);
      }
    }
    T *const of_ih = write_or_null<T>(gradients_.bias_ih), *const of_hh =
                                                               write_or_null<T>(gradients_.bias_hh);
    if (!of_ih && !of_hh) return;
    const std::vector<T> sums = sums_of_columns(d_.data(), sequences_.rows(), width_);
    const T* const from = sums.data();
    if (of_hh) std::copy_n(from + (is_gru() ? hidden : 0), all, of_hh);
    if (!of_ih) return;
    std::copy_n(from + (is_gru() ? hidden : 0), is_gru() ? 2 * hidden : all, of_ih);
    if (is_gru()) std::copy_n(from, hidden, of_ih + 2 * hidden);
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
    if (is_gru()) {
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

  bool is_gru() const { return p.cell == RecurrentCell::gru; }
  std::int64_t c_grad_count() const { return p.has_cell_state() ? p.state_size() : 0; }

  const RecurrentProblem& p;
  const RecurrentArrays& in_;
  const RecurrentGradients& gradients_;
  const Sequences sequences_;
  const std::int64_t width_;  // of d_
  const T *output_, *gates_, *beside_;
  const T *output_grad_, *final_h_grad_, *final_c_grad_;
  const ScratchOf<T> d_, before_;
  const ScratchOf<T> h_grad_, c_grad_;  // of the states behind a step, in the order of `sequences_`
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
