// Metrics by name.
#include <deque>
#include <mutex>

#include <heddle/c/metric.h>
#include <heddle/default_engine.h>
#include <heddle/metric.h>

#include "array_handle.h"
#include "operator_description.h"
#include "value.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

struct LockedMetric {
  LockedMetric(std::unique_ptr<Metric> made, const EngineLink& of) : metric(std::move(made)), engine(of) {}
  std::mutex mutex;  // guards `metric`
  const std::unique_ptr<Metric> metric;
  const EngineLink engine;
};

}  // namespace heddle::c

struct heddle_metric : heddle::c::Handle<std::shared_ptr<heddle::c::LockedMetric>, heddle::c::kMetric> {
  using Handle::Handle;
};

namespace {

const FunctionDescription& description_of_metric(std::size_t index) {
  static const std::deque<FunctionDescription>& immortal = *[] {
    auto* all = new std::deque<FunctionDescription>;
    for (const MetricInfo& metric : metrics()) all->emplace_back(metric);
    return all;
  }();
  return immortal[index];
}

const heddle_metric_kind* handle_of_kind(const MetricInfo& metric) {
  return reinterpret_cast<const heddle_metric_kind*>(&metric);
}

std::size_t index_of_kind(const heddle_metric_kind* kind, const char* call) {
  return index_in(metrics(), kind, "heddle_metric_kind", call);
}

const MetricInfo& kind_named(const char* name, const char* call) {
  const std::string wanted = text_of(name, call, "name");
  if (const MetricInfo* const found = find_metric(wanted)) return *found;
  throw InvalidArgument(std::string(call) + ": there is no metric '" + wanted + "'");
}

// Calls call(metric, linked, engine) under the metric's lock, inside an EngineScope of its engine.
template <class Call>
heddle_status with_metric(const heddle_metric* metric, heddle_error** error, const char* name,
                          Call&& call) noexcept {
  return called(error, [&] {
    const std::shared_ptr<LockedMetric> of = *HandleAccess<heddle_metric>(metric, name);
    const std::shared_ptr<Engine> engine = of->engine.lock(name);
    const EngineScope scope(*engine);
    const std::lock_guard guard(of->mutex);
    call(*of->metric, of->engine, *engine);
  });
}

}  // namespace

heddle_status heddle_metric_kind_count(size_t* count) {
  return called(nullptr, [&] {
    check_out(count, "heddle_metric_kind_count", "count");
    *count = metrics().size();
  });
}

heddle_status heddle_metric_kind_at(size_t index, const heddle_metric_kind** kind, heddle_error** error) {
  return called(error, [&] {
    check_out(kind, "heddle_metric_kind_at", "kind");
    if (index >= metrics().size())
      throw InvalidArgument("heddle_metric_kind_at: index " + std::to_string(index) + " of " +
                            std::to_string(metrics().size()) + " metrics");
    *kind = handle_of_kind(metrics()[index]);
  });
}

heddle_status heddle_metric_kind_find(const char* name, const heddle_metric_kind** kind,
                                      heddle_error** error) {
  return called(error, [&] {
    check_out(kind, "heddle_metric_kind_find", "kind");
    *kind = handle_of_kind(kind_named(name, "heddle_metric_kind_find"));
  });
}

heddle_status heddle_metric_kind_describe(const heddle_metric_kind* kind, heddle_metric_info* info,
                                          heddle_error** error) {
  return called(error, [&] {
    const std::size_t index = index_of_kind(kind, "heddle_metric_kind_describe");
    check_struct(info, "heddle_metric_kind_describe", "heddle_metric_info");
    const MetricInfo& of = metrics()[index];
    const FunctionDescription& described = description_of_metric(index);
    *info = {.struct_size = sizeof(heddle_metric_info),
             .name = of.name.c_str(),
             .documentation = of.documentation.c_str(),
             .signature = described.signature(),
             .argument_count = described.argument_count(),
             .input_count = of.inputs.size()};
  });
}

heddle_status heddle_metric_kind_argument(const heddle_metric_kind* kind, size_t index,
                                          heddle_argument_info* info, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_metric_kind_argument";
    const FunctionDescription& described = description_of_metric(index_of_kind(kind, kCall));
    check_struct(info, kCall, "heddle_argument_info");
    *info = described.argument(index, kCall);
  });
}

