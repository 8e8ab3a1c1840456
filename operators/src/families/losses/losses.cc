// Losses, composed of operators, so that they have gradients of every order.
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include <heddle/activations.h>
#include <heddle/creation.h>
#include <heddle/elementwise_math.h>
#include <heddle/indexing.h>
#include <heddle/losses.h>
#include <heddle/number_text.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>
#include <heddle/softmax.h>
#include <heddle/statistics.h>

#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/losses/reduction.h"
#include "families/softmax/rows.h"

namespace heddle {

using namespace operators_detail;

namespace {

// f() of arrays widened to f32 if they are halves, and its result in the dtype of the first one. Errors of the operators inside
// begin with `op`.
template <class F> NDArray loss_of(const char* op, const NDArray& y, const NDArray& target, F f) {
  check_arrays(op, {&y, &target});
  check_floating(op, y);
  return ndarray_detail::in_name_of(op, [&] {
    const NDArray loss = f(wide(y), wide(target));
    return is_half(y.dtype()) ? narrowed(loss, y.dtype()) : loss;
  });
}

NDArray reduced(const NDArray& loss, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return mean(loss);
    case Reduction::sum:
      return sum(loss);
    case Reduction::none:
      break;
  }
  return loss;
}

void check_positive(const char* op, const char* name, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw InvalidArgument(std::string(op) + ": " + name + " is " + number_text(value) +
                        "; want a positive number");
}

void check_rows(const char* op, const NDArray& x, const NDArray& labels, const ClassOptions& options) {
  check_arrays(op, {&x, &labels});
  check_floating(op, x);
  if (!are_rows_of_classes(x, labels))
    throw InvalidArgument(std::string(op) + ": the array is " + x.shape().to_string() + ", labels " +
                          labels.shape().to_string() +
                          "; wanted (..., C) with at least one class, and (...)");
  const std::int64_t classes = x.shape()[x.ndim() - 1];
  if (is_floating(labels.dtype()) || labels.dtype() == DType::boolean)
    throw InvalidArgument(std::string(op) + ": labels are " + name_of(labels.dtype()) + "; want integers");
  if (options.weight.defined()) check_arrays(op, {&x, &options.weight});
  if (options.weight.defined() && options.weight.shape() != Shape{classes})
    throw InvalidArgument(std::string(op) + ": weight is " + options.weight.shape().to_string() + "; want " +
                          Shape{classes}.to_string());
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    throw InvalidArgument(std::string(op) + ": smoothing is " + number_text(options.smoothing) +
                          "; want 0 to 1");
}

// The loss of logarithms of probabilities (..., C), checked and not halves.
NDArray of_classes(const NDArray& logarithms, const NDArray& labels, const ClassOptions& options) {
  if (logarithms.ndim() != 2) {
    const NDArray loss = of_classes(rows_of_classes(logarithms), reshape(labels, {labels.size()}), options);
    return options.reduction == Reduction::none ? reshape(loss, labels.shape()) : loss;
  }
  const NDArray counted = labels != options.ignore;
  const std::int64_t classes_count = logarithms.shape()[1];
  const NDArray numbers = labels.astype(DType::i64);
  // A negative label is no number from the end: the kernels refuse the number of classes.
  const NDArray chosen = where(counted, where(numbers < 0, classes_count, numbers), 0);
  const NDArray weight =
      options.weight.defined() ? wide(options.weight) : sum(zeros_like(logarithms), {0}) + 1;
  const NDArray of_rows = where(counted, take(weight, chosen), 0.0);
  NDArray loss = -reshape(take_along_axis(logarithms, reshape(chosen, {-1, 1}), 1), chosen.shape());
  loss = loss * take(weight, chosen);
  if (options.smoothing > 0) {
    const double share = options.smoothing, classes = static_cast<double>(classes_count);
    loss = loss * (1 - share) - sum(logarithms * weight, {1}) * (share / classes);
  }
  loss = where(counted, loss, 0.0);
  return options.reduction == Reduction::mean ? sum(loss) / sum(of_rows) : reduced(loss, options.reduction);
}

}  // namespace

NDArray mse_loss(const NDArray& y, const NDArray& target, Reduction reduction, Where where) {
  const CallSite site(where);
  return loss_of("mse_loss", y, target,
                 [&](const NDArray& a, const NDArray& b) { return reduced(square(a - b), reduction); });
}

