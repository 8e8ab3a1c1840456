#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/default_engine.h>
#include <heddle/graph.h>
#include <heddle/layer.h>

#include "layers/layer_table.h"
#include "layers/loaded_shapes.h"
#include "module/module_node.h"

namespace heddle {

using namespace nn_detail;

namespace nn_detail {

// What the copies of a layer share.
struct LayerState {
  const LayerInfo& info;
  OperatorValues values;
  std::vector<std::pair<std::string, OperatorValue>> more_sizes{};  // LayerCall::sizes
  std::vector<LayerRules::Array> more{};                            // MoreArrays of these values
  std::optional<Generator> generator{};  // for the first call of a layer with an unknown size
  std::recursive_mutex first_call{};     // a layer may call itself
  std::atomic<bool> complete{false};     // whether all sizes are known, and the arrays made

  // Null: the layer has no such argument.
  OperatorValue* find(std::string_view name) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (info.arguments[i].name == name) return &values[i];
    for (auto& [known, size] : more_sizes)
      if (known == name) return &size;
    return nullptr;
  }
  const OperatorValue& value(std::string_view name) {
    if (const OperatorValue* found = find(name)) return *found;
    throw Error(info.name + ": registered without the argument '" + std::string(name) + "'");
  }
  FindSize sizes() {
    return [this](std::string_view name) { return find(name); };
  }
  bool knows_sizes() const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (info.arguments[i].inferred && values[i].is_none()) return false;
    return true;
  }
  // Whether every layer of this kind has an array of this name.
  bool always_has(std::string_view name) const {
    for (std::size_t i = 0; i < count(); ++i)
      if (const LayerArray& one = array(i).described; one.name == name) return one.condition.empty();
    return false;
  }
  // The arrays of the description, and those behind them.
  std::size_t count() const { return info.arrays.size() + more.size(); }
  const LayerRules::Array& array(std::size_t i) const {
    return i < info.arrays.size() ? info.rules->arrays[i] : more[i - info.arrays.size()];
  }
  bool has(const LayerArray& array) {
    return array.condition.empty() || std::get<bool>(value(array.condition));
  }
};

}  // namespace nn_detail

namespace {

// What the first input has to be: "(batch, steps, 3)", or "(steps, batch, 3)" for a layer whose argument batch_first is false.
std::string wanted_input(LayerState& state) {
  std::string text = state.info.rules->input.to_string(state.sizes());
  const OperatorValue* const batch_first = state.find("batch_first");
  constexpr std::string_view kBegin = "(batch, steps,";
  if (batch_first && !std::get<bool>(*batch_first) && text.starts_with(kBegin))
    text.replace(0, kBegin.size(), "(steps, batch,");
  return text;
}

[[noreturn]] void refuse_removed(const Layer& layer, const char* name) {
  throw InvalidArgument(layer.to_string() + ": has no '" + name + "'; it was removed");
}

bool is_given(const OperatorValue* value) { return value && !value->is_none(); }

// The initial value of array i, on `place` if the layer was given no device but cpu(), the default. Sizes are known.
NDArray initial(LayerState& state, std::size_t i, Generator& generator, Device place = cpu()) {
  const LayerRules::Array& rule = state.array(i);
  const OperatorValue* const on = state.find("device");
  const Device device = is_given(on) && std::get<Device>(*on) != cpu() ? std::get<Device>(*on) : place;
  const Shape shape =
      ndarray_detail::in_name_of(state.info.name.c_str(), [&] { return rule.shape.shape(state.sizes()); });
  if (const LoadedShapes* const loaded = LoadedShapes::active()) {
    loaded->check(state.info.name, rule.described.name, shape);
    return zeros(shape, rule.dtype, device);
  }
  switch (rule.start) {
    case Start::weight:
      return init_weight(shape, std::get<std::string>(state.value("init")) == "he" ? Init::he : Init::xavier,
                         generator, device);
    case Start::normal:
      return generator.normal(shape, 0, real_value({state.value("stddev")}, 0), DType::f32, device);
    case Start::recurrent: {
      const double limit = 1 / std::sqrt(real_value({state.value("hidden_size")}, 0));
      return generator.uniform(shape, -limit, limit, DType::f32, device);
    }
    case Start::zeros:
      return zeros(shape, rule.dtype, device);
    case Start::ones:
      break;
  }
  return ones(shape, DType::f32, device);
}

// Lists and single numbers that stand for all axes become lists of the argument's length, from which shapes are made.
void widen_windows(LayerState& state) {
  for (std::size_t i = 0; i < state.values.size(); ++i) {
    const ArgumentInfo& argument = state.info.arguments[i];
    if (argument.kind != ArgumentKind::integers || argument.length == 0) continue;
    OperatorValue& value = state.values[i];
    if (std::holds_alternative<std::string>(value)) continue;  // a word in place of the numbers
    if (const auto* one = std::get_if<std::int64_t>(&value)) {
      value = Dims::filled(argument.length, *one);
    } else if (const Dims list = std::get<Dims>(value); list.size() == 1) {
      value = Dims::filled(argument.length, list[0]);
    } else if (list.size() != argument.length) {
      throw InvalidArgument(
          state.info.name + ": " + argument.name + " is " + value.to_string() + "; want " +
          (argument.length == 1 ? "1 number" : "1 or " + std::to_string(argument.length) + " numbers"));
    }
  }
}

// A list of equal numbers is printed as one.
std::string text_of(const OperatorValue& value) {
  const auto* const list = std::get_if<Dims>(&value);
  if (!list || list->empty()) return value.to_string();
  for (const std::int64_t one : *list)
    if (one != (*list)[0]) return value.to_string();
  return std::to_string((*list)[0]);
}

}  // namespace

