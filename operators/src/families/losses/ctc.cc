#include <string>
#include <utility>
#include <vector>

#include <heddle/ctc.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/losses/ctc_kernels.h"
#include "families/losses/reduction.h"

namespace heddle {

using namespace operators_detail;

namespace {

[[noreturn]] void refuse_sum(const CtcProblem& p, const std::string& sum) {
  throw InvalidArgument("ctc_loss: the target lengths sum up to " + sum + ", targets has " +
                        std::to_string(p.labels) + " labels; want as many");
}

}  // namespace

void refuse_ctc_length(const char* op, const char* what, std::int64_t sequence, std::int64_t length,
                       std::int64_t most) {
  throw InvalidArgument(std::string(op) + ": the " + what + " of sequence " + std::to_string(sequence) +
                        " is " + std::to_string(length) + "; want 0 to " + std::to_string(most));
}
void refuse_ctc_label(const CtcProblem& p, std::int64_t sequence, std::int64_t i, std::int64_t label) {
  throw InvalidArgument("ctc_loss: label " + std::to_string(i) + " of sequence " + std::to_string(sequence) +
                        " is " + std::to_string(label) + "; want 0 to " + std::to_string(p.classes - 1) +
                        " without the blank, " + std::to_string(p.blank));
}
void refuse_ctc_sum(const CtcProblem& p, std::int64_t sum) { refuse_sum(p, std::to_string(sum)); }
void refuse_large_ctc_sum(const CtcProblem& p) { refuse_sum(p, "more than " + std::to_string(p.labels)); }

namespace {

// Integers in the form that kernels take.
NDArray ctc_ids(const NDArray& array) { return array.detach().astype(DType::i64).contiguous(); }

void check_ctc_integers(const char* op, const char* name, const NDArray& array) {
  if (is_floating(array.dtype()) || array.dtype() == DType::boolean)
    throw InvalidArgument(std::string(op) + ": " + name + " are " + name_of(array.dtype()) +
                          "; want integers");
}

// Lengths are (N); those of one sequence without an axis of the batch also scalars.
NDArray ctc_lengths(const char* op, const char* name, const NDArray& lengths, std::int64_t batch,
                    bool batched) {
  check_ctc_integers(op, name, lengths);
  if (lengths.shape() == Shape{batch}) return lengths;
  if (!batched && lengths.ndim() == 0) return reshape(lengths, {1});
  throw InvalidArgument(std::string(op) + ": " + name + " are " + lengths.shape().to_string() + "; want " +
                        Shape{batch}.to_string() + ", one for each sequence");
}

CtcProblem ctc_problem(const char* op, const NDArray& log_probs, std::int64_t blank) {
  check_floating(op, log_probs);
  const Shape& shape = log_probs.shape();
  if (shape.size() != 2 && shape.size() != 3)
    throw InvalidArgument(std::string(op) + ": log_probs is " + shape.to_string() +
                          "; want (T, N, C), or (T, C) for one sequence");
  const std::int64_t classes = shape[shape.size() - 1];
  if (blank < 0 || blank >= classes)
    throw InvalidArgument(std::string(op) + ": blank is " + std::to_string(blank) + ", log_probs " +
                          shape.to_string() + "; want a class, below " + std::to_string(classes));
  return {.steps = shape[0],
          .batch = shape.size() == 3 ? shape[1] : 1,
          .classes = classes,
          .longest = 0,
          .labels = 0,
          .flat = false,
          .blank = blank,
          .zero_infinity = false};
}

NDArray of_batch(const CtcProblem& p, const NDArray& log_probs) {
  return log_probs.ndim() == 3 ? log_probs : reshape(log_probs, {p.steps, 1, p.classes});
}

// The gradient of x. It has a gradient itself while the tape is differentiated.
NDArray ctc_gradient(const CtcProblem& p, const NDArray& x, const CtcIds& ids, const NDArray& states,
                     const NDArray& grad) {
  const NDArray g = grad.detach().contiguous();
  NDArray x_grad = make_result(g, x.shape(), g.dtype());
  auto* kernel = kernel_for<CtcBackwardKernel>("ctc_loss_backward", g);
  push_op("ctc_loss_backward", std::vector{g, ids.targets, ids.input_lengths, ids.target_lengths, states},
          std::vector{x_grad}, [=, out = x_grad.detach()](const KernelContext& context) {
            kernel(context, p, g, ids, states, out);
          });
  if (!differentiating_gradient() || !recording({&x, &grad})) return x_grad;
  const NDArray of_x = save_for_backward(x), of_grad = save_for_backward(grad);
  record_op("ctc_loss_backward", x_grad, {grad, x}, {of_grad, of_x}, [=](const NDArray& direction) {
    if (differentiating_gradient()) refuse_second_gradient("ctc_loss_backward");
    const NDArray u = direction.detach().contiguous(), values = of_x.detach().contiguous();
    const NDArray g_grad = make_result(g, g.shape(), g.dtype()),
                  second = make_result(u, u.shape(), u.dtype());
    auto* curvature = kernel_for<CtcCurvatureKernel>("ctc_loss_curvature", u);
    push_op("ctc_loss_curvature",
            std::vector{g, values, ids.targets, ids.input_lengths, ids.target_lengths, u},
            std::vector{g_grad, second},
            [=](const KernelContext& context) { curvature(context, p, g, values, ids, u, g_grad, second); });
    return std::vector{g_grad, second};
  });
  return x_grad;
}

// The losses (N) of log_probs (T, N, C), f32 or f64.
NDArray ctc_losses(const CtcProblem& p, const NDArray& log_probs, const CtcIds& ids) {
  const NDArray x = log_probs.detach().contiguous();
  NDArray losses = make_result(x, {p.batch}, x.dtype());
  const bool records = recording({&log_probs});
  const NDArray states = records ? make_result(x, {p.states()}, x.dtype()) : NDArray();
  auto* kernel = kernel_for<CtcKernel>("ctc_loss", x);
  std::vector<NDArray> writes{losses};
  if (records) writes.push_back(states);
  push_op(
      "ctc_loss", std::vector{x, ids.targets, ids.input_lengths, ids.target_lengths}, writes,
      [=, out = losses.detach()](const KernelContext& context) { kernel(context, p, x, ids, out, states); });
  if (!records) return losses;
  const NDArray of_x = save_for_backward(log_probs);
  record_op("ctc_loss", losses, {log_probs}, {of_x, ids.targets, ids.input_lengths, ids.target_lengths},
            [=](const NDArray& grad) { return std::vector{ctc_gradient(p, of_x, ids, states, grad)}; });
  return losses;
}

// Reads the layout of the targets into the problem.
void lay_out_targets(CtcProblem& p, const NDArray& targets, bool batched) {
  check_ctc_integers("ctc_loss", "targets", targets);
  p.flat = targets.ndim() == 1;
  p.labels = targets.size();
  p.longest = targets.shape().empty() ? 0 : targets.shape()[targets.ndim() - 1];
  if (p.flat || (batched && targets.ndim() == 2 && targets.shape()[0] == p.batch)) {
    // The one target of a sequence without an axis of the batch may be padded.
    if (!batched) p.flat = false;
    return;
  }
  throw InvalidArgument("ctc_loss: targets are " + targets.shape().to_string() + "; want " +
                        (batched ? "(" + std::to_string(p.batch) + ", S), or all labels in a row" : "(S)"));
}

// What decoders read and write.
struct Decoded {
  CtcProblem problem;
  NDArray x, lengths, labels, numbers;
  std::vector<NDArray> reads() const { return lengths.defined() ? std::vector{x, lengths} : std::vector{x}; }
};

Decoded decoding(const char* op, const NDArray& log_probs, const NDArray& input_lengths, std::int64_t blank) {
  check_arrays(op, {&log_probs});
  if (input_lengths.defined()) check_arrays(op, {&log_probs, &input_lengths});
  const CtcProblem problem = ctc_problem(op, log_probs, blank);
  Decoded decoded{problem, of_batch(problem, wide(log_probs.detach())).contiguous(), {}, {}, {}};
  if (input_lengths.defined())
    decoded.lengths =
        ctc_ids(ctc_lengths(op, "input_lengths", input_lengths, problem.batch, log_probs.ndim() == 3));
  decoded.labels = make_result(decoded.x, {problem.batch, problem.steps}, DType::i64);
  decoded.numbers = make_result(decoded.x, {problem.batch}, DType::i64);
  return decoded;
}

}  // namespace

NDArray ctc_loss(const NDArray& log_probs, const NDArray& targets, const NDArray& input_lengths,
                 const NDArray& target_lengths, const CtcOptions& options, Where where) {
  const CallSite site(where);
  check_arrays("ctc_loss", {&log_probs, &targets, &input_lengths, &target_lengths});
  CtcProblem problem = ctc_problem("ctc_loss", log_probs, options.blank);
  const bool batched = log_probs.ndim() == 3;
  problem.zero_infinity = options.zero_infinity;
  lay_out_targets(problem, targets, batched);
  const NDArray lengths = ctc_lengths("ctc_loss", "target_lengths", target_lengths, problem.batch, batched);
  const CtcIds ids{ctc_ids(targets),
                   ctc_ids(ctc_lengths("ctc_loss", "input_lengths", input_lengths, problem.batch, batched)),
                   ctc_ids(lengths)};
  NDArray losses = ctc_losses(problem, of_batch(problem, wide(log_probs)), ids);
  if (options.reduction == Reduction::mean)
    losses = mean(losses / maximum(ids.target_lengths, 1).astype(losses.dtype()));
  if (options.reduction == Reduction::sum) losses = sum(losses);
  if (options.reduction == Reduction::none && !batched) losses = reshape(losses, {});
  return is_half(log_probs.dtype()) ? narrowed(losses, log_probs.dtype()) : losses;
}

std::array<NDArray, 2> ctc_greedy_decode(const NDArray& log_probs, const NDArray& input_lengths,
                                         std::int64_t blank, Where where) {
  const CallSite site(where);
  constexpr const char* kName = "ctc_greedy_decode";
  const Decoded decoded = decoding(kName, log_probs, input_lengths, blank);
  auto* kernel = kernel_for<CtcGreedyKernel>(kName, decoded.x);
  push_op(kName, decoded.reads(), std::vector{decoded.labels, decoded.numbers},
          [=](const KernelContext& context) {
            kernel(context, decoded.problem, decoded.x, decoded.lengths, decoded.labels, decoded.numbers);
          });
  if (log_probs.ndim() == 3) return {decoded.labels, decoded.numbers};
  return {reshape(decoded.labels, {decoded.problem.steps}), reshape(decoded.numbers, {})};
}

std::array<NDArray, 3> ctc_beam_search(const NDArray& log_probs, const NDArray& input_lengths,
                                       std::int64_t beam, std::int64_t blank, Where where) {
  const CallSite site(where);
  constexpr const char* kName = "ctc_beam_search";
  const Decoded decoded = decoding(kName, log_probs, input_lengths, blank);
  if (beam < 1)
    throw InvalidArgument(std::string(kName) + ": beam is " + std::to_string(beam) + "; want 1 or more");
  NDArray scores = make_result(decoded.x, {decoded.problem.batch}, decoded.x.dtype());
  auto* kernel = kernel_for<CtcBeamKernel>(kName, decoded.x);
  push_op(kName, decoded.reads(), std::vector{decoded.labels, decoded.numbers, scores},
          [=, out = scores](const KernelContext& context) {
            kernel(context, decoded.problem, decoded.x, decoded.lengths, beam, decoded.labels,
                   decoded.numbers, out);
          });
  if (is_half(log_probs.dtype())) scores = cast(scores, log_probs.dtype());
  if (log_probs.ndim() == 3) return {decoded.labels, decoded.numbers, scores};
  return {reshape(decoded.labels, {decoded.problem.steps}), reshape(decoded.numbers, {}),
          reshape(scores, {})};
}

HEDDLE_OPERATORS(ctc) {
  table.family("Losses");
  const Argument log_probs = {"log_probs", DTypes::floating}, blank = {"blank", 0};
  table.add(
      "ctc_loss",
      +[](const NDArray& x, const NDArray& targets, const NDArray& inputs, const NDArray& lengths,
          std::int64_t of_blank, const std::string& r, bool zero, Where w) {
        return ctc_loss(x, targets, inputs, lengths, {of_blank, reduction_of(r), zero}, w);
      },
      {"-log(probability of the target) over all its alignments with log_probs, the log_softmax of (T, N, "
       "C) or (T, C); targets (N, S), padded, or all labels in a row. The mean is that of the losses "
       "divided by the lengths of their targets.",
       {log_probs,
        {"targets", DTypes::integers},
        {"input_lengths", DTypes::integers},
        {"target_lengths", DTypes::integers},
        blank,
        {"reduction", "mean", kReductions},
        {"zero_infinity", false}},
       "that of log_probs",
       kDifferentiable});
  table.add("ctc_greedy_decode", ctc_greedy_decode,
            {"The labels of the most probable class at each step of log_probs (T, N, C) or (T, C), without "
             "repetitions and blanks: (N, T), padded with -1, and their number (N).",
             {log_probs, {"input_lengths", kNone, DTypes::integers}, blank},
             "i64"});
  table.add(
      "ctc_beam_search", ctc_beam_search,
      {"The labels that are most probable over all their alignments with log_probs (T, N, C) or (T, C), as "
       "far as a search that keeps `beam` beginnings finds them: (N, T), padded with -1, their number (N), "
       "and the logarithm of their probability (N), in the dtype of log_probs.",
       {log_probs, {"input_lengths", kNone, DTypes::integers}, {"beam", 16}, blank},
       "i64"});
}

}  // namespace heddle
