// Models as files: the state as safetensors, and in their metadata a description of the modules in JSON.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <typeinfo>
#include <utility>

#include <nlohmann/json.hpp>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/layer_registry.h>
#include <heddle/safetensors.h>
#include <heddle/sequential.h>

#include "layers/loaded_shapes.h"
#include "model/plan.h"
#include "module/module_node.h"

namespace heddle {

using nlohmann::json;
using nn_detail::ModelPlan;
using nn_detail::ModuleNode;
using nn_detail::SymbolNode;

namespace {

constexpr const char* kKey = "heddle.model";
constexpr int kVersion = 1;

constexpr std::size_t kMostLevels = 1000;  // modules inside modules

[[noreturn]] void refuse_file(const std::string& path, const std::string& problem) {
  throw Error("model file '" + path + "': " + problem);
}

// Values of arguments. Devices and generators are left to their defaults.
json json_of(const std::string& of, const OperatorValue& value) {
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* const huge = std::get_if<std::uint64_t>(&value)) return *huge;
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  if (const auto* const dtype = std::get_if<DType>(&value)) return json{{"dtype", name_of(*dtype)}};
  if (const auto* const real = std::get_if<double>(&value)) {
    if (std::isfinite(*real)) return *real;
    return json{{"float", std::isnan(*real) ? "nan" : *real < 0 ? "-inf" : "inf"}};
  }
  if (const auto* const list = std::get_if<Dims>(&value)) {
    json sizes = json::array();
    for (const std::int64_t one : *list) sizes.push_back(one);
    return json{{"integers", sizes}};
  }
  if (value.is_none() || std::holds_alternative<Device>(value) || std::holds_alternative<Generator*>(value))
    return nullptr;
  throw InvalidArgument("save_model: " + of + " is " + value.to_string() + "; a model file cannot hold that");
}

std::int64_t integer_in(const json& value) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!fits) throw Error(value.dump() + " in place of an integer");
  return value.get<std::int64_t>();
}

std::size_t index_in(const json& value) {
  const std::int64_t index = integer_in(value);
  if (index < 0) throw Error(value.dump() + " in place of a number from 0");
  return static_cast<std::size_t>(index);
}

