// Metrics of scores, losses and values.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/indexing.h>
#include <heddle/losses.h>
#include <heddle/metrics/values.h>
#include <heddle/number_text.h>
#include <heddle/reduce.h>
#include <heddle/scan.h>
#include <heddle/shape_ops.h>
#include <heddle/sorting.h>
#include <heddle/statistics.h>

#include "metrics/metric_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// Element i of the state.
NDArray part_of(const NDArray& state, std::int64_t i) { return state.slice(0, {i, i + 1}).view_as({}); }

void check_same_shape(const std::string& name, const NDArray& a, const char* what, const NDArray& b) {
  if (a.shape() == b.shape()) return;
  throw InvalidArgument(name + ": the arrays are " + a.shape().to_string() + " and " + b.shape().to_string() +
                        "; want " + what + " in one shape");
}

NDArray as_doubles(const NDArray& x) { return x.dtype() == DType::f64 ? x : x.astype(DType::f64); }

// Row `i` of a state (2, n) as an array (n).
NDArray row_of(const NDArray& state, int i) { return state.slice(0, {i, i + 1}).view_as({state.shape()[1]}); }

// The area for scores and labels (n). Among sorted scores, those before the first equal one are smaller.
NDArray exact_area(const NDArray& scores, const NDArray& labels) {
  const NDArray order = argsort(scores), sorted = take(scores, order), ones_of = take(labels, order);
  const NDArray zeros_below = concat({zeros({1}, DType::f64), cumsum(1 - ones_of)});
  const NDArray share =
      take(zeros_below, searchsorted(sorted, sorted)) + take(zeros_below, searchsorted(sorted, sorted, true));
  const NDArray area = sum(ones_of * share) * 0.5 / (sum(ones_of) * sum(1 - ones_of));
  return where(any(isnan(scores)), kNotANumber, area);
}

}  // namespace

Auc::Auc(std::int64_t bins) : Metric("Auc"), bins_(bins) {
  if (bins < 0)
    throw InvalidArgument("Auc: bins is " + std::to_string(bins) + "; want 1 or more, or 0 for all scores");
}

Shape Auc::state_shape() const { return {2, bins_}; }

void Auc::add(const Inputs& inputs) {
  const std::string& name = info().name;
  check_same_shape(name, inputs[0], "scores and labels", inputs[1]);
  const NDArray labels = as_doubles(inputs[1]).contiguous(), scores = as_doubles(inputs[0]).contiguous();
  const auto check_label = [name](double label, std::int64_t i) {
    if (label != 0 && label != 1)
      throw InvalidArgument(name + ": label " + number_text(label) + " at position " + std::to_string(i) +
                            "; want 0 or 1");
  };
  if (bins_ == 0) {
    const NDArray part({2, scores.size()}, DType::f64);
    array_push(name.c_str(), {scores, labels}, {part}, [=, n = scores.size()] {
      const auto *const from = scores.data<const double>(), *const label = labels.data<const double>();
      auto* const to = part.data<double>();
      for (std::int64_t i = 0; i < n; ++i) {
        check_label(label[i], i);
        to[i] = from[i];
        to[n + i] = label[i];
      }
    });
    parts_.push_back(part);
    return;
  }
  push({scores, labels}, [=, bins = bins_](double* sums) {
    const auto *const from = scores.data<const double>(), *const label = labels.data<const double>();
    for (std::int64_t i = 0; i < scores.size(); ++i) {
      check_label(label[i], i);
      if (!(from[i] >= 0 && from[i] <= 1))
        throw InvalidArgument(name + ": score " + number_text(from[i]) + " at position " + std::to_string(i) +
                              "; want 0 to 1 with bins");
      const auto bin = static_cast<std::int64_t>(from[i] * static_cast<double>(bins));
      sums[(label[i] == 1 ? bins : 0) + std::min(bin, bins - 1)] += 1;
    }
  });
}

NDArray Auc::compute(const NDArray& state) const {
  if (state.shape()[1] == 0) return full({}, kNotANumber, DType::f64);
  if (bins_ == 0) return exact_area(row_of(state, 0), row_of(state, 1));
  const NDArray zeros_of = row_of(state, 0), ones_of = row_of(state, 1);
  const NDArray share = cumsum(zeros_of) - zeros_of * 0.5;
  return sum(ones_of * share) / (sum(ones_of) * sum(zeros_of));
}

NDArray Auc::whole_state() const {
  if (bins_ != 0) return sums();
  if (parts_.empty()) return zeros({2, 0}, DType::f64);
  if (parts_.size() > 1) parts_ = {concat(parts_, 1)};
  return parts_[0];
}

