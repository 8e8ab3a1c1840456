// Metrics of classes.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/metrics/classes.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
#include <heddle/sorting.h>

#include "metrics/metric_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A batch of predictions and labels as classes: i64, contiguous.
struct ClassBatch {
  bool binary;
  NDArray found, wanted;
  std::int64_t classes;  // of scores; binary: columns; 0: not known
};

bool has_one_axis_more(const NDArray& scores, const NDArray& labels) {
  if (scores.ndim() != labels.ndim() + 1) return false;
  for (int i = 0; i < labels.ndim(); ++i)
    if (scores.shape()[i] != labels.shape()[i]) return false;
  return true;
}

NDArray whole_labels(const std::string& name, const NDArray& labels) {
  if (is_floating(labels.dtype()))
    throw InvalidArgument(name + ": labels are " + name_of(labels.dtype()) + "; want integers");
  return labels.astype(DType::i64).contiguous();
}

ClassBatch class_batch(const std::string& name, const NDArray& predictions, const NDArray& labels,
                       const MetricOptions& options) {
  if (is_floating(predictions.dtype()) && has_one_axis_more(predictions, labels)) {
    const std::int64_t classes = predictions.shape()[predictions.ndim() - 1];
    if (classes > 0)
      return {false, argmax(predictions, -1).contiguous(), whole_labels(name, labels), classes};
  }
  if (predictions.shape() != labels.shape())
    throw InvalidArgument(
        name + ": predictions are " + predictions.shape().to_string() + ", labels " +
        labels.shape().to_string() +
        "; want scores (..., C), or classes or binary predictions in the shape of the labels");
  if (!is_floating(predictions.dtype()) && predictions.dtype() != DType::boolean)
    return {false, predictions.astype(DType::i64).contiguous(), whole_labels(name, labels), 0};
  const NDArray found = predictions.dtype() == DType::boolean ? predictions : predictions > options.threshold;
  NDArray wanted = labels;
  if (is_floating(labels.dtype())) {
    // NaN is no class, and -2 none that `ignore` could be mistaken for.
    const double ignore = static_cast<double>(options.ignore), no_class = options.ignore == -2 ? -3.0 : -2.0;
    wanted =
        where(isnan(labels), no_class, where(equal(labels, ignore), ignore, cast(labels > 0.5, DType::f64)));
  }
  return {true, found.astype(DType::i64).contiguous(), wanted.astype(DType::i64).contiguous(),
          labels.ndim() < 2 ? 1 : labels.shape()[labels.ndim() - 1]};
}

[[noreturn]] void refuse_class(const std::string& name, const char* what, std::int64_t value, std::int64_t i,
                               std::int64_t classes, std::int64_t ignore) {
  throw InvalidArgument(name + ": " + what + " " + std::to_string(value) + " at position " +
                        std::to_string(i) + "; want 0 to " + std::to_string(classes - 1) +
                        (what[0] == 'l' ? ", or " + std::to_string(ignore) + ", which does not count" : ""));
}

// Calls count(i, found, wanted) for each element that counts, with values below `classes`.
template <class Count>
void for_each_pair(const std::string& name, const ClassBatch& batch, std::int64_t classes,
                   std::int64_t ignore, const Count& count) {
  const auto* const found = batch.found.data<const std::int64_t>();
  const auto* const wanted = batch.wanted.data<const std::int64_t>();
  for (std::int64_t i = 0; i < batch.found.size(); ++i) {
    const std::int64_t f = found[i], w = wanted[i];
    if (w == ignore) continue;
    if (w < 0 || w >= classes) refuse_class(name, "label", w, i, classes, ignore);
    if (f < 0 || f >= classes) refuse_class(name, "prediction", f, i, classes, ignore);
    count(i, f, w);
  }
}

// Checks the number of classes of a batch against what is known, and returns it.
std::int64_t learned_classes(const std::string& name, std::int64_t known, std::int64_t of_batch,
                             bool binary) {
  if (of_batch == 0 && known == kInferred)
    throw InvalidArgument(name + ": predictions are classes; give the number of classes, `classes`");
  if (of_batch != 0 && known != kInferred && known != of_batch)
    throw InvalidArgument(name + ": predictions have " + std::to_string(of_batch) +
                          (binary ? " columns" : " classes") + "; want " + std::to_string(known));
  return known == kInferred ? of_batch : known;
}