OperatorValue value_of(const json& text) {
  if (text.is_null()) return {};
  if (text.is_boolean()) return text.get<bool>();
  if (text.is_number_unsigned() && text.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    return text.get<std::uint64_t>();
  if (text.is_number_integer()) return integer_in(text);
  if (text.is_number_float()) return text.get<double>();
  if (text.is_string()) return text.get<std::string>();
  if (text.contains("float")) {
    const std::string number = text.at("float").get<std::string>();
    if (number == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (number == "inf") return std::numeric_limits<double>::infinity();
    if (number == "-inf") return -std::numeric_limits<double>::infinity();
    throw Error("'" + number + "' in place of nan, inf or -inf");
  }
  if (text.contains("integers")) {
    Dims list;
    for (const json& one : text.at("integers")) list.push_back(integer_in(one));
    return list;
  }
  return dtype_from_name(text.at("dtype").get<std::string>());
}

class Writer {
 public:
  json description(const Module& root) {
    const std::size_t index = add(root);
    return {{"version", kVersion}, {"modules", modules_}, {"root", index}};
  }

 private:
  // Adds a description of the module behind those of the modules inside it; each module once.
  std::size_t add(const Module& module) {
    const ModuleNode* const node = &ModuleNode::of(module);
    if (const auto known = indices_.find(node); known != indices_.end()) return known->second;
    json described = describe(module);
    modules_.push_back(std::move(described));
    return indices_[node] = modules_.size() - 1;
  }

  json describe(const Module& module) {
    const Layer* const layer = module.as_layer();
    if (layer && layer->info().type && typeid(*layer) == *layer->info().type) return describe_layer(*layer);
    if (const auto* const model = dynamic_cast<const Model*>(&module))
      return describe_model(ModelPlan::of(*model));
    if (const auto* const list = dynamic_cast<const Sequential*>(&module)) {
      json all = json::array();
      for (std::size_t i = 0; i < list->size(); ++i) all.push_back(add((*list)[i]));
      return {{"sequential", all}};
    }
    const std::string text = module.to_string();
    throw InvalidArgument("save_model: " + text.substr(0, text.find('{')) +
                          " is a class of the program's own, which a file cannot hold; save its state() by "
                          "save_safetensors()");
  }

  static json describe_layer(const Layer& layer) {
    json arguments = json::object();
    const OperatorValues values = layer.arguments();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string& name = layer.info().arguments[i].name;
      json value = json_of(layer.info().name + ": " + name, values[i]);
      if (!value.is_null()) arguments[name] = std::move(value);
    }
    return {{"layer", layer.info().name}, {"arguments", arguments}};
  }

  json describe_model(const ModelPlan& plan) {
    json inputs = json::array(), steps = json::array();
    for (const auto& node : plan.inputs) {
      json shape = json::array();
      for (const std::int64_t size : node->shape) shape.push_back(size == kInferred ? json() : json(size));
      inputs.push_back(
          {{"name", node->name}, {"shape", shape}, {"dtype", name_of(node->examples[0].dtype())}});
    }
    for (const ModelPlan::Step& step : plan.steps)
      steps.push_back(step.node->module ? describe_call(step) : describe_operator(step));
    return {{"model", {{"inputs", inputs}, {"steps", steps}, {"outputs", plan.outputs}}}};
  }

  json describe_call(const ModelPlan::Step& step) {
    json inputs = json::array();
    for (std::size_t i = 0; i < step.node->input_count; ++i) inputs.push_back(nullptr);
    for (std::size_t i = 0; i < step.linked.size(); ++i)
      inputs[step.node->links[i].argument] = step.linked[i];
    return {{"module", add(*step.node->module)}, {"inputs", inputs}};
  }

  // An argument is a value, {"of": value of the plan}, {"list": values of the plan}, or {"constant": shape and dtype} of an
  // array that is in the state.
  static json describe_operator(const ModelPlan::Step& step) {
    const SymbolNode& node = *step.node;
    json arguments = json::object();
    for (std::size_t i = 0; i < node.values.size(); ++i) {
      const std::string& name = node.op->arguments[i].name;
      json linked = json::array();
      for (std::size_t j = 0; j < node.links.size(); ++j)
        if (node.links[j].argument == i) linked.push_back(step.linked[j]);
      const auto* const array = std::get_if<NDArray>(&node.values[i]);
      json value;
      if (!linked.empty())
        value = array ? json{{"of", linked[0]}} : json{{"list", linked}};
      else if (array)
        value = array->defined() ? describe_constant(*array) : json();
      else
        value = json_of(step.name + ": " + name, node.values[i]);
      if (!value.is_null()) arguments[name] = std::move(value);
    }
    return {{"operator", node.op->name}, {"arguments", arguments}};
  }

  static json describe_constant(const NDArray& array) {
    json shape = json::array();
    for (const std::int64_t size : array.shape()) shape.push_back(size);
    return {{"constant", {{"shape", shape}, {"dtype", name_of(array.dtype())}}}};
  }

  json modules_ = json::array();
  std::map<const ModuleNode*, std::size_t> indices_;
};

// Makes modules from their descriptions. Throws what nlohmann throws, Error and InvalidArgument.
class Reader {
 public:
  explicit Reader(const json& description) {
    if (description.at("version") != kVersion)
      throw Error("version " + description.at("version").dump() + "; this program knows version " +
                  std::to_string(kVersion));
    for (const json& one : description.at("modules")) {
      level_ = 1;
      modules_.push_back(make(one));
      levels_.push_back(level_);
    }
    root_ = module_at(index_in(description.at("root")));
  }
  std::shared_ptr<Module> root() const { return root_; }

 private:
  // A module that was made before; the one that is being made is one level above it.
  std::shared_ptr<Module> module_at(std::size_t index) {
    if (index < modules_.size()) {
      level_ = std::max(level_, levels_[index] + 1);
      if (level_ > kMostLevels)
        throw Error("modules stand inside each other more than " + std::to_string(kMostLevels) + " deep");
      return modules_[index];
    }
    throw Error("there is no module " + std::to_string(index) + " before module " +
                std::to_string(modules_.size()));
  }

  std::shared_ptr<Module> make(const json& described) {
    if (described.contains("layer")) {
      std::vector<NamedValue> named;
      for (const auto& [name, value] : described.at("arguments").items())
        named.push_back({name, value_of(value)});
      return make_layer(described.at("layer").get<std::string>(), {}, named, CallSite::current());
    }
    if (described.contains("sequential")) {
      const auto list = std::make_shared<Sequential>();
      for (const json& index : described.at("sequential")) list->add(module_at(index_in(index)));
      return list;
    }
    return make_model(described.at("model"));
  }

  std::shared_ptr<Module> make_model(const json& described) {
    std::vector<Symbol> values, outputs;
    for (const json& one : described.at("inputs")) {
      Shape shape;
      for (const json& size : one.at("shape"))
        shape.push_back(size.is_null() ? kInferred : static_cast<std::int64_t>(index_in(size)));
      values.push_back(input(one.at("name").get<std::string>(), shape,
                             dtype_from_name(one.at("dtype").get<std::string>()), CallSite::current()));
    }
    const std::vector<Symbol> inputs = values;
    for (const json& step : described.at("steps")) {
      const std::vector<Symbol> results =
          step.contains("module") ? call_module(step, values) : call_operator(step, values);
      values.insert(values.end(), results.begin(), results.end());
    }
    for (const json& value : described.at("outputs")) outputs.push_back(values.at(index_in(value)));
    return std::make_shared<Model>(inputs, outputs);
  }

  std::vector<Symbol> call_module(const json& step, const std::vector<Symbol>& values) {
    std::vector<Symbol> inputs;
    for (const json& value : step.at("inputs"))
      inputs.push_back(value.is_null() ? Symbol() : values.at(index_in(value)));
    return connect_all(module_at(index_in(step.at("module"))), inputs, CallSite::current());
  }

  static std::vector<Symbol> call_operator(const json& step, const std::vector<Symbol>& values) {
    std::vector<NamedSymbolValue> named;
    for (const auto& [name, value] : step.at("arguments").items()) {
      if (value.is_object() && value.contains("of")) {
        named.emplace_back(name, values.at(index_in(value.at("of"))));
      } else if (value.is_object() && value.contains("list")) {
        std::vector<Symbol> list;
        for (const json& one : value.at("list")) list.push_back(values.at(index_in(one)));
        named.emplace_back(name, std::move(list));
      } else if (value.is_object() && value.contains("constant")) {
        named.emplace_back(name, OperatorValue(constant(value.at("constant"))));
      } else {
        named.emplace_back(name, value_of(value));
      }
    }
    return connect_all(step.at("operator").get<std::string>(), {}, named, CallSite::current());
  }

  // An array like the constant, which gets its values with the rest of the state.
  static NDArray constant(const json& value) {
    Shape shape;
    for (const json& size : value.at("shape")) shape.push_back(static_cast<std::int64_t>(index_in(size)));
    return zeros(shape, dtype_from_name(value.at("dtype").get<std::string>()));
  }

  std::vector<std::shared_ptr<Module>> modules_;
  std::vector<std::size_t> levels_;  // of modules_: 1 for those without modules inside
  std::size_t level_ = 1;            // of the one that is being made
  std::shared_ptr<Module> root_;
};

using Entries = std::map<std::string, ModuleNode::Entry*>;

// All arrays by path, also those that state() lists under another one.
Entries entries_of(const Module& module) {
  Entries all;
  nn_detail::visit_entries(ModuleNode::of(module), [&](const std::string& path, ModuleNode::Entry& entry) {
    if (entry.kind != ModuleNode::Kind::unsaved_buffer) all[path] = &entry;
  });
  return all;
}

json frozen_in(const Module& module) {
  json frozen = json::array();
  nn_detail::visit_parameters(module, [&](const std::string& path, const NDArray& array) {
    if (!is_leaf(array)) frozen.push_back(path);
  });
  return frozen;
}

// {"1.weight": "0.weight"} for an array that has several names: the first one is in the state.
json shared_in(const Module& module) {
  json shared = json::object();
  const std::vector<Parameter> state = module.state();
  std::set<std::string> listed;
  for (const Parameter& one : state) listed.insert(one.name);
  for (const auto& [path, entry] : entries_of(module)) {
    if (listed.count(path)) continue;
    for (const Parameter& one : state)
      if (nn_detail::is_same(one.value, entry->array)) shared[path] = one.name;
  }
  return shared;
}

ModuleNode::Entry& entry_at(const Entries& entries, const std::string& path) {
  const auto found = entries.find(path);
  if (found == entries.end()) throw Error("the modules have no array '" + path + "'");
  return *found->second;
}

// Makes arrays of several names one again.
void share_listed(const Entries& entries, const json& shared) {
  for (const auto& [path, first] : shared.items()) {
    ModuleNode::Entry &of = entry_at(entries, path), &with = entry_at(entries, first.get<std::string>());
    if (of.array.shape() != with.array.shape() || of.array.dtype() != with.array.dtype())
      throw Error("'" + path + "' cannot be '" + first.get<std::string>() +
                  "', which has another shape or dtype");
    of.array.detach().assign(with.array.detach());
    if (of.kind == ModuleNode::Kind::parameter) of.array = with.array;
  }
  ++nn_detail::registrations;
}

void freeze_listed(const Entries& entries, const json& frozen) {
  for (const json& path : frozen) {
    ModuleNode::Entry& entry = entry_at(entries, path.get<std::string>());
    if (entry.kind == ModuleNode::Kind::parameter) set_requires_grad(entry.array, false);
  }
}

// Gives the state the values in the file, which has to have exactly these arrays.
void restore(const Entries& entries, const json& shared, const std::map<std::string, NDArray>& arrays) {
  const NoGrad no_grad;
  std::size_t used = 0;
  for (const auto& [path, entry] : entries) {
    if (shared.contains(path)) continue;
    const auto found = arrays.find(path);
    if (found == arrays.end()) throw Error("the array '" + path + "' is missing");
    const NDArray &from = found->second, &to = entry->array;
    if (from.shape() != to.shape() || from.dtype() != to.dtype())
      throw Error("'" + path + "' is " + name_of(from.dtype()) + " " + from.shape().to_string() +
                  "; its module has " + name_of(to.dtype()) + " " + to.shape().to_string());
    to.detach().assign(from);
    ++used;
  }
  if (arrays.size() != used)
    throw Error("there are " + std::to_string(arrays.size()) + " arrays for the " + std::to_string(used) +
                " of the modules");
}

}  // namespace