void Auc::merge_whole(const NDArray& state) {
  if (bins_ != 0) return Metric::merge_whole(state);
  if (state.ndim() != 2 || state.shape()[0] != 2)
    throw InvalidArgument(info().name + ": the state is " + state.shape().to_string() + "; want (2, n)");
  parts_.push_back(state.copy());
}

void Auc::clear() {
  parts_.clear();
  Metric::clear();
}

MeanMetric::MeanMetric() : Metric("MeanMetric") {}

void MeanMetric::add(const Inputs& inputs) {
  const NDArray values = as_doubles(inputs[0]);
  NDArray total, count;
  if (inputs[1].defined()) {
    const NDArray weights = as_doubles(broadcast_to(inputs[1], values.shape()));
    total = sum(values * weights);
    count = sum(weights);
  } else {
    total = sum(values);
    count = full({}, static_cast<double>(values.size()), DType::f64);
  }
  push({total, count}, [=](double* sums) {
    sums[0] += *total.data<const double>();
    sums[1] += *count.data<const double>();
  });
}

NDArray MeanMetric::compute(const NDArray& state) const { return part_of(state, 0) / part_of(state, 1); }

Perplexity::Perplexity(std::int64_t ignore) : Metric("Perplexity"), ignore_(ignore) {}

void Perplexity::add(const Inputs& inputs) {
  const std::string& name = info().name;
  const NDArray &logits = inputs[0], &labels = inputs[1];
  if (logits.ndim() == 0) {
    if (labels.defined() && labels.ndim() != 0)
      throw InvalidArgument(name + ": the number of labels is " + labels.shape().to_string() +
                            "; want a scalar beside a mean cross entropy");
    const NDArray loss = as_doubles(logits),
                  count = labels.defined() ? as_doubles(labels) : ones({}, DType::f64);
    push({loss, count}, [=](double* sums) {
      const double n = *count.data<const double>();
      if (n != 0) sums[0] += *loss.data<const double>() * n;  // the mean of no labels is NaN
      sums[1] += n;
    });
    return;
  }
  const Shape& shape = logits.shape();
  const std::int64_t classes = shape[shape.size() - 1];
  Shape rows;
  for (int i = 0; i + 1 < shape.size(); ++i) rows.push_back(shape[i]);
  if (!labels.defined() || labels.shape() != rows || is_floating(labels.dtype()) || classes == 0)
    throw InvalidArgument(
        name + ": logits are " + shape.to_string() + ", labels " +
        (labels.defined() ? name_of(labels.dtype()) + (" " + labels.shape().to_string()) : "missing") +
        "; want logits (..., C) and integer labels (...)");
  const NDArray ids = labels.astype(DType::i64).contiguous().view_as({labels.size()});
  const NDArray losses = as_doubles(cross_entropy_with(reshape(logits, {labels.size(), classes}), ids,
                                                       {.ignore = ignore_, .reduction = Reduction::none}))
                             .contiguous();
  push({losses, ids}, [=, ignore = ignore_](double* sums) {
    const auto* const loss = losses.data<const double>();
    const auto* const label = ids.data<const std::int64_t>();
    for (std::int64_t i = 0; i < ids.size(); ++i) {
      if (label[i] == ignore) continue;
      sums[0] += loss[i];
      sums[1] += 1;
    }
  });
}

NDArray Perplexity::compute(const NDArray& state) const { return exp(part_of(state, 0) / part_of(state, 1)); }

MeanSquaredError::MeanSquaredError(bool root) : Metric("MeanSquaredError"), root_(root) {}

void MeanSquaredError::add(const Inputs& inputs) {
  check_same_shape(info().name, inputs[0], "y and target", inputs[1]);
  const NDArray total = sum(square(as_doubles(inputs[0]) - as_doubles(inputs[1])));
  push({total}, [=, n = static_cast<double>(inputs[0].size())](double* sums) {
    sums[0] += *total.data<const double>();
    sums[1] += n;
  });
}

NDArray MeanSquaredError::compute(const NDArray& state) const {
  const NDArray mean = part_of(state, 0) / part_of(state, 1);
  return root_ ? sqrt(mean) : mean;
}

R2::R2() : Metric("R2") {}

Shape R2::state_shape() const {
  if (columns_ == 0)
    throw InvalidArgument(info().name + ": the number of columns is not known before the first batch");
  return {4, columns_};
}

