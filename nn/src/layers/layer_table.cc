#include "layers/layer_table.h"

#include <algorithm>
#include <map>

namespace heddle {
namespace nn_detail {
namespace {

struct LayerRegistry {
  LayerRegistry() {
    LayerTable table(all);
    register_layers(table);
    std::stable_sort(all.begin(), all.end(),
                     [](const LayerInfo& a, const LayerInfo& b) { return a.family < b.family; });
    for (const LayerInfo& layer : all) by_name.emplace(layer.name, &layer);
  }
  std::vector<LayerInfo> all;
  std::map<std::string, const LayerInfo*, std::less<>> by_name;
};

const LayerRegistry& registry() {
  static const LayerRegistry& all = *new LayerRegistry;
  return all;
}

}  // namespace

ArraySpec weight_array(const char* name, const char* shape) {
  return {{.name = name, .shape = shape, .start = "uniform, as `init` says"}, Start::weight};
}
ArraySpec normal_array(const char* name, const char* shape) {
  return {{.name = name, .shape = shape, .start = "normal around 0, with `stddev`"}, Start::normal};
}
ArraySpec recurrent_array(const std::string& name, const std::string& shape, const char* condition) {
  return {
      {.name = name, .shape = shape, .start = "uniform in ±1 / sqrt(hidden_size)", .condition = condition},
      Start::recurrent};
}
ArraySpec zeros_array(const char* name, const char* shape, const char* condition) {
  return {{.name = name, .shape = shape, .start = "0", .condition = condition}, Start::zeros};
}
ArraySpec ones_array(const char* name, const char* shape, const char* condition) {
  return {{.name = name, .shape = shape, .start = "1", .condition = condition}, Start::ones};
}
ArraySpec buffer_of(ArraySpec array, DType dtype) {
  array.described.trained = false;
  array.dtype = dtype;
  return array;
}

void LayerTable::insert(LayerSpec spec, Make make, const std::type_info& type) {
  if (!*family_) throw Error(std::string(spec.name) + ": its file does not begin with table.family()");
  LayerInfo info;
  info.name = spec.name;
  info.family = family_;
  info.documentation = std::move(spec.documentation);
  info.arguments = std::move(spec.arguments);
  info.input = spec.input;
  info.output = spec.output;
  info.more_inputs = std::move(spec.more_inputs);
  info.more_outputs = std::move(spec.more_outputs);
  LayerRules rules;
  rules.has_input = !info.input.empty();
  if (rules.has_input) rules.input = ShapeRule(info.input);
  for (const LayerPort& port : info.more_inputs)
    rules.more_inputs.push_back(port.shape.empty() ? std::nullopt : std::optional(ShapeRule(port.shape)));
  for (ArraySpec& array : spec.arrays) {
    rules.arrays.emplace_back(array);
    info.arrays.push_back(std::move(array.described));
  }
  rules.more_arrays = spec.more_arrays;
  info.more_arrays = spec.more_arrays.documentation;
  info.rules = std::make_shared<const LayerRules>(std::move(rules));
  info.make = [make, name = info.name](const OperatorValues& values) {
    return make({.info = find_layer(name), .values = values, .where = CallSite::current()});
  };
  info.type = &type;
  all_.push_back(std::move(info));
}

ArgumentInfo size_argument(const char* name) {
  return {.name = name, .kind = ArgumentKind::integer, .least = 1};
}
ArgumentInfo inferred_size(const char* name) {
  return {.name = name, .kind = ArgumentKind::integer, .least = 1, .inferred = true};
}
ArgumentInfo size_or_none(const char* name) {
  return {.name = name, .kind = ArgumentKind::integer, .default_value = OperatorValue(), .least = 1};
}
ArgumentInfo integer_argument(const char* name, std::int64_t otherwise, std::int64_t least) {
  return {.name = name, .kind = ArgumentKind::integer, .default_value = otherwise, .least = least};
}
ArgumentInfo window_argument(const char* name, int length) {
  return {.name = name, .kind = ArgumentKind::integers, .length = length, .least = 1};
}
ArgumentInfo window_argument(const char* name, int length, std::int64_t otherwise, std::int64_t least) {
  return {.name = name,
          .kind = ArgumentKind::integers,
          .default_value = otherwise,
          .length = length,
          .least = least};
}
ArgumentInfo switch_argument(const char* name, bool otherwise) {
  return {.name = name, .kind = ArgumentKind::boolean, .default_value = otherwise};
}
ArgumentInfo real_argument(const char* name, double otherwise) {
  return {.name = name, .kind = ArgumentKind::real, .default_value = otherwise};
}
ArgumentInfo init_argument() {
  return {.name = "init",
          .kind = ArgumentKind::text,
          .default_value = std::string("he"),
          .choices = {"he", "xavier"}};
}
ArgumentInfo device_argument() {
  return {.name = "device", .kind = ArgumentKind::device, .default_value = OperatorValue()};
}
ArgumentInfo generator_argument() {
  return {.name = "generator", .kind = ArgumentKind::generator, .default_value = OperatorValue()};
}

OperatorValue init_value(Init init) { return std::string(init == Init::he ? "he" : "xavier"); }

OperatorValue window_value(const Dims& window) {
  return window.size() == 1 ? OperatorValue(window[0]) : OperatorValue(window);
}

LayerCall call_of(const char* layer, const OperatorValues& values, Where where) {
  const CallSite site(where);  // of the errors of complete_arguments()
  const LayerInfo& info = *find_layer(layer);
  return {.info = &info, .values = complete_arguments(info, values), .where = where};
}

void refuse_call(const LayerCall& call, const std::string& why) {
  throw InvalidArgument(call.info->name + ": " + why);
}

double real_value(const OperatorValues& values, std::size_t i) {
  const OperatorValue& given = values.at(i);
  if (const auto* whole = std::get_if<std::int64_t>(&given)) return static_cast<double>(*whole);
  if (const auto* huge = std::get_if<std::uint64_t>(&given)) return static_cast<double>(*huge);
  return std::get<double>(given);
}

}  // namespace nn_detail

std::span<const LayerInfo> layers() { return nn_detail::registry().all; }

const LayerInfo* find_layer(std::string_view name) {
  const auto& by_name = nn_detail::registry().by_name;
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::shared_ptr<Module> make_layer(const LayerInfo& layer, std::span<const OperatorValue> values,
                                   std::span<const NamedValue> named, Where where) {
  const CallSite site(where);
  return layer.make(complete_arguments(layer, values, named));
}

std::shared_ptr<Module> make_layer(std::string_view name, const OperatorValues& values,
                                   const std::vector<NamedValue>& named, Where where) {
  const CallSite site(where);
  const LayerInfo* const layer = find_layer(name);
  if (!layer)
    throw InvalidArgument("make_layer: there is no layer '" + std::string(name) + "'; layers() lists them");
  return make_layer(*layer, std::span(values), std::span(named), where);
}

}  // namespace heddle