NDArray l1_loss(const NDArray& y, const NDArray& target, Reduction reduction, Where where) {
  const CallSite site(where);
  return loss_of("l1_loss", y, target,
                 [&](const NDArray& a, const NDArray& b) { return reduced(abs(a - b), reduction); });
}

NDArray huber_loss(const NDArray& y, const NDArray& target, double delta, Reduction reduction, Where at) {
  const CallSite site(at);
  check_positive("huber_loss", "delta", delta);
  return loss_of("huber_loss", y, target, [&](const NDArray& a, const NDArray& b) {
    const NDArray difference = a - b;
    // The clipped part is the gradient: half its square, and what is beyond it times delta.
    const NDArray near = clip(difference, -delta, delta);
    return reduced(near * (difference - near * 0.5), reduction);
  });
}

NDArray bce_with_logits(const NDArray& logits, const NDArray& target, double positive_weight,
                        Reduction reduction, Where where) {
  const CallSite site(where);
  check_positive("bce_with_logits", "positive_weight", positive_weight);
  return loss_of("bce_with_logits", logits, target, [&](const NDArray& x, const NDArray& t) {
    if (positive_weight == 1) return reduced((1 - t) * x - log_sigmoid(x), reduction);
    return reduced((1 - t) * x - (t * (positive_weight - 1) + 1) * log_sigmoid(x), reduction);
  });
}

NDArray kl_div(const NDArray& log_probabilities, const NDArray& target, Reduction reduction, Where at) {
  const CallSite site(at);
  return loss_of("kl_div", log_probabilities, target, [&](const NDArray& x, const NDArray& t) {
    const NDArray is_zero = t == 0;
    const NDArray terms = where(is_zero, 0.0, t * (log(where(is_zero, 1.0, t)) - x));
    if (reduction != Reduction::mean || terms.ndim() == 0) return reduced(terms, reduction);
    return sum(terms) / static_cast<double>(terms.shape()[0]);
  });
}

NDArray hinge_loss(const NDArray& y, const NDArray& target, double margin, Reduction reduction, Where where) {
  const CallSite site(where);
  return loss_of("hinge_loss", y, target, [&](const NDArray& a, const NDArray& t) {
    return reduced(relu(margin - a * t), reduction);
  });
}

NDArray triplet_loss(const NDArray& anchor, const NDArray& positive, const NDArray& negative, double margin,
                     Reduction reduction, Where where) {
  const CallSite site(where);
  check_arrays("triplet_loss", {&anchor, &positive, &negative});
  if (anchor.ndim() == 0) throw InvalidArgument("triplet_loss: the arrays are scalars; want (..., D)");
  return loss_of("triplet_loss", anchor, positive, [&](const NDArray& a, const NDArray& p) {
    return reduced(relu(norm(a - p, 2, {-1}) - norm(a - wide(negative), 2, {-1}) + margin), reduction);
  });
}

NDArray nll_loss(const NDArray& log_probabilities, const NDArray& labels, const ClassOptions& options,
                 Where where) {
  const CallSite site(where);
  check_rows("nll_loss", log_probabilities, labels, options);
  if (options.smoothing != 0)
    throw InvalidArgument("nll_loss: smoothing is " + number_text(options.smoothing) +
                          "; cross_entropy_with has it");
  return ndarray_detail::in_name_of("nll_loss", [&] {
    return narrowed(of_classes(wide(log_probabilities), labels, options), log_probabilities.dtype());
  });
}

NDArray cross_entropy_with(const NDArray& logits, const NDArray& labels, const ClassOptions& options,
                           Where where) {
  const CallSite site(where);
  check_rows("cross_entropy_with", logits, labels, options);
  return ndarray_detail::in_name_of("cross_entropy_with", [&] {
    return narrowed(of_classes(log_softmax(wide(logits)), labels, options), logits.dtype());
  });
}

NDArray soft_cross_entropy(const NDArray& logits, const NDArray& target, Reduction reduction, Where where) {
  const CallSite site(where);
  check_arrays("soft_cross_entropy", {&logits, &target});
  if (logits.ndim() != 2 || logits.shape() != target.shape())
    throw InvalidArgument("soft_cross_entropy: logits " + logits.shape().to_string() + ", target " +
                          target.shape().to_string() + "; wanted (N, C) twice");
  return loss_of("soft_cross_entropy", logits, target, [&](const NDArray& x, const NDArray& t) {
    return reduced(-sum(t * log_softmax(x, 1), {1}), reduction);
  });
}

