// The forward kernel of recurrent networks: one product for the inputs of all steps, then a product and a pass of the cell for each
// step. Each number is computed by one task in a fixed order.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/recurrent/cpu/cells.h"
#include "families/recurrent/cpu/half_step_matrix.h"
#include "families/recurrent/cpu/products.h"
#include "families/recurrent/cpu/step_matrix.h"

namespace heddle::cpu_kernels {
namespace {

// A step is a product with weight_hh and the cell. Behind it, an lstm with a projection has the product with weight_hr; a gru that resets
// before the product, the product of its new gate.
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
        beside_(gates_ + p.units() * groups_),
        h_(2 * p.state_size()),
        first_c_(p.cell_size()),
        between_(p.projected || resets_before() ? p.batch * p.hidden : 0),
        bias_(sum_of_biases()) {}

  void run() {
    multiply_inputs();
    sequences_.for_each_place_behind(
        [&](std::int64_t place) { std::fill_n(output_ + place * p.state, p.state, T{0}); });
    start(p.state, read_or_null<T>(in_.h), h_.data(), final_h_);
    if (p.has_cell_state()) start(p.hidden, read_or_null<T>(in_.c), first_c_.data(), final_c_);
    const std::int64_t steps = sequences_.steps(), groups = resets_before() ? 2 : groups_;
    const T* const weight = in_.weight_hh.data<const T>();
    const Matrix matrix(weight, true, p.state, groups, p.hidden, steps);
    std::optional<Matrix> behind;
    if (p.projected) behind.emplace(in_.weight_hr.data<const T>(), true, p.hidden, 1, p.state, steps);
    if (resets_before()) behind.emplace(weight + 2 * p.hidden * p.hidden, true, p.hidden, 1, p.hidden, steps);
    for (std::int64_t step = 0; step < steps; ++step) {
      for_each_block(p, p.hidden, [&](std::int64_t begin, std::int64_t end) {
        multiply(
            matrix, groups, h_before(step), p.state, step, begin, end,
            [&](std::int64_t i, const Gates<const T>& tile) { cell(step, i, begin, end - begin, tile); });
      });
      if (!behind) continue;
      for_each_block(p, p.state, [&](std::int64_t begin, std::int64_t end) {
        multiply(*behind, 1, between_.data(), p.hidden, step, begin, end,
                 [&](std::int64_t i, const Gates<const T>& tile) {
                   state(step, i, begin, end - begin, tile.first);
                 });
      });
    }
  }

 private:
  using Matrix = MatrixOfSteps<T, H>;

  // One bias for each gate; for a gru that resets behind the product also that of the new gate's part from the state.
  std::vector<T> sum_of_biases() const {
    const bool split = p.cell == RecurrentCell::gru;
    const std::int64_t all = groups_ * p.hidden, summed = split ? 2 * p.hidden : all;
    std::vector<T> bias(static_cast<std::size_t>(all + (split ? p.hidden : 0)));
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
  void start(std::int64_t width, const T* state, T* sorted, T* final) const {
    sort_state(p, width, sequences_, state, sorted);
    for (std::int64_t i = sequences_.active(0); i < p.batch; ++i)
      std::copy_n(sorted + i * width, width, final + sequences_.element(i) * width);
  }

  // The states in the order of `sequences_`, before a step; those behind it are the states before the next one.
  T* h_before(std::int64_t step) const { return h_.data() + step % 2 * p.state_size(); }

  // Calls body(i, products) for each row of a step, with its products for the units from begin to end in `groups` groups.
  template <class Body>
  void multiply(const Matrix& matrix, std::int64_t groups, const T* from, std::int64_t stride,
                std::int64_t step, std::int64_t begin, std::int64_t end, const Body& body) const {
    const std::int64_t width = Matrix::tile_width(begin, end), active = sequences_.active(step);
    const ScratchOf<T> tile(std::min(active, kBlockRows) * groups * width);
    for (std::int64_t first = 0; first < active; first += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, active - first);
      matrix.multiply(rows, from + first * stride, stride, begin, end, tile.data());
      for (std::int64_t i = 0; i < rows; ++i)
        body(first + i, Gates<const T>(tile.data() + i * groups * width, width, static_cast<int>(groups)));
    }
  }