void R2::add(const Inputs& inputs) {
  const std::string& name = info().name;
  check_same_shape(name, inputs[0], "y and target", inputs[1]);
  const Shape& shape = inputs[0].shape();
  const std::int64_t columns = shape.size() == 1 ? 1 : shape.size() == 2 ? shape[1] : 0;
  if (columns == 0 || (columns_ != 0 && columns_ != columns))
    throw InvalidArgument(name + ": the arrays are " + shape.to_string() + "; want " +
                          (columns_ == 0   ? "(N) or (N, D)"
                           : columns_ == 1 ? "(N) or (N, 1)"
                                           : "(N, " + std::to_string(columns_) + ")"));
  columns_ = columns;
  const Shape rows{shape[0], columns};
  const NDArray y = reshape(as_doubles(inputs[0]), rows), target = reshape(as_doubles(inputs[1]), rows);
  const NDArray of_targets = sum(target, {0}), of_squares = sum(square(target), {0}),
                of_errors = sum(square(y - target), {0});
  push({of_targets, of_squares, of_errors}, [=, n = static_cast<double>(shape[0])](double* sums) {
    const NDArray* const parts[] = {&of_targets, &of_squares, &of_errors};
    for (std::int64_t i = 0; i < columns; ++i) {
      sums[i] += n;
      for (int k = 0; k < 3; ++k) sums[(k + 1) * columns + i] += parts[k]->data<const double>()[i];
    }
  });
}

// Before the first batch the state of another one tells the number of columns.
void R2::merge_whole(const NDArray& state) {
  if (columns_ == 0 && state.ndim() == 2 && state.shape()[0] == 4) columns_ = state.shape()[1];
  Metric::merge_whole(state);
}

void R2::clear() {
  columns_ = 0;
  forget();
}
NDArray R2::compute(const NDArray& state) const {
  const auto row = [&](std::int64_t i) { return state.slice(0, {i, i + 1}).view_as({state.shape()[1]}); };
  const NDArray n = row(0), errors = row(3);
  // Sums of squares in f64 show no spread below the rounding of the mean's square.
  const NDArray of_mean = square(row(1)) / maximum(n, 1.0), spread = row(2) - of_mean;
  const NDArray is_seen = spread > of_mean * 0x1p-40, is_none = spread <= of_mean * 0x1p-50;
  const NDArray constant = where(is_none, where(errors == 0, 1.0, 0.0), kNotANumber);
  const NDArray each = where(is_seen, 1 - errors / where(is_seen, spread, 1.0), constant);
  return mean(where(n < 2, kNotANumber, each));
}

HEDDLE_METRICS(values) {
  table.add({.name = "Auc",
             .documentation =
                 "The area under the ROC curve of scores and labels 0 and 1, with ties: exact from "
                 "all scores, or of scores in [0, 1] in so many bins.",
             .arguments = {integer_argument("bins", 0)},
             .inputs = {"scores", "labels"},
             .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
               return std::make_unique<Auc>(std::get<std::int64_t>(v[0]));
             }});
  table.add({.name = "MeanMetric",
             .documentation =
                 "The mean of all elements, weighted if there are weights: of losses, by the sizes of "
                 "their batches.",
             .inputs = {"values"},
             .optional_inputs = {"weights"},
             .make = [](const OperatorValues&) -> std::unique_ptr<Metric> {
               return std::make_unique<MeanMetric>();
             }});
  table.add({.name = "Perplexity",
             .documentation =
                 "exp of the mean cross entropy of logits (..., C) and labels (...), or of a mean cross "
                 "entropy and the number of labels that it is the mean of.",
             .arguments = {integer_argument("ignore", -1, std::numeric_limits<std::int64_t>::min())},
             .inputs = {"logits"},
             .optional_inputs = {"labels"},
             .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
               return std::make_unique<Perplexity>(std::get<std::int64_t>(v[0]));
             }});
  table.add({.name = "MeanSquaredError",
             .documentation = "The mean of (y - target)^2 over all elements; with `root` its root.",
             .arguments = {switch_argument("root", false)},
             .inputs = {"y", "target"},
             .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
               return std::make_unique<MeanSquaredError>(std::get<bool>(v[0]));
             }});
  table.add(
      {.name = "R2",
       .documentation = "The coefficient of determination of (N), or the mean of those of the columns of (N, "
                        "D). NaN if targets spread less than a "
                        "millionth of their mean, which sums in f64 do not show.",
       .inputs = {"y", "target"},
       .make = [](const OperatorValues&) -> std::unique_ptr<Metric> { return std::make_unique<R2>(); }});
}

}  // namespace heddle