heddle_status heddle_metric_kind_input(const heddle_metric_kind* kind, size_t index, const char** name,
                                       int32_t* required, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_metric_kind_input";
    const MetricInfo& of = metrics()[index_of_kind(kind, kCall)];
    check_out(name, kCall, "name");
    check_out(required, kCall, "required");
    if (index >= of.inputs.size())
      throw InvalidArgument(std::string(kCall) + ": input " + std::to_string(index) + " of " +
                            std::to_string(of.inputs.size()));
    *name = of.inputs[index].name.c_str();
    *required = of.inputs[index].required();
  });
}

heddle_status heddle_metric_create(const char* name, const heddle_value* values, size_t value_count,
                                   const heddle_named_value* named, size_t named_count, heddle_engine* engine,
                                   heddle_metric** metric, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_metric_create";
    const MetricInfo& info = kind_named(name, kCall);
    check_out(metric, kCall, "metric");
    Arguments arguments(kCall);
    const CallArguments all = arguments_of(info, values, value_count, named, named_count, arguments, kCall);
    const std::shared_ptr<Engine> on = arguments.engine(engine);
    const EngineScope scope(*on);
    *metric = make_handle<heddle_metric>(
        std::make_shared<LockedMetric>(make_metric(info, all.first, all.named), EngineLink(on)));
  });
}

heddle_status heddle_metric_destroy(heddle_metric* metric) {
  return guarded(nullptr, [&] {
    if (metric) take(metric, "heddle_metric_destroy");
  });
}

heddle_status heddle_metric_update(heddle_metric* metric, heddle_array* const* arrays, size_t count,
                                   heddle_error** error) {
  constexpr const char* kCall = "heddle_metric_update";
  return with_metric(metric, error, kCall, [&](Metric& of, const EngineLink&, const Engine& engine) {
    constexpr std::size_t kMost = 4;
    if (count > kMost) throw InvalidArgument(std::string(kCall) + ": " + std::to_string(count) + " arrays");
    if (count > 0 && !arrays) throw_null(kCall, "arrays");
    NDArray given[kMost];
    for (std::size_t i = 0; i < count; ++i) {
      if (!arrays[i]) continue;
      const UsedArray array(arrays[i], kCall);
      check_engine(array.engine(), engine, kCall);
      given[i] = array->array;
    }
    of.update(given[0], given[1], given[2], given[3]);
  });
}

heddle_status heddle_metric_result(const heddle_metric* metric, heddle_array** result, heddle_error** error) {
  constexpr const char* kCall = "heddle_metric_result";
  return with_metric(metric, error, kCall, [&](const Metric& of, const EngineLink& engine, const Engine&) {
    check_out(result, kCall, "result");
    *result = new_handle(of.result(), engine);
  });
}

heddle_status heddle_metric_value(const heddle_metric* metric, double* value, heddle_error** error) {
  constexpr const char* kCall = "heddle_metric_value";
  return with_metric(metric, error, kCall, [&](const Metric& of, const EngineLink&, const Engine&) {
    check_out(value, kCall, "value");
    *value = of.value();
  });
}

heddle_status heddle_metric_reset(heddle_metric* metric, heddle_error** error) {
  return with_metric(metric, error, "heddle_metric_reset",
                     [](Metric& of, const EngineLink&, const Engine&) { of.reset(); });
}

heddle_status heddle_metric_state(const heddle_metric* metric, heddle_array** state, heddle_error** error) {
  constexpr const char* kCall = "heddle_metric_state";
  return with_metric(metric, error, kCall, [&](const Metric& of, const EngineLink& engine, const Engine&) {
    check_out(state, kCall, "state");
    *state = new_handle(of.state(), engine);
  });
}

heddle_status heddle_metric_merge(heddle_metric* metric, const heddle_array* state, heddle_error** error) {
  constexpr const char* kCall = "heddle_metric_merge";
  return with_metric(metric, error, kCall, [&](Metric& of, const EngineLink&, const Engine& engine) {
    const UsedArray array(state, kCall);
    check_engine(array.engine(), engine, kCall);
    of.merge(array->array);
  });
}

heddle_status heddle_metric_text(const heddle_metric* metric, char** text, heddle_error** error) {
  constexpr const char* kCall = "heddle_metric_text";
  return with_metric(metric, error, kCall, [&](const Metric& of, const EngineLink&, const Engine&) {
    check_out(text, kCall, "text");
    *text = make_text(of.to_string());
  });
}