  Gates<T> gates(std::int64_t step, std::int64_t i, std::int64_t begin) const {
    return {gates_ + sequences_.row(step, i) * groups_ * p.hidden + begin, p.hidden,
            static_cast<int>(groups_)};
  }
  Gates<const T> bias(std::int64_t begin) const {
    return {bias_.data() + begin, p.hidden, p.cell == RecurrentCell::gru ? 4 : static_cast<int>(groups_)};
  }

  void cell(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n,
            const Gates<const T>& tile) const {
    const Gates<T> own = gates(step, i, begin);
    const Gates<const T> added = bias(begin);
    const auto before = [&] { return h_before(step) + i * p.state + begin; };
    const auto between = [&] { return between_.data() + i * p.hidden + begin; };
    T* const h = p.projected       ? between()
                 : resets_before() ? nullptr
                                   : h_before(step + 1) + i * p.state + begin;
    switch (p.cell) {
      case RecurrentCell::tanh:
        tanh_forward(n, own.first, tile.first, added.first, h);
        break;
      case RecurrentCell::relu:
        relu_forward(n, own.first, tile.first, added.first, h);
        break;
      case RecurrentCell::lstm:
        lstm(step, i, begin, n, tile, h);
        if (p.projected) return;
        break;
      case RecurrentCell::gru:
        gru_forward(n, own, tile, added, before(), beside_ + sequences_.row(step, i) * p.hidden + begin, h);
        break;
      case RecurrentCell::gru_reset_before:
        return gru_reset(n, own, tile, added, before(), between());
    }
    give(step, i, begin, n, h);
  }

  void lstm(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n, const Gates<const T>& tile,
            T* h) const {
    const std::int64_t hidden = p.hidden;
    const T* const before =
        begin + (step == 0 ? first_c_.data() + i * hidden : beside_ + sequences_.row(step - 1, i) * hidden);
    T* const c = beside_ + sequences_.row(step, i) * hidden + begin;
    if (const T* const peepholes = read_or_null<T>(in_.peepholes)) {
      lstm_forward_with_peepholes(n, gates(step, i, begin), tile, bias(begin),
                                  Gates<const T>(peepholes + begin, hidden, 3), before, c, h);
    } else {
      lstm_forward(n, gates(step, i, begin), tile, bias(begin), before, c, h);
    }
    if (sequences_.ends(step, i)) std::copy_n(c, n, final_c_ + sequences_.element(i) * hidden + begin);
  }

  // What follows the product behind the cell.
  void state(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n, const T* product) const {
    T* const h = h_before(step + 1) + i * p.state + begin;
    if (p.projected) {
      std::copy_n(product, n, h);
    } else {
      const Gates<T> own = gates(step, i, begin);
      gru_after_reset(n, own.second, own.third, product, bias(begin).third,
                      h_before(step) + i * p.state + begin, h);
    }
    give(step, i, begin, n, h);
  }

  void give(std::int64_t step, std::int64_t i, std::int64_t begin, std::int64_t n, const T* h) const {
    std::copy_n(h, n, output_ + sequences_.place(step, i) * p.state + begin);
    if (sequences_.ends(step, i)) std::copy_n(h, n, final_h_ + sequences_.element(i) * p.state + begin);
  }

  bool resets_before() const { return p.cell == RecurrentCell::gru_reset_before; }

  const RecurrentProblem& p;
  const RecurrentArrays& in_;
  const Sequences sequences_;
  const std::int64_t groups_;
  T *output_, *final_h_, *final_c_;
  T *gates_, *beside_;  // see RecurrentProblem::kept()
  const ScratchOf<T> h_, first_c_;
  const ScratchOf<T> between_;  // rows (hidden) of the product behind the cell
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