const OperatorValue& LayerCall::value(std::string_view name) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (info->arguments[i].name == name) return values[i];
  throw Error(info->name + ": registered without the argument '" + std::string(name) + "'");
}

Layer::Layer(const LayerCall& call)
    : state_(std::make_shared<LayerState>(*call.info, call.values, call.sizes)) {
  const CallSite site(call.where);
  widen_windows(*state_);
  OperatorValue* const given = state_->find("generator");
  Generator& generator = is_given(given) ? *std::get<Generator*>(*given) : default_generator();
  if (given) *given = OperatorValue();  // it may be gone when the layer is called
  if (const MoreArrays& more = state_->info.rules->more_arrays; more.make)
    for (const ArraySpec& array : more.make(state_->sizes())) state_->more.emplace_back(array);
  const bool known = state_->knows_sizes();
  for (std::size_t i = 0; i < state_->count(); ++i) {
    const LayerArray& array = state_->array(i).described;
    if (!state_->has(array)) continue;
    if (!known) {
      ModuleNode::of(*this).entries.push_back(
          {.name = array.name,
           .kind = array.trained ? ModuleNode::Kind::parameter : ModuleNode::Kind::buffer,
           .pending = true});
    } else if (array.trained) {
      (void)parameter(array.name, initial(*state_, i, generator));
    } else {
      buffer(array.name, initial(*state_, i, generator));
    }
  }
  if (!known && given) state_->generator = generator.split(1).front();
  state_->complete.store(known, std::memory_order_release);
}

const LayerInfo& Layer::info() const { return state_->info; }

OperatorValues Layer::arguments() const { return state_->values; }

std::string Layer::to_string() const {
  std::string text;
  const LayerInfo& layer = state_->info;
  for (std::size_t i = 0; i < layer.arguments.size(); ++i) {
    const ArgumentInfo& argument = layer.arguments[i];
    const OperatorValue& value = state_->values[i];
    if (argument.kind == ArgumentKind::generator || argument.kind == ArgumentKind::device ||
        argument.name == "init")
      continue;
    std::string one = text_of(value);
    if (argument.default_value) {
      if (one == text_of(*argument.default_value)) continue;
      const auto* const flag = std::get_if<bool>(&value);
      one = flag ? (*flag ? argument.name : "no " + argument.name) : argument.name + " " + one;
    }
    text += (text.empty() ? "" : ", ") + one;
  }
  return text.empty() ? layer.name : layer.name + "(" + text + ")";
}

const OperatorValue& Layer::value(const char* name) const { return state_->value(name); }
bool Layer::boolean(const char* name) const { return std::get<bool>(state_->value(name)); }
std::int64_t Layer::integer(const char* name) const { return std::get<std::int64_t>(state_->value(name)); }
double Layer::real(const char* name) const { return real_value({state_->value(name)}, 0); }
const std::string& Layer::text(const char* name) const { return std::get<std::string>(state_->value(name)); }

Dims Layer::integers(const char* name, int count) const {
  const OperatorValue& value = state_->value(name);
  const auto* const one = std::get_if<std::int64_t>(&value);
  return one ? Dims::filled(count, *one) : std::get<Dims>(value);
}

std::optional<std::int64_t> Layer::optional_integer(const char* name) const {
  if (state_->value(name).is_none()) return std::nullopt;
  return integer(name);
}

Dims Layer::list(const char* name) const {
  const OperatorValue& value = state_->value(name);
  return value.is_none() ? Dims() : integers(name, 1);
}

NDArray Layer::array(const char* name) const {
  const ModuleNode::Entry* const entry = ModuleNode::of(*this).find(name);
  if (entry && (entry->array.defined() || entry->pending)) return entry->array;
  if (state_->always_has(name)) refuse_removed(*this, name);
  return {};
}

