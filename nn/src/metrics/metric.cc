#include <map>
#include <ostream>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/default_engine.h>
#include <heddle/metric.h>
#include <heddle/number_text.h>

#include "metrics/metric_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

struct MetricRegistry {
  MetricRegistry() {
    MetricTable table(all);
    register_metrics(table);
    for (const MetricInfo& metric : all) by_name.emplace(metric.name, &metric);
  }
  std::vector<MetricInfo> all;
  std::map<std::string, const MetricInfo*, std::less<>> by_name;
};

const MetricRegistry& metric_registry() {
  static const MetricRegistry& all = *new MetricRegistry;
  return all;
}

NDArray on_cpu(const NDArray& array) {
  const NDArray value = array.detach();
  return value.device() == cpu() ? value : value.copy_to(cpu());
}

std::string input_names(const MetricInfo& info) {
  std::string names;
  for (const ArgumentInfo& input : info.inputs)
    names += (names.empty() ? "" : ", ") + input.name + (input.required() ? "" : " (optional)");
  return names;
}

}  // namespace

namespace nn_detail {

void MetricTable::add(const MetricSpec& spec) {
  MetricInfo info;
  info.name = spec.name;
  info.family = "Metrics";
  info.documentation = spec.documentation;
  info.arguments = spec.arguments;
  for (const char* const name : spec.inputs) info.inputs.push_back({.name = name});
  for (const char* const name : spec.optional_inputs)
    info.inputs.push_back({.name = name, .default_value = OperatorValue()});
  info.make = spec.make;
  all_.push_back(std::move(info));
}

ArgumentInfo word_argument(const char* name, std::vector<std::string> choices) {
  return {.name = name,
          .kind = ArgumentKind::text,
          .default_value = choices.front(),
          .choices = std::move(choices)};
}
ArgumentInfo optional_size(const char* name) {
  return {.name = name, .kind = ArgumentKind::integer, .default_value = OperatorValue(), .least = 1};
}

}  // namespace nn_detail

Metric::Metric(const char* name) : info_(*find_metric(name)) {}

void Metric::update(const NDArray& first, const NDArray& second, const NDArray& third, const NDArray& fourth,
                    Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  const NDArray given[] = {first, second, third, fourth};
  NDArray inputs[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const bool known = i < info_.inputs.size();
    if (given[i].defined() ? !known : known && info_.inputs[i].required())
      throw InvalidArgument(info_.name + ": array " + std::to_string(i + 1) +
                            (known ? " is missing" : " is one too many") + "; want " + input_names(info_));
    if (!given[i].defined()) continue;
    inputs[i] = on_cpu(given[i]);
  }
  const EngineScope scope(first.engine());
  ndarray_detail::in_name_of(info_.name.c_str(), [&] { add(inputs); });
}

NDArray Metric::result(Where where) const {
  const CallSite site(where);
  const NoGrad no_grad;
  const NDArray all = whole_state();
  const EngineScope scope(all.engine());
  return compute(all);
}

double Metric::value(Where where) const {
  const CallSite site(where);
  const NDArray all = result();
  if (all.size() != 1)
    throw InvalidArgument(info_.name + ": the result is " + all.shape().to_string() +
                          "; value() is for one number, result() has all");
  return all.item<double>();
}

void Metric::reset(Where where) {
  const CallSite site(where);
  clear();
}

NDArray Metric::state(Where where) const {
  const CallSite site(where);
  return whole_state();
}

void Metric::merge(const NDArray& state, Where where) {
  const CallSite site(where);
  if (!state.defined()) ndarray_detail::refuse_undefined(info_.name.c_str());
  if (state.dtype() != DType::f64)
    throw InvalidArgument(info_.name + ": the state is " + name_of(state.dtype()) +
                          "; want the f64 array that state() returns");
  const EngineScope scope(state.engine());
  merge_whole(on_cpu(state));
}

std::string Metric::to_string(Where where) const {
  const CallSite site(where);
  const NDArray all = result();
  return info_.name + ": " + (all.ndim() == 0 ? number_text(all.item<double>()) : "\n" + all.to_string());
}

std::ostream& operator<<(std::ostream& out, const Metric& metric) { return out << metric.to_string(); }

void Metric::merge_whole(const NDArray& state) {
  if (state.shape() != sums().shape())
    throw InvalidArgument(info_.name + ": the state is " + state.shape().to_string() + "; want " +
                          sums().shape().to_string());
  const NDArray other = state.contiguous();
  push({other}, [other](double* to) {
    const auto* const from = other.data<const double>();
    for (std::int64_t i = 0; i < other.size(); ++i) to[i] += from[i];
  });
}

void Metric::clear() {
  if (sums_.defined()) sums_.fill(0);
}

const NDArray& Metric::sums() const {
  if (!sums_.defined()) sums_ = zeros(state_shape(), DType::f64);
  return sums_;
}

void Metric::push(std::vector<NDArray> reads, std::function<void(double*)> body) {
  const NDArray to = sums();
  reads.push_back(to);  // an error of an earlier batch stays
  const Access access = array_access(info_.name.c_str(), reads, std::span(&to, 1));
  ndarray_detail::push_for(
      reads, {&to, 1}, [reads, to, body = std::move(body)] { body(to.data<double>()); }, access,
      CallSite::current());
}

std::span<const MetricInfo> metrics() { return metric_registry().all; }

const MetricInfo* find_metric(std::string_view name) {
  const auto& by_name = metric_registry().by_name;
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::unique_ptr<Metric> make_metric(const MetricInfo& metric, std::span<const OperatorValue> values,
                                    std::span<const NamedValue> named) {
  return metric.make(complete_arguments(metric, values, named));
}

std::unique_ptr<Metric> make_metric(std::string_view name, const OperatorValues& values,
                                    const std::vector<NamedValue>& named) {
  const MetricInfo* const metric = find_metric(name);
  if (!metric)
    throw InvalidArgument("make_metric: there is no metric '" + std::string(name) +
                          "'; metrics() lists them");
  return make_metric(*metric, std::span(values), std::span(named));
}

}  // namespace heddle