std::int64_t known_classes(const std::string& name, std::int64_t classes) {
  if (classes != kInferred) return classes;
  throw InvalidArgument(name + ": the number of classes is not known before the first batch; give `classes`");
}

// Before the first batch the state of another metric tells the number of classes.
void learn_classes(const NDArray& state, std::int64_t columns, std::int64_t& classes) {
  if (classes == kInferred && state.ndim() == 2 && state.shape()[1] == columns) classes = state.shape()[0];
}

NDArray ratio(const NDArray& part, const NDArray& whole) {
  return where(whole == 0, 0.0, part / maximum(whole, 1.0));
}

NDArray column(const NDArray& state, int i) {
  return state.slice(1, {i, i + 1}).copy().view_as({state.shape()[0]});
}

// Element `part` divided by element `whole` of the state.
NDArray quotient(const NDArray& state, int part, int whole) {
  return (state.slice(0, {part, part + 1}) / state.slice(0, {whole, whole + 1})).view_as({});
}

std::int64_t integer_of(const OperatorValue& value) { return std::get<std::int64_t>(value); }

MetricOptions metric_options(const OperatorValues& v, std::size_t first) {
  return {.threshold = real_value(v, first),
          .ignore = integer_of(v[first + 1]),
          .classes = v[first + 2].is_none() ? kInferred : integer_of(v[first + 2])};
}

void check_classes(const char* name, std::int64_t classes) {
  if (classes != kInferred && classes < 1)
    throw InvalidArgument(std::string(name) + ": classes is " + std::to_string(classes) +
                          "; want 1 or more, or kInferred");
}

}  // namespace

Accuracy::Accuracy(MetricOptions options) : Metric("Accuracy"), options_(options) {
  check_classes("Accuracy", options.classes);
}

void Accuracy::add(const Inputs& inputs) {
  const std::string& name = info().name;
  const ClassBatch batch = class_batch(name, inputs[0], inputs[1], options_);
  if (batch.classes != 0 && options_.classes != kInferred)
    learned_classes(name, options_.classes, batch.classes, batch.binary);
  std::int64_t classes = std::numeric_limits<std::int64_t>::max();
  if (options_.classes != kInferred) classes = options_.classes;
  if (batch.classes != 0) classes = batch.binary ? 2 : batch.classes;
  push({batch.found, batch.wanted}, [=, ignore = options_.ignore](double* sums) {
    for_each_pair(name, batch, classes, ignore, [&](std::int64_t, std::int64_t found, std::int64_t wanted) {
      sums[0] += found == wanted;
      sums[1] += 1;
    });
  });
}

NDArray Accuracy::compute(const NDArray& state) const { return quotient(state, 0, 1); }

TopKAccuracy::TopKAccuracy(std::int64_t k, std::int64_t ignore)
    : Metric("TopKAccuracy"), k_(k), ignore_(ignore) {
  if (k < 1) throw InvalidArgument("TopKAccuracy: k is " + std::to_string(k) + "; want 1 or more");
}

void TopKAccuracy::add(const Inputs& inputs) {
  const std::string& name = info().name;
  const NDArray &scores = inputs[0], &labels = inputs[1];
  const std::int64_t classes = scores.ndim() == 0 ? 0 : scores.shape()[scores.ndim() - 1];
  if (!is_floating(scores.dtype()) || !has_one_axis_more(scores, labels) || classes < k_)
    throw InvalidArgument(name + ": scores are " + name_of(scores.dtype()) + " " +
                          scores.shape().to_string() + ", labels " + labels.shape().to_string() +
                          "; want floating scores (..., C) with at least " + std::to_string(k_) +
                          " classes, and labels (...)");
  const NDArray best = topk(scores, k_)[1].contiguous(), wanted = whole_labels(name, labels);
  push({best, wanted}, [=, k = k_, ignore = ignore_](double* sums) {
    const auto* const found = best.data<const std::int64_t>();
    // Labels are compared with themselves, so that only their range is checked.
    for_each_pair(name, {false, wanted, wanted, classes}, classes, ignore,
                  [&](std::int64_t i, std::int64_t, std::int64_t label) {
                    bool among = false;
                    for (std::int64_t j = i * k; j < (i + 1) * k; ++j) among |= found[j] == label;
                    sums[0] += among;
                    sums[1] += 1;
                  });
  });
}