void save_model(const std::string& path, const Module& module, Where where) {
  const CallSite site(where);
  json description = Writer().description(module);
  description["frozen"] = frozen_in(module);
  description["shared"] = shared_in(module);
  Safetensors content;
  for (const Parameter& one : module.state()) content.arrays[one.name] = one.value.detach();
  content.metadata[kKey] = description.dump();
  save_safetensors(path, content, {.checksums = true}, where);
}

std::shared_ptr<Module> load_model(const std::string& path, Where where) {
  const CallSite site(where);
  const Safetensors content = load_safetensors(path, cpu(), where);
  const auto text = content.metadata.find(kKey);
  if (text == content.metadata.end())
    refuse_file(path, "it has arrays alone, and does not describe modules; want a file of save_model()");
  try {
    const json description = json::parse(text->second);
    const nn_detail::LoadedShapes shapes(content.arrays);
    const std::shared_ptr<Module> module = Reader(description).root();
    const Entries entries = entries_of(*module);
    restore(entries, description.at("shared"), content.arrays);
    share_listed(entries, description.at("shared"));
    freeze_listed(entries, description.at("frozen"));
    return module;
  } catch (const json::exception& error) {
    refuse_file(path, error.what());
  } catch (const std::out_of_range&) {
    refuse_file(path, "a step uses a value that no step before it has");
  } catch (const InvalidArgument& error) {
    refuse_file(path, error.message());
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    refuse_file(path, error.what());
  }
}

}  // namespace heddle
