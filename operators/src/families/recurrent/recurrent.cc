#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <heddle/array_error.h>
#include <heddle/elementwise.h>
#include <heddle/multiply_adds.h>
#include <heddle/recurrent.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/recurrent/composed.h"
#include "families/recurrent/kernels.h"

namespace heddle {

using namespace operators_detail;

void refuse_length(const char* op, std::int64_t element, const std::string& length, std::int64_t steps) {
  throw InvalidArgument(std::string(op) + ": lengths[" + std::to_string(element) + "] is " + length +
                        "; want 0 to " + std::to_string(steps));
}

namespace {

// The floating arrays by their names in errors, in the order of the tape's inputs.
struct Named {
  const char* name;
  NDArray RecurrentArrays::*array;
  NDArray RecurrentGradients::*gradient;
};
constexpr Named kFloating[] = {{"x", &RecurrentArrays::x, &RecurrentGradients::x},
                               {"weight_ih", &RecurrentArrays::weight_ih, &RecurrentGradients::weight_ih},
                               {"weight_hh", &RecurrentArrays::weight_hh, &RecurrentGradients::weight_hh},
                               {"bias_ih", &RecurrentArrays::bias_ih, &RecurrentGradients::bias_ih},
                               {"bias_hh", &RecurrentArrays::bias_hh, &RecurrentGradients::bias_hh},
                               {"h", &RecurrentArrays::h, &RecurrentGradients::h},
                               {"c", &RecurrentArrays::c, &RecurrentGradients::c},
                               {"weight_hr", &RecurrentArrays::weight_hr, &RecurrentGradients::weight_hr},
                               {"peepholes", &RecurrentArrays::peepholes, &RecurrentGradients::peepholes}};

void check_array(const RecurrentProblem& p, const char* name, const NDArray& x, const NDArray& array,
                 const Shape& wanted) {
  if (!array.defined()) return;
  check_arrays(p.op, {&x, &array});
  const bool fits = array.dtype() == x.dtype() || (mixes_dtypes() && is_floating(array.dtype()));
  if (array.shape() == wanted && fits) return;
  throw InvalidArgument(std::string(p.op) + ": " + name + " is " + name_of(array.dtype()) + " " +
                        array.shape().to_string() + "; want " + name_of(x.dtype()) + " " +
                        wanted.to_string());
}

void check_lengths(const RecurrentProblem& p, const NDArray& x, const NDArray& lengths) {
  if (!lengths.defined()) return;
  check_arrays(p.op, {&x, &lengths});
  if (lengths.shape() == Shape{p.batch} && !is_floating(lengths.dtype()) && lengths.dtype() != DType::boolean)
    return;
  throw InvalidArgument(std::string(p.op) + ": lengths are " + name_of(lengths.dtype()) + " " +
                        lengths.shape().to_string() + "; want integers " + Shape{p.batch}.to_string());
}

// Throws InvalidArgument if the sizes of results, or of what is kept for the backward pass, do not fit 64 bits.
void check_sizes(const RecurrentProblem& p) {
  constexpr std::int64_t kStates = 2;  // final ones, behind the steps
  const std::int64_t steps = std::min(p.steps, std::numeric_limits<std::int64_t>::max() - kStates) + kStates;
  ndarray_detail::in_name_of(p.op, [&] {
    element_count({steps, p.batch, std::max(p.hidden, p.state), p.kept() + 1});
  });
}

// Throws InvalidArgument for what `cell` has not.
void check_cell(const char* op, RecurrentCell cell, const RecurrentArrays& in,
                const RecurrentOptions& options) {
  const auto refuse = [&](const std::string& what) { throw InvalidArgument(op + (": " + what)); };
  const bool lstm = cell == RecurrentCell::lstm;
  if (!lstm && in.weight_hr.defined()) refuse("weight_hr is given; only an lstm has it");
  if (!lstm && in.peepholes.defined()) refuse("peepholes are given; only an lstm has them");
  const bool gru = cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_before;
  if (!gru && !options.reset_after) refuse("reset_after is false; only a gru has it");
}

void check_matrix(const char* op, const char* name, const NDArray& matrix, bool fits,
                  const std::string& wanted) {
  if (matrix.ndim() == 2 && fits) return;
  throw InvalidArgument(std::string(op) + ": " + name + " is " + matrix.shape().to_string() + "; want " +
                        wanted);
}

RecurrentProblem problem_of(const char* op, RecurrentCell cell, const RecurrentArrays& in,
                            const RecurrentOptions& options) {
  check_arrays(op, {&in.x, &in.weight_ih, &in.weight_hh});
  operators_detail::check_floating(op, in.x);
  check_cell(op, cell, in, options);
  if (in.x.ndim() != 3)
    throw InvalidArgument(std::string(op) + ": x is " + in.x.shape().to_string() + "; want " +
                          (options.batch_first ? "(N, T, F)" : "(T, N, F)"));
  const Shape& shape = in.x.shape();
  const bool projected = in.weight_hr.defined();
  if (projected) check_matrix(op, "weight_hr", in.weight_hr, true, "(P, H)");
  const auto columns = [](const NDArray& a) { return a.ndim() == 2 ? a.shape()[1] : 0; };
  const std::int64_t hidden = columns(projected ? in.weight_hr : in.weight_hh);
  const RecurrentProblem p{.op = op,
                           .cell = cell,
                           .steps = shape[options.batch_first ? 1 : 0],
                           .batch = shape[options.batch_first ? 0 : 1],
                           .features = shape[2],
                           .hidden = hidden,
                           .state = projected ? in.weight_hr.shape()[0] : hidden,
                           .projected = projected,
                           .reverse = options.reverse,
                           .batch_first = options.batch_first,
                           .products = DType::f32};
  check_sizes(p);
  const std::string rows = p.gates() == 1 ? "" : std::to_string(p.gates()) + " * ";
  check_matrix(op, "weight_hh", in.weight_hh,
               in.weight_hh.ndim() == 2 && in.weight_hh.shape()[0] == p.gates() * hidden,
               "(" + rows + (projected ? "H, P)" : "H, H)"));
  const Shape of_gates{p.gates() * hidden};
  check_array(p, "weight_hh", in.x, in.weight_hh, {p.gates() * hidden, p.state});
  check_array(p, "weight_ih", in.x, in.weight_ih, {p.gates() * hidden, p.features});
  check_array(p, "bias_ih", in.x, in.bias_ih, of_gates);
  check_array(p, "bias_hh", in.x, in.bias_hh, of_gates);
  check_array(p, "h", in.x, in.h, {p.batch, p.state});
  check_array(p, "c", in.x, in.c, {p.batch, hidden});
  check_array(p, "weight_hr", in.x, in.weight_hr, {p.state, hidden});
  check_array(p, "peepholes", in.x, in.peepholes, {3 * hidden});
  check_lengths(p, in.x, in.lengths);
  return p;
}

// The arrays that are defined.
std::vector<NDArray> defined_of(const RecurrentArrays& in) {
  std::vector<NDArray> arrays;
  for (const Named& each : kFloating)
    if ((in.*each.array).defined()) arrays.push_back(in.*each.array);
  if (in.lengths.defined()) arrays.push_back(in.lengths);
  return arrays;
}

// Counted as if all elements had all steps.
std::int64_t multiply_adds(const RecurrentProblem& p, bool of_x, bool of_h, bool of_projection) {
  return p.units() * (p.gates() * ((of_x ? p.features : 0) + (of_h ? p.state : 0)) +
                      (of_projection && p.projected ? p.state : 0));
}

struct Pushed {
  NDArray results, kept;
};

Pushed push_recurrent(const RecurrentProblem& p, const RecurrentArrays& in) {
  const Pushed out{make_result(in.x, {p.results_size()}, in.x.dtype()),
                   make_result(in.x, {p.units() * p.kept()}, in.x.dtype())};
  auto* kernel = kernel_for<RecurrentKernel>("recurrent", in.x);
  MultiplyAdds::add(multiply_adds(p, true, true, true));
  const NDArray writes[] = {out.results, out.kept};
  push_op(p.op, defined_of(in), writes,
          [=, results = out.results.detach(), kept = out.kept](const KernelContext& context) {
            kernel(context, p, in, results, kept);
          });
  return out;
}

// Which of kFloating need a gradient.
using Needs = std::array<bool, std::size(kFloating)>;

const char* backward_name(RecurrentCell cell) {
  return cell == RecurrentCell::lstm                                  ? "lstm_backward"
         : cell == RecurrentCell::tanh || cell == RecurrentCell::relu ? "rnn_backward"
                                                                      : "gru_backward";
}

std::vector<NDArray> push_backward(const RecurrentProblem& p, const RecurrentArrays& in, const Pushed& out,
                                   const NDArray& grad, const Needs& needs) {
  const NDArray g = grad.detach().contiguous();
  RecurrentGradients made;
  std::vector<NDArray> gradients, writes, reads = defined_of(in);
  for (std::size_t i = 0; i < std::size(kFloating); ++i) {
    const NDArray& array = in.*kFloating[i].array;
    if (!array.defined()) continue;
    if (needs[i]) {
      NDArray gradient = make_gradient(gradients.size(), array);
      made.*kFloating[i].gradient = gradient.detach();
      writes.push_back(gradient);
      gradients.push_back(std::move(gradient));
    } else {
      gradients.emplace_back();
    }
  }
  MultiplyAdds::add(
      multiply_adds(p, made.x.defined(), true, true) +
      multiply_adds(p, made.weight_ih.defined(), made.weight_hh.defined(), made.weight_hr.defined()));
  reads.insert(reads.end(), {out.results, out.kept, g});
  auto* kernel = kernel_for<RecurrentBackwardKernel>("recurrent_backward", g);
  push_op(
      backward_name(p.cell), reads, writes,
      [=](const KernelContext& context) { kernel(context, p, in, out.results, out.kept, g, made); },
      kWeightsFirst);
  return gradients;
}

// The gradients by operators, which a tape can record: those of the composition. Each input is multiplied by 1 first, so that the
// gradient by one does not pass through another one that was computed from it.
std::vector<NDArray> by_operators(const RecurrentProblem& p, const RecurrentArrays& kept,
                                  const NDArray& grad_output, const Needs& needs) {
  RecurrentArrays in = kept;
  std::vector<NDArray> wanted;
  for (std::size_t i = 0; i < std::size(kFloating); ++i) {
    if (!needs[i]) continue;
    NDArray& array = in.*kFloating[i].array;
    array = array * 1.0;
    wanted.push_back(array);
  }
  const std::vector<NDArray> found =
      grad({composed_recurrent(p, in)}, wanted,
           {.seeds = {grad_output}, .create_graph = true, .allow_unused = true});
  std::vector<NDArray> gradients;
  std::size_t at = 0;
  for (std::size_t i = 0; i < std::size(kFloating); ++i)
    if ((kept.*kFloating[i].array).defined()) gradients.push_back(needs[i] ? found[at++] : NDArray());
  return gradients;
}

// The results as one array, see RecurrentProblem.
NDArray recurrent_results(const RecurrentProblem& p, const RecurrentArrays& in) {
  RecurrentArrays values;
  values.lengths = in.lengths.defined() ? in.lengths.detach().contiguous() : NDArray();
  Needs needs{};
  bool any = false;
  std::vector<NDArray> inputs;
  for (std::size_t i = 0; i < std::size(kFloating); ++i) {
    const NDArray& array = in.*kFloating[i].array;
    if (!array.defined()) continue;
    values.*kFloating[i].array = array.detach().contiguous();
    needs[i] = requires_grad(array);
    any = any || recording({&array});
    inputs.push_back(array);
  }
  Pushed out = push_recurrent(p, values);
  if (!any) return out.results;
  RecurrentArrays kept;
  std::vector<NDArray> saved{save_for_backward(out.results)};
  for (const Named& each : kFloating) {
    const NDArray& array = in.*each.array;
    if (!array.defined()) continue;
    kept.*each.array = save_for_backward(array);
    saved.insert(saved.end(), {kept.*each.array, save_for_backward(values.*each.array)});
  }
  if (in.lengths.defined()) {
    kept.lengths = save_for_backward(in.lengths);
    saved.push_back(kept.lengths);
  }
  const Pushed detached{out.results.detach(), out.kept};
  record_op(p.op, out.results, std::move(inputs), std::move(saved), [=](const NDArray& grad_output) {
    if (differentiating_gradient()) return by_operators(p, kept, grad_output, needs);
    return push_backward(p, values, detached, grad_output, needs);
  });
  return out.results;
}

// The output, and the final h and c, which is undefined if the cell has none.
std::array<NDArray, 3> recurrent(const char* op, RecurrentCell cell, const RecurrentArrays& in,
                                 const RecurrentOptions& options) {
  RecurrentProblem p = problem_of(op, cell, in, options);
  const DType dtype = product_dtype({&in.x, &in.weight_ih, &in.weight_hh, &in.bias_ih, &in.bias_hh, &in.h,
                                     &in.c, &in.weight_hr, &in.peepholes});
  if (Autocast::active()) p.products = dtype;
  RecurrentArrays wide_ones;
  wide_ones.lengths = in.lengths;
  for (const Named& each : kFloating) {
    const NDArray& array = in.*each.array;
    if (array.defined()) wide_ones.*each.array = dtype == DType::f64 ? cast(array, dtype) : wide(array);
  }
  const NDArray all = cast(recurrent_results(p, wide_ones), dtype);
  const auto part = [&](std::int64_t begin, std::int64_t size, const Shape& shape) {
    return all.slice(0, {begin, begin + size}).view_as(shape);
  };
  const std::int64_t output = p.output_size(), state = p.state_size();
  const Shape of_output = p.batch_first ? Shape{p.batch, p.steps, p.state} : Shape{p.steps, p.batch, p.state};
  return {part(0, output, of_output), part(output, state, {p.batch, p.state}),
          p.has_cell_state() ? part(output + state, p.cell_size(), {p.batch, p.hidden}) : NDArray()};
}

std::array<NDArray, 2> without_cell_state(std::array<NDArray, 3> results) {
  return {std::move(results[0]), std::move(results[1])};
}

RecurrentArrays arrays_of(const NDArray& x, const RecurrentWeights& weights, const NDArray& h,
                          const NDArray& c, const RecurrentOptions& options) {
  return {x, weights.ih, weights.hh, weights.ih_bias,   weights.hh_bias,
          h, c,          weights.hr, weights.peepholes, options.lengths};
}

}  // namespace

std::array<NDArray, 2> rnn(const NDArray& x, const RecurrentWeights& weights, const NDArray& h, bool relu,
                           const RecurrentOptions& options, Where where) {
  const CallSite site(where);
  return without_cell_state(recurrent("rnn", relu ? RecurrentCell::relu : RecurrentCell::tanh,
                                      arrays_of(x, weights, h, {}, options), options));
}

std::array<NDArray, 3> lstm(const NDArray& x, const RecurrentWeights& weights, const NDArray& h,
                            const NDArray& c, const RecurrentOptions& options, Where where) {
  const CallSite site(where);
  return recurrent("lstm", RecurrentCell::lstm, arrays_of(x, weights, h, c, options), options);
}

std::array<NDArray, 2> gru(const NDArray& x, const RecurrentWeights& weights, const NDArray& h,
                           const RecurrentOptions& options, Where where) {
  const CallSite site(where);
  return without_cell_state(
      recurrent("gru", options.reset_after ? RecurrentCell::gru : RecurrentCell::gru_reset_before,
                arrays_of(x, weights, h, {}, options), options));
}

HEDDLE_OPERATORS(recurrent) {
  table.family("Recurrent networks");
  using In = const NDArray&;
  const Argument x = {"x", DTypes::floating}, weight_ih = {"weight_ih", DTypes::floating},
                 weight_hh = {"weight_hh", DTypes::floating}, bias_ih = {"bias_ih", kNone, DTypes::floating},
                 bias_hh = {"bias_hh", kNone, DTypes::floating}, h = {"h", kNone, DTypes::floating},
                 c = {"c", kNone, DTypes::floating}, lengths = {"lengths", kNone, DTypes::integers},
                 reverse = {"reverse", false}, batch_first = {"batch_first", false},
                 weight_hr = {"weight_hr", kNone, DTypes::floating},
                 peepholes = {"peepholes", kNone, DTypes::floating};
  table.add(
      "rnn",
      +[](In x_, In ih, In hh, In b_ih, In b_hh, In h_, bool relu, In of, bool back, bool first, Where at) {
        return rnn(x_, {ih, hh, b_ih, b_hh}, h_, relu, {of, back, first}, at);
      },
      {"h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh) over the steps of x (T, N, F), or "
       "(N, T, F) if `batch_first`; 0 behind `lengths` (N). All h, and the last (N, H).",
       {x, weight_ih, weight_hh, bias_ih, bias_hh, h, {"relu", false}, lengths, reverse, batch_first},
       "that of x",
       kDifferentiable});
  table.add(
      "lstm",
      +[](In x_, In ih, In hh, In b_ih, In b_hh, In h_, In c_, In of, bool back, bool first, In hr, In holes,
          Where at) {
        return lstm(x_, {ih, hh, b_ih, b_hh, hr, holes}, h_, c_, {of, back, first}, at);
      },
      {"As rnn, with the gates i, f, g, o in weight_ih (4 H, F) and weight_hh (4 H, H): c = sigmoid(f) c + "
       "sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). With a projection `weight_hr` (P, H), h = weight_hr of "
       "that, "
       "and weight_hh is (4 H, P). `peepholes` (3 H) times the cell state are added to i, f and o. All h, "
       "and the "
       "last h (N, H) or (N, P) and c (N, H).",
       {x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, lengths, reverse, batch_first, weight_hr, peepholes},
       "that of x",
       kDifferentiable});
  table.add(
      "gru",
      +[](In x_, In ih, In hh, In b_ih, In b_hh, In h_, In of, bool back, bool first, bool after, Where at) {
        return gru(x_, {ih, hh, b_ih, b_hh}, h_, {of, back, first, after}, at);
      },
      {"As rnn, with the gates r, z, n in weight_ih (3 H, F) and weight_hh (3 H, H): n = tanh(x part + "
       "sigmoid(r) * h part), h = (1 - sigmoid(z)) n + sigmoid(z) h. Without `reset_after`, the h part of n "
       "is "
       "that of sigmoid(r) * h. All h, and the last (N, H).",
       {x, weight_ih, weight_hh, bias_ih, bias_hh, h, lengths, reverse, batch_first, {"reset_after", true}},
       "that of x",
       kDifferentiable});
}

}  // namespace heddle
