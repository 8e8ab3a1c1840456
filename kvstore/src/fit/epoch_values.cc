#include "fit/epoch_values.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/metrics.h>
#include <heddle/ops.h>

#include "fit/batch_parts.h"

namespace heddle {
namespace {

// "top_k_accuracy" for "TopKAccuracy".
std::string snake_case(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const bool is_upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (is_upper && !text.empty()) text += '_';
    text += static_cast<char>(is_upper ? std::tolower(static_cast<unsigned char>(c)) : c);
  }
  return text;
}

// A metric by its name or by the name that its values have.
std::shared_ptr<Metric> metric_named(const std::string& name) {
  for (const MetricInfo& info : metrics())
    if (snake_case(info.name) == name) return make_metric(info.name);
  return make_metric(name);
}

}  // namespace

FitMetric::FitMetric(const char* kind, int of_output, std::string title)
    : FitMetric(std::string(kind), of_output, std::move(title)) {}
FitMetric::FitMetric(const std::string& kind, int of_output, std::string title)
    : FitMetric(metric_named(kind), of_output, std::move(title)) {}
FitMetric::FitMetric(std::shared_ptr<Metric> object, int of_output, std::string title)
    : metric(std::move(object)), output(of_output), name(std::move(title)) {}

namespace fit_detail {

EpochValues::EpochValues(const std::string& call, const BatchLoss& loss, std::vector<FitMetric> metrics)
    : call_(call), metrics_(std::move(metrics)), names_(loss.names()) {
  losses_ = names_.size();
  bool several = losses_ > 1;
  for (const FitMetric& metric : metrics_) several = several || metric.output > 0;
  for (FitMetric& metric : metrics_) {
    if (!metric.metric) throw InvalidArgument(call_ + ": a metric is null");
    if (std::count_if(metrics_.begin(), metrics_.end(),
                      [&](const FitMetric& other) { return other.metric == metric.metric; }) > 1)
      throw InvalidArgument(call_ + ": one " + metric.metric->info().name +
                            " comes twice among the metrics; want an object for each");
    for (const char* name : {"batch_loss", "epoch", "step"})
      if (metric.name == name)
        throw InvalidArgument(call_ + ": a metric is called '" + metric.name + "', which is another number");
    if (metric.output < 0)
      throw InvalidArgument(call_ + ": the output of metric " + metric.metric->info().name + " is " +
                            std::to_string(metric.output) + "; want 0 or more");
    if (metric.name.empty()) {
      const std::string prefix =
          several ? loss.output_name(static_cast<std::size_t>(metric.output)) + "_" : "";
      metric.name = prefix + snake_case(metric.metric->info().name);
    }
    if (std::find(names_.begin(), names_.end(), metric.name) != names_.end())
      throw InvalidArgument(call_ + ": two values are called '" + metric.name + "'; give one another name");
    names_.push_back(metric.name);
  }
}

void EpochValues::check_metric(const FitMetric& metric) const {
  const NDArray result = metric.metric->result();
  if (result.size() == 1) return;
  throw InvalidArgument(call_ + ": metric '" + metric.name + "' is " + result.shape().to_string() +
                        "; want one with one number");
}

void EpochValues::add(const std::vector<NDArray>& losses, const std::vector<NDArray>& outputs,
                      const std::vector<NDArray>& labels, std::int64_t rows) {
  const NoGrad no_grad;
  if (losses_ > 0) {
    if (!sums_.defined()) sums_ = zeros({static_cast<std::int64_t>(losses_) + 1}, DType::f64);
    std::vector<NDArray> reads;
    for (const NDArray& one : losses) reads.push_back(on_host(one.detach().astype(DType::f64)));
    std::vector<NDArray> read_and_written = reads;
    read_and_written.push_back(sums_);
    Access access = array_access("fit_loss", read_and_written, std::span(&sums_, 1));
    access.brief = true;
    sums_.engine().push(
        [reads, to = sums_, rows = static_cast<double>(rows)] {
          auto* const sums = to.data<double>();
          sums[0] += rows;
          for (std::size_t i = 0; i < reads.size(); ++i)
            sums[i + 1] += rows * *reads[i].template data<const double>();
        },
        access, CallSite::current());
  }
  Arrays here(outputs.size());
  for (const FitMetric& metric : metrics_) {
    const auto at = static_cast<std::size_t>(metric.output);
    if (at >= outputs.size() || at >= labels.size())
      throw InvalidArgument(call_ + ": metric '" + metric.name + "' is of output " +
                            std::to_string(metric.output) + "; there are " + std::to_string(outputs.size()) +
                            " outputs and " + std::to_string(labels.size()) + " labels");
    if (!here[at].defined()) here[at] = on_host(outputs[at]);  // once for all metrics
    metric.metric->update(here[at], labels[at]);
    if (batches_ == 0) check_metric(metric);
  }
  ++batches_;
}

void EpochValues::reset() {
  if (sums_.defined()) sums_.fill(0);
  for (const FitMetric& metric : metrics_) metric.metric->reset();
  batches_ = 0;
}

// An Auc without bins keeps all scores: (2, 0) before the first batch.
void EpochValues::check_of_ranks() const {
  for (const FitMetric& metric : metrics_)
    if (dynamic_cast<const Auc*>(metric.metric.get()) && metric.metric->state().size() == 0)
      throw InvalidArgument(call_ + ": metric '" + metric.name +
                            "' has no bins, and ranks add up counts; want an Auc with bins");
}

bool EpochValues::reduce_any(Communicator& ranks) {
  constexpr int kAxes = 8;
  std::vector<std::int64_t> sizes{batches_ > 0 ? 1 : 0};
  for (const FitMetric& metric : metrics_) {
    const Shape shape = batches_ > 0 ? metric.metric->state().shape() : Shape();
    sizes.push_back(static_cast<std::int64_t>(shape.size()));
    for (int i = 0; i < kAxes; ++i) sizes.push_back(i < std::ssize(shape) ? shape[i] : 0);
  }
  const NDArray agreed = array(sizes, {static_cast<std::int64_t>(sizes.size())});
  ranks.all_reduce(agreed, ReduceOp::max);
  sizes = agreed.to_vector<std::int64_t>();
  if (sizes[0] == 0) return false;
  for (std::size_t i = 0; batches_ == 0 && i < metrics_.size(); ++i) {
    const auto at = sizes.begin() + 1 + static_cast<std::ptrdiff_t>(i) * (kAxes + 1);
    Shape shape;
    for (std::int64_t axis = 0; axis < at[0]; ++axis) shape.push_back(at[1 + axis]);
    metrics_[i].metric->merge(zeros(shape, DType::f64));
  }
  batches_ = std::max<std::int64_t>(batches_, 1);
  reduce(ranks);
  return true;
}

void EpochValues::reduce(Communicator& ranks) {
  if (losses_ > 0) {
    if (!sums_.defined()) sums_ = zeros({static_cast<std::int64_t>(losses_) + 1}, DType::f64);
    ranks.all_reduce(sums_);
  }
  for (const FitMetric& metric : metrics_) ranks.all_reduce(metric.metric->state());
}

NDArray EpochValues::mean_loss(std::size_t index) const {
  NDArray mean({}, DType::f64);
  const NDArray sums = sums_;
  array_push("fit_loss", OpCost::per_element, {sums}, {mean}, [sums, to = mean, index] {
    const auto* const from = sums.data<const double>();
    *to.data<double>() = from[index + 1] / from[0];
  });
  return mean;
}

NDArray EpochValues::result(std::size_t index) const {
  if (index >= losses_) return metrics_[index - losses_].metric->result();
  return sums_.defined() ? mean_loss(index) : full({}, std::numeric_limits<double>::quiet_NaN(), DType::f64);
}

std::vector<NDArray> EpochValues::results() const {
  std::vector<NDArray> all;
  for (std::size_t i = 0; i < names_.size(); ++i) all.push_back(result(i));
  return all;
}

std::vector<NDArray> EpochValues::state() const {
  std::vector<NDArray> all;
  if (losses_ > 0) all.push_back(sums_);
  for (const FitMetric& metric : metrics_) all.push_back(metric.metric->state());
  return all;
}

void EpochValues::set_state(const std::vector<NDArray>& state) {
  std::size_t next = 0;
  if (losses_ > 0) {
    sums_ = zeros({static_cast<std::int64_t>(losses_) + 1}, DType::f64);
    sums_.assign(state.at(next++));
  }
  for (const FitMetric& metric : metrics_) {
    metric.metric->reset();
    metric.metric->merge(state.at(next++));
  }
  batches_ = 1;
}

FitValues read_values(const std::vector<std::string>& names, const std::vector<NDArray>& arrays) {
  FitValues values;
  for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = arrays[i].item().real();
  return values;
}

}  // namespace fit_detail
}  // namespace heddle
