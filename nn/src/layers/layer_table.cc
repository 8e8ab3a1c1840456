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
  static const LayerRegistry all;
  return all;
}

}  // namespace

const OperatorValue& LayerArguments::value(const char* name) const {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (layer_.arguments[i].name == name) return values_[i];
  throw Error(layer_.name + ": registered without the argument '" + name + "'");
}

double LayerArguments::real(const char* name) const {
  const OperatorValue& given = value(name);
  if (const auto* whole = std::get_if<std::int64_t>(&given)) return static_cast<double>(*whole);
  if (const auto* huge = std::get_if<std::uint64_t>(&given)) return static_cast<double>(*huge);
  return std::get<double>(given);
}

Device LayerArguments::device(const char* name) const {
  const auto* device = std::get_if<Device>(&value(name));
  return device ? *device : Device();
}

Generator& LayerArguments::generator(const char* name) const {
  auto* const* generator = std::get_if<Generator*>(&value(name));
  return generator ? **generator : default_generator();
}

Init LayerArguments::init(const char* name) const {
  return std::get<std::string>(value(name)) == "he" ? Init::he : Init::xavier;
}

void LayerTable::add(const char* name, const char* documentation, std::vector<ArgumentInfo> arguments,
                     Make make) {
  if (!*family_) throw Error(std::string(name) + ": its file does not begin with table.family()");
  LayerInfo info;
  info.name = name;
  info.family = family_;
  info.documentation = documentation;
  info.arguments = std::move(arguments);
  info.make = [make, described = static_cast<const FunctionInfo&>(info)](const OperatorValues& values) {
    return make(LayerArguments(described, values));
  };
  all_.push_back(std::move(info));
}

ArgumentInfo size_argument(const char* name) { return {.name = name, .kind = ArgumentKind::integer}; }
ArgumentInfo size_argument(const char* name, std::int64_t otherwise) {
  return {.name = name, .kind = ArgumentKind::integer, .default_value = otherwise};
}
ArgumentInfo switch_argument(const char* name, bool otherwise) {
  return {.name = name, .kind = ArgumentKind::boolean, .default_value = otherwise};
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

void check_positive(const char* layer, const char* argument, std::int64_t value) {
  if (value >= 1) return;
  throw InvalidArgument(std::string(layer) + ": " + argument + " is " + std::to_string(value) +
                        "; want 1 or more");
}

void check_defined(const Module& layer, const NDArray& x) {
  if (!x.defined()) ndarray_detail::refuse_undefined(layer.to_string().c_str());
}

void refuse_input(const Module& layer, const NDArray& x, const std::string& wanted) {
  throw InvalidArgument(layer.to_string() + ": the input is " + name_of(x.dtype()) + " " +
                        x.shape().to_string() + ", wanted is " + wanted);
}

NDArray zero_bias(std::int64_t size, Device device) { return zeros({size}, DType::f32, device); }

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