std::shared_ptr<Module> Layer::inside(const char* name) const {
  const ModuleNode::Entry* const entry = ModuleNode::of(*this).find(name);
  if (!entry || !entry->module) refuse_removed(*this, name);
  return entry->module;
}

void Layer::refuse_input(const NDArray& x, const std::string& wanted, const std::string& name) const {
  throw InvalidArgument(to_string() + ": " + name + " is " + name_of(x.dtype()) + " " +
                        x.shape().to_string() + ", wanted is " + wanted);
}

// Makes the arrays that are pending, on the engine and device of x. A class of the user's may have replaced some, or removed them.
// Returns the names of those that it made.
std::vector<std::string> Layer::make_pending(const NDArray& x) {
  const EngineScope scope(x.engine());
  const NoGrad no_grad;
  ModuleNode& node = ModuleNode::of(*this);
  Generator generator = state_->generator.value_or(Generator());
  std::vector<std::pair<ModuleNode::Entry*, NDArray>> made;
  for (std::size_t i = 0; i < state_->count(); ++i) {
    const LayerArray& array = state_->array(i).described;
    ModuleNode::Entry* const entry = node.find(array.name);
    if (!entry || !entry->pending) continue;
    NDArray value = initial(*state_, i, generator, x.device());
    if (array.trained) set_requires_grad(value, !entry->frozen);
    made.emplace_back(entry, std::move(value));
  }
  std::vector<std::string> names;
  for (auto& [entry, value] : made) {
    names.push_back(entry->name);
    entry->array = std::move(value);
    entry->pending = false;
  }
  ++registrations;
  return names;
}

// Makes arrays pending again.
void Layer::unmake(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    ModuleNode::Entry* const entry = ModuleNode::of(*this).find(name);
    if (!entry) continue;
    entry->array = NDArray();
    entry->pending = true;
  }
  ++registrations;
}

void Layer::check_count(std::size_t count) const {
  const std::size_t most = 1 + state_->info.more_inputs.size();
  if (count >= 1 && count <= most) return;
  throw InvalidArgument(to_string() + ": " + std::to_string(count) + " arguments; want " +
                        (most == 1 ? "one array" : "1 to " + std::to_string(most)));
}

// Compares shapes with the rules. Sizes that were not known get the values that the first shape has.
void Layer::check_inputs(std::span<const NDArray> inputs) {
  const LayerRules& rules = *state_->info.rules;
  const FindSize sizes = state_->sizes();
  if (rules.has_input && !rules.input.match(inputs[0].shape(), sizes))
    refuse_input(inputs[0], wanted_input(*state_));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const std::optional<ShapeRule>& rule = rules.more_inputs[i - 1];
    if (inputs[i].defined() && rule && !rule->match(inputs[i].shape(), sizes))
      refuse_input(inputs[i], rule->to_string(sizes), state_->info.more_inputs[i - 1].name);
  }
}

// Checks the inputs and returns compute(). The first call finds the sizes that are not known, and makes the arrays. If it throws,
// nothing has changed.
template <class Compute> auto Layer::checked_call(std::span<const NDArray> inputs, const Compute& compute) {
  if (!inputs[0].defined()) ndarray_detail::refuse_undefined(to_string().c_str());
  if (state_->complete.load(std::memory_order_acquire)) {
    check_inputs(inputs);
    return compute();
  }
  const std::lock_guard lock(state_->first_call);
  if (is_capturing() && !state_->complete.load(std::memory_order_relaxed))
    throw InvalidArgument(to_string() + ": its first call finds sizes; make it before a graph is captured");
  const OperatorValues before = state_->values;
  std::vector<std::string> made;
  try {
    check_inputs(inputs);
    complete_arguments(state_->info, state_->values);  // refuses a size of 0
    made = make_pending(inputs[0]);
    auto results = compute();
    state_->complete.store(true, std::memory_order_release);
    return results;
  } catch (...) {
    if (!state_->complete.load(std::memory_order_relaxed)) {
      unmake(made);
      state_->values = before;
    }
    throw;
  }
}

NDArray Layer::forward(const NDArray& x) {
  return checked_call({&x, 1}, [&] { return compute(x); });
}

std::vector<NDArray> Layer::forward_all(std::span<const NDArray> inputs) {
  check_count(inputs.size());
  return checked_call(inputs, [&] {
    std::vector<NDArray> all(inputs.begin(), inputs.end());
    all.resize(1 + state_->info.more_inputs.size());
    return compute_all(all);
  });
}

NDArray Layer::compute(const NDArray& x) {
  std::vector<NDArray> all(1 + state_->info.more_inputs.size());
  all[0] = x;
  return compute_all(all).front();
}

std::vector<NDArray> Layer::compute_all(std::span<const NDArray> inputs) { return {compute(inputs[0])}; }

}  // namespace heddle
