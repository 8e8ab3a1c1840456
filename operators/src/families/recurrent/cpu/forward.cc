// The forward kernel of recurrent networks: one product for the inputs of all steps, then a product and a pass of the cell for each
// step. Each number is computed by one task in a fixed order.
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

// H: what operands of products are rounded to; T: not rounded.
template <class T, class H> class RecurrentForward {
 public:
  RecurrentForward(const RecurrentProblem& problem, const RecurrentArrays& in, const NDArray& results,
                   const NDArray& kept)
      : p(problem),
        in_(in),
        sequences_(problem, in.lengths),
        groups_(p.gates()),
        output_(results.data<T>()),
        final_h_(output_ + p.output_size()),
        final_c_(final_h_ + p.state_size()),
        gates_(kept.data<T>()),
        beside_(gates_ + p.output_size() * groups_),
        h_(2 * p.state_size()),
        first_c_(p.has_cell_state() ? p.state_size() : 0),
        bias_(sum_of_biases()) {}

  void run() {
    multiply_inputs();
    sequences_.for_each_place_behind(
        [&](std::int64_t place) { std::fill_n(output_ + place * p.hidden, p.hidden, T{0}); });
    start(read_or_null<T>(in_.h), h_.data(), final_h_);
    if (p.has_cell_state()) start(read_or_null<T>(in_.c), first_c_.data(), final_c_);
    const Matrix matrix(in_.weight_hh.data<const T>(), true, p.hidden, groups_, p.hidden, sequences_.steps());
    for (std::int64_t step = 0; step < sequences_.steps(); ++step)
      for_each_block(p, [&](std::int64_t begin, std::int64_t end) { block(matrix, step, begin, end); });
  }

 private:
  using Matrix = MatrixOfSteps<T, H>;

  // One bias for each gate; for a gru also that of the new gate's part from the state.
  std::vector<T> sum_of_biases() const {
    const std::int64_t all = groups_ * p.hidden, summed = is_gru() ? 2 * p.hidden : all;
    std::vector<T> bias(static_cast<std::size_t>(all + (is_gru() ? p.hidden : 0)));
    if (const T* const of_x = read_or_null<T>(in_.bias_ih)) std::copy_n(of_x, all, bias.begin());
    if (const T* const of_h = read_or_null<T>(in_.bias_hh)) {
      for (std::int64_t i = 0; i < summed; ++i) bias[static_cast<std::size_t>(i)] += of_h[i];
      std::copy(of_h + summed, of_h + all, bias.begin() + all);
    }
    return bias;
  }

  void multiply_inputs() const {
    const ScratchOf<T> memory(sequences_.in_place() ? 0 : sequences_.rows() * p.features);
    const T* const x = rows_of_x(p, sequences_, in_.x.data<const T>(), memory.data());
    const std::int64_t width = groups_ * p.hidden;
    rounded_product<H, T>(sequences_.rows(), width, p.features, {x, p.features, false},
                          {in_.weight_ih.data<const T>(), p.features, true}, gates_, width);
  }

  // The initial state is also the final one of elements without steps.
  void start(const T* state, T* sorted, T* final) const {
    sort_state(p, sequences_, state, sorted);
    for (std::int64_t i = sequences_.active(0); i < p.batch; ++i)
      std::copy_n(sorted + i * p.hidden, p.hidden, final + sequences_.element(i) * p.hidden);
  }

  // The states in the order of `sequences_`, before a step; those behind it are the states before the next one.
  T* h_before(std::int64_t step) const { return h_.data() + step % 2 * p.state_size(); }

  // One step for the units from begin to end.
  void block(const Matrix& matrix, std::int64_t step, std::int64_t begin, std::int64_t end) const {
    const std::int64_t width = Matrix::tile_width(begin, end), active = sequences_.active(step);
    const ScratchOf<T> tile(std::min(active, kBlockRows) * groups_ * width);
    for (std::int64_t first = 0; first < active; first += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, active - first);
      matrix.multiply(rows, h_before(step) + first * p.hidden, p.hidden, begin, end, tile.data());
      for (std::int64_t i = 0; i < rows; ++i)
        cell(step, first + i, begin, end - begin,
             Gates<const T>(tile.data() + i * groups_ * width, width, static_cast<int>(groups_)));
    }
  }

  void cell(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n,
            const Gates<const T>& tile) const {
    const std::int64_t row = sequences_.row(step, i), hidden = p.hidden;
    const Gates<T> gates(gates_ + row * groups_ * hidden + begin, hidden, static_cast<int>(groups_));
    const Gates<const T> bias(bias_.data() + begin, hidden, is_gru() ? 4 : static_cast<int>(groups_));
    const T* const before = h_before(step) + i * hidden + begin;
    T* const h = h_before(step + 1) + i * hidden + begin;
    T* const beside = beside_ + row * hidden + begin;
    switch (p.cell) {
      case RecurrentCell::tanh:
        tanh_forward(n, gates.first, tile.first, bias.first, h);
        break;
      case RecurrentCell::relu:
        relu_forward(n, gates.first, tile.first, bias.first, h);
        break;
      case RecurrentCell::lstm: {
        const T* const c =
            step == 0 ? first_c_.data() + i * hidden : beside_ + sequences_.row(step - 1, i) * hidden;
        lstm_forward(n, gates, tile, bias, c + begin, beside, h);
        break;
      }
      case RecurrentCell::gru:
        gru_forward(n, gates, tile, bias, before, beside, h);
        break;
    }
    std::copy_n(h, n, output_ + sequences_.place(step, i) * hidden + begin);
    if (!sequences_.ends(step, i)) return;
    const std::int64_t at = sequences_.element(i) * hidden + begin;
    std::copy_n(h, n, final_h_ + at);
    if (p.has_cell_state()) std::copy_n(beside, n, final_c_ + at);
  }

  bool is_gru() const { return p.cell == RecurrentCell::gru; }

  const RecurrentProblem& p;
  const RecurrentArrays& in_;
  const Sequences sequences_;
  const std::int64_t groups_;
  T *output_, *final_h_, *final_c_;
  T *gates_, *beside_;  // see RecurrentProblem::kept()
  const ScratchOf<T> h_, first_c_;
  const std::vector<T> bias_;
};

void recurrent_kernel(const KernelContext&, const RecurrentProblem& problem, const RecurrentArrays& in,
                      const NDArray& results, const NDArray& kept) {
  visit_products(problem, results.dtype(),
                 [&]<class T, class H>() { RecurrentForward<T, H>(problem, in, results, kept).run(); });
}

}  // namespace

HEDDLE_CPU_KERNELS(recurrent) { table.add<RecurrentKernel>("recurrent", DeviceKind::cpu, recurrent_kernel); }

}  // namespace heddle::cpu_kernels