NDArray TopKAccuracy::compute(const NDArray& state) const { return quotient(state, 0, 1); }

ConfusionMatrix::ConfusionMatrix(MetricOptions options, Normalize normalize)
    : Metric("ConfusionMatrix"), options_(options), normalize_(normalize), given_classes_(options.classes) {
  check_classes("ConfusionMatrix", options.classes);
}

void ConfusionMatrix::clear() {
  if (given_classes_ != kInferred) return Metric::clear();
  options_.classes = kInferred;
  forget();
}

Shape ConfusionMatrix::state_shape() const {
  const std::int64_t classes = known_classes(info().name, options_.classes);
  return {classes, classes};
}

void ConfusionMatrix::add(const Inputs& inputs) {
  const ClassBatch batch = class_batch(info().name, inputs[0], inputs[1], options_);
  options_.classes = learned_classes(info().name, options_.classes, batch.binary ? 2 : batch.classes, false);
  push({batch.found, batch.wanted}, [=, name = info().name, options = options_](double* sums) {
    for_each_pair(name, batch, options.classes, options.ignore,
                  [&](std::int64_t, std::int64_t found, std::int64_t wanted) {
                    sums[wanted * options.classes + found] += 1;
                  });
  });
}

void ConfusionMatrix::merge_whole(const NDArray& state) {
  if (state.ndim() == 2) learn_classes(state, state.shape()[0], options_.classes);
  Metric::merge_whole(state);
}

NDArray ConfusionMatrix::compute(const NDArray& state) const {
  switch (normalize_) {
    case Normalize::labels:
      return ratio(state, sum(state, {1}, true));
    case Normalize::predictions:
      return ratio(state, sum(state, {0}, true));
    case Normalize::all:
      return ratio(state, sum(state));
    case Normalize::none:
      break;
  }
  return state.copy();
}

ClassRates::ClassRates(const char* name, Average average, MetricOptions options)
    : Metric(name), average_(average), options_(options), given_classes_(options.classes) {
  check_classes(name, options.classes);
}

void ClassRates::clear() {
  if (given_classes_ != kInferred) return Metric::clear();
  options_.classes = kInferred;
  forget();
}

Shape ClassRates::state_shape() const { return {known_classes(info().name, options_.classes), 3}; }

void ClassRates::add(const Inputs& inputs) {
  const ClassBatch batch = class_batch(info().name, inputs[0], inputs[1], options_);
  const std::int64_t classes = learned_classes(info().name, options_.classes, batch.classes, batch.binary);
  options_.classes = classes;
  push({batch.found, batch.wanted}, [=, name = info().name, ignore = options_.ignore](double* sums) {
    if (batch.binary) {
      for_each_pair(name, batch, 2, ignore, [&](std::int64_t i, std::int64_t found, std::int64_t wanted) {
        double* const row = sums + i % classes * 3;
        row[0] += static_cast<double>(found * wanted);
        row[1] += static_cast<double>(found);
        row[2] += static_cast<double>(wanted);
      });
      return;
    }
    for_each_pair(name, batch, classes, ignore, [&](std::int64_t, std::int64_t found, std::int64_t wanted) {
      sums[found * 3] += found == wanted;
      sums[found * 3 + 1] += 1;
      sums[wanted * 3 + 2] += 1;
    });
  });
}

void ClassRates::merge_whole(const NDArray& state) {
  learn_classes(state, 3, options_.classes);
  Metric::merge_whole(state);
}