HEDDLE_OPERATORS(losses) {
  table.family("Losses");
  const Argument y = {"y", DTypes::floating}, target = {"target", DTypes::floating},
                 logits = {"logits", DTypes::floating}, labels = {"labels", DTypes::integers},
                 reduction = {"reduction", "mean", kReductions}, weight = {"weight", kNone, DTypes::floating};
  using Text = const std::string&;
  table.add(
      "mse_loss",
      +[](const NDArray& a, const NDArray& b, Text r, Where w) { return mse_loss(a, b, reduction_of(r), w); },
      {"(y - target)^2.", {y, target, reduction}, "that of y", kDifferentiable});
  table.add(
      "l1_loss",
      +[](const NDArray& a, const NDArray& b, Text r, Where w) { return l1_loss(a, b, reduction_of(r), w); },
      {"|y - target|.", {y, target, reduction}, "that of y", kDifferentiable});
  table.add("huber_loss",
            +[](const NDArray& a, const NDArray& b, double delta, Text r, Where w) {
              return huber_loss(a, b, delta, reduction_of(r), w);
            },
            {"Half the square of y - target up to `delta`, linear beyond.",
             {y, target, {"delta", 1.0}, reduction},
             "that of y",
             kDifferentiable});
  table.add(
      "bce_with_logits",
      +[](const NDArray& a, const NDArray& b, double positive, Text r, Where w) {
        return bce_with_logits(a, b, positive, reduction_of(r), w);
      },
      {"Binary cross entropy of sigmoid(logits) and a target in [0, 1], whose 1 weighs `positive_weight`.",
       {logits, target, {"positive_weight", 1.0}, reduction},
       "that of logits",
       kDifferentiable});
  table.add(
      "kl_div",
      +[](const NDArray& a, const NDArray& b, Text r, Where w) { return kl_div(a, b, reduction_of(r), w); },
      {"target * (log(target) - log_probabilities); the mean is the sum divided by the first axis.",
       {{"log_probabilities", DTypes::floating}, target, reduction},
       "that of log_probabilities",
       kDifferentiable});
  table.add("hinge_loss",
            +[](const NDArray& a, const NDArray& b, double margin, Text r, Where w) {
              return hinge_loss(a, b, margin, reduction_of(r), w);
            },
            {"max(0, margin - y * target), with targets 1 and -1.",
             {y, target, {"margin", 1.0}, reduction},
             "that of y",
             kDifferentiable});
  table.add("triplet_loss",
            +[](const NDArray& a, const NDArray& p, const NDArray& n, double margin, Text r, Where w) {
              return triplet_loss(a, p, n, margin, reduction_of(r), w);
            },
            {"max(0, |anchor - positive| - |anchor - negative| + margin) of each row.",
             {{"anchor", DTypes::floating},
              {"positive", DTypes::floating},
              {"negative", DTypes::floating},
              {"margin", 1.0},
              reduction},
             "that of anchor",
             kDifferentiable});
  table.add(
      "nll_loss",
      +[](const NDArray& x, const NDArray& of, const NDArray& each, std::int64_t ignore, Text r, Where w) {
        return nll_loss(x, of, {each, ignore, 0, reduction_of(r)}, w);
      },
      {"-log_probabilities[label] of each row (N, C), weighted by class; rows with the label `ignore` do not "
       "count.",
       {{"log_probabilities", DTypes::floating}, labels, weight, {"ignore", -1}, reduction},
       "that of log_probabilities",
       kDifferentiable});
  table.add(
      "cross_entropy_with",
      +[](const NDArray& x, const NDArray& of, const NDArray& each, std::int64_t ignore, double smoothing,
          Text r, Where w) {
        return cross_entropy_with(x, of, {each, ignore, smoothing, reduction_of(r)}, w);
      },
      {"cross_entropy weighted by class, without the rows with the label `ignore`, with smoothed labels.",
       {logits, labels, weight, {"ignore", -1}, {"smoothing", 0.0}, reduction},
       "that of logits",
       kDifferentiable});
  table.add("soft_cross_entropy",
            +[](const NDArray& a, const NDArray& b, Text r, Where w) {
              return soft_cross_entropy(a, b, reduction_of(r), w);
            },
            {"-sum(target * log_softmax(logits)) of each row, with a target (N, C) of probabilities.",
             {logits, target, reduction},
             "that of logits",
             kDifferentiable});
}

}  // namespace heddle