NDArray ClassRates::compute(const NDArray& state) const {
  const NDArray right = column(state, 0), found = column(state, 1), wanted = column(state, 2);
  const NDArray occurs = found + wanted > 0, count = sum(occurs.astype(DType::f64));
  if (average_ == Average::micro) return where(count > 0, rate(sum(right), sum(found), sum(wanted)), kNaN);
  const NDArray rates = rate(right, found, wanted);
  if (average_ == Average::none) return where(occurs, rates, kNaN);
  return sum(where(occurs, rates, 0.0)) / count;
}

Precision::Precision(Average average, MetricOptions options) : ClassRates("Precision", average, options) {}
NDArray Precision::rate(const NDArray& right, const NDArray& found, const NDArray&) const {
  return ratio(right, found);
}

Recall::Recall(Average average, MetricOptions options) : ClassRates("Recall", average, options) {}
NDArray Recall::rate(const NDArray& right, const NDArray&, const NDArray& wanted) const {
  return ratio(right, wanted);
}

F1::F1(Average average, MetricOptions options) : ClassRates("F1", average, options) {}
NDArray F1::rate(const NDArray& right, const NDArray& found, const NDArray& wanted) const {
  return ratio(right * 2, found + wanted);
}

namespace {

template <class M> std::unique_ptr<Metric> make_class_rate(const OperatorValues& v) {
  const std::string& average = std::get<std::string>(v[0]);
  return std::make_unique<M>(average == "micro"  ? Average::micro
                             : average == "none" ? Average::none
                                                 : Average::macro,
                             metric_options(v, 1));
}

std::unique_ptr<Metric> make_confusion_matrix(const OperatorValues& v) {
  using enum ConfusionMatrix::Normalize;
  const std::string& by = std::get<std::string>(v[0]);
  return std::make_unique<ConfusionMatrix>(metric_options(v, 1), by == "labels"        ? labels
                                                                 : by == "predictions" ? predictions
                                                                 : by == "all"         ? all
                                                                                       : none);
}

}  // namespace

HEDDLE_METRICS(classes) {
  const ArgumentInfo threshold = real_argument("threshold", 0.5),
                     ignore = integer_argument("ignore", -1, std::numeric_limits<std::int64_t>::min()),
                     classes = optional_size("classes"),
                     average = word_argument("average", {"macro", "micro", "none"});
  const std::vector<const char*> inputs{"predictions", "labels"};
  table.add({.name = "Accuracy",
             .documentation =
                 "The part of the predictions that are right: scores (..., C), classes, or binary "
                 "ones above `threshold`.",
             .arguments = {threshold, ignore, classes},
             .inputs = inputs,
             .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
               return std::make_unique<Accuracy>(metric_options(v, 0));
             }});
  table.add({.name = "TopKAccuracy",
             .documentation =
                 "The part of the labels that are among the `k` classes with the largest scores (..., C).",
             .arguments = {integer_argument("k", 5, 1), ignore},
             .inputs = {"scores", "labels"},
             .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
               return std::make_unique<TopKAccuracy>(integer_of(v[0]), integer_of(v[1]));
             }});
  table.add({.name = "ConfusionMatrix",
             .documentation = "How often each label (row) was predicted as each class (column): (C, C); with "
                              "`normalize` the sums of rows, of columns, or of all are 1.",
             .arguments = {word_argument("normalize", {"none", "labels", "predictions", "all"}), threshold,
                           ignore, classes},
             .inputs = inputs,
             .make = make_confusion_matrix});
  table.add({.name = "Precision",
             .documentation = "The part of what was predicted that is right: the mean over the classes that "
                              "occur, over all predictions, or of each class.",
             .arguments = {average, threshold, ignore, classes},
             .inputs = inputs,
             .make = make_class_rate<Precision>});
  table.add({.name = "Recall",
             .documentation = "The part of the labels that was found, averaged as Precision.",
             .arguments = {average, threshold, ignore, classes},
             .inputs = inputs,
             .make = make_class_rate<Recall>});
  table.add({.name = "F1",
             .documentation = "The harmonic mean of precision and recall, averaged as Precision.",
             .arguments = {average, threshold, ignore, classes},
             .inputs = inputs,
             .make = make_class_rate<F1>});
}

}  // namespace heddle
