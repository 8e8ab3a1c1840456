#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "model/plan.h"
#include "module/module_node.h"

namespace heddle {

using nn_detail::ModelPlan;
using nn_detail::ModuleNode;
using nn_detail::SymbolNode;

namespace {

// "layer_norm" of "LayerNorm(8)".
std::string snake_case(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, text.find_first_of("({"))) {
    if (std::isupper(static_cast<unsigned char>(c)) && !name.empty() && name.back() != '_') name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

void check_input(const SymbolNode& wanted, const NDArray& given) {
  const Shape& shape = wanted.shape;
  bool fits = given.shape().size() == shape.size() && given.dtype() == wanted.examples[0].dtype();
  for (int i = 0; fits && i < shape.size(); ++i) fits = shape[i] == kInferred || shape[i] == given.shape()[i];
  if (fits) return;
  std::string sizes;
  for (const std::int64_t size : shape)
    sizes += (sizes.empty() ? "" : ", ") + (size == kInferred ? "any" : std::to_string(size));
  throw InvalidArgument("Model: the input '" + wanted.name + "' is " + name_of(given.dtype()) + " " +
                        given.shape().to_string() + ", wanted is " + name_of(wanted.examples[0].dtype()) +
                        " (" + sizes + ")");
}

}  // namespace

ModelPlan::ModelPlan(std::vector<Symbol> given, const std::vector<Symbol>& wanted) {
  add_inputs(given);
  if (wanted.empty()) throw InvalidArgument("Model: there are no outputs");
  for (const Symbol& symbol : wanted) {
    if (!symbol.defined()) throw InvalidArgument("Model: an output is undefined");
    add(SymbolNode::of(symbol));
    outputs.push_back(first_values_.at(SymbolNode::of(symbol).get()) + SymbolNode::output_of(symbol));
  }
  std::set<std::size_t> used(outputs.begin(), outputs.end());
  for (const Step& step : steps) used.insert(step.linked.begin(), step.linked.end());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!used.count(i)) throw InvalidArgument("Model: no output needs the input '" + inputs[i]->name + "'");
  find_last_uses();
}

void ModelPlan::add_inputs(const std::vector<Symbol>& given) {
  if (given.empty()) throw InvalidArgument("Model: there are no inputs");
  std::set<std::string> names;
  for (const Symbol& symbol : given) {
    if (!symbol.defined()) throw InvalidArgument("Model: an input is undefined");
    const auto& node = SymbolNode::of(symbol);
    if (!node->is_input())
      throw InvalidArgument("Model: an input is the result of a call; want one of input()");
    if (!names.insert(node->name).second)
      throw InvalidArgument("Model: there are two inputs '" + node->name + "'");
    first_values_[node.get()] = value_count++;
    inputs.push_back(node);
  }
}

// Adds what the node needs, and then the node. A loop in place of a recursion: models may be deep.
void ModelPlan::add(const std::shared_ptr<const SymbolNode>& wanted) {
  std::vector<std::pair<std::shared_ptr<const SymbolNode>, std::size_t>> open{{wanted, 0}};
  while (!open.empty()) {
    auto& [node, next] = open.back();
    if (first_values_.count(node.get())) {
      open.pop_back();
    } else if (node->is_input()) {
      throw InvalidArgument("Model: an output needs the input '" + node->name + "', which is not listed");
    } else if (next < node->links.size()) {
      const auto needed = SymbolNode::of(node->links[next++].from);
      open.emplace_back(needed, 0);
    } else {
      Step step{.node = node, .name = name_of(*node), .linked = {}, .first_result = value_count};
      for (const SymbolNode::Link& link : node->links)
        step.linked.push_back(first_values_.at(SymbolNode::of(link.from).get()) +
                              SymbolNode::output_of(link.from));
      first_values_[node.get()] = value_count;
      value_count += node->examples.size();
      steps.push_back(std::move(step));
      open.pop_back();
    }
  }
}

std::string ModelPlan::name_of(const SymbolNode& node) {
  const auto next = [&](const std::string& name) { return name + "_" + std::to_string(counts_[name]++); };
  if (node.op) return next(node.op->name);
  std::string& name = module_names_[&ModuleNode::of(*node.module)];
  if (name.empty()) name = next(snake_case(node.module->to_string()));
  return name;
}

void ModelPlan::find_last_uses() {
  std::set<std::size_t> used(outputs.begin(), outputs.end());
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    for (std::size_t i = 0; i < step->node->examples.size(); ++i)
      if (used.insert(step->first_result + i).second) step->last.push_back(step->first_result + i);
    for (const std::size_t value : step->linked)
      if (used.insert(value).second) step->last.push_back(value);
  }
}

void ModelPlan::replace(Model& model, const Model& by) {
  *model.plan_ = *by.plan_;
  ModuleNode::of(model).entries = ModuleNode::of(by).entries;
  ++nn_detail::registrations;
}

Model::Model(std::vector<Symbol> inputs, std::vector<Symbol> outputs)
    : plan_(std::make_shared<ModelPlan>(std::move(inputs), outputs)) {
  std::set<std::string> names;
  for (const ModelPlan::Step& step : plan_->steps)
    if (step.node->module && names.insert(step.name).second) child(step.name, step.node->module);
  for (const ModelPlan::Step& step : plan_->steps) {
    for (std::size_t i = 0; i < step.node->values.size(); ++i) {
      const auto* const array = std::get_if<NDArray>(&step.node->values[i]);
      const bool linked = std::any_of(step.node->links.begin(), step.node->links.end(),
                                      [&](const auto& link) { return link.argument == i; });
      if (array && array->defined() && !linked)
        buffer(step.name + "_" + step.node->op->arguments[i].name, *array);
    }
  }
}

std::vector<ModelInput> Model::inputs() const {
  std::vector<ModelInput> all;
  for (const auto& node : plan_->inputs) all.push_back({node->name, node->shape, node->examples[0].dtype()});
  return all;
}

std::vector<std::string> Model::input_names() const {
  std::vector<std::string> names;
  for (const auto& node : plan_->inputs) names.push_back(node->name);
  return names;
}

std::size_t Model::output_count() const { return plan_->outputs.size(); }

NDArray Model::forward(const NDArray& x) {
  std::vector<NDArray> results = forward_all(std::span(&x, 1));
  if (results.size() == 1) return results.front();
  throw InvalidArgument("Model: it has " + std::to_string(results.size()) + " outputs; call run()");
}

std::vector<NDArray> Model::forward_all(std::span<const NDArray> inputs) {
  const ModelPlan& plan = *plan_;
  if (inputs.size() != plan.inputs.size())
    throw InvalidArgument("Model: " + std::to_string(inputs.size()) + " inputs; want " +
                          std::to_string(plan.inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined())
      ndarray_detail::refuse_undefined(("Model: '" + plan.inputs[i]->name + "'").c_str());
    check_input(*plan.inputs[i], inputs[i]);
  }
  std::vector<NDArray> values(inputs.begin(), inputs.end());
  values.resize(plan.value_count);
  for (const ModelPlan::Step& step : plan.steps) {
    std::vector<NDArray> linked;
    for (const std::size_t value : step.linked) linked.push_back(values[value]);
    std::vector<NDArray> results;
    try {
      results = step.node->compute(std::move(linked));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(step.name + ": " + error.message());
    }
    if (results.size() != step.node->examples.size())
      throw InvalidArgument(step.name + ": " + std::to_string(results.size()) + " results; it had " +
                            std::to_string(step.node->examples.size()) + " when the model was made");
    std::move(results.begin(), results.end(),
              values.begin() + static_cast<std::ptrdiff_t>(step.first_result));
    for (const std::size_t value : step.last) values[value] = NDArray();
  }
  std::vector<NDArray> outputs;
  for (const std::size_t value : plan.outputs) outputs.push_back(values[value]);
  return outputs;
}

std::string Model::to_string() const {
  std::vector<std::string> names = input_names();
  std::string text = "Model{";
  for (const ModelPlan::Step& step : plan_->steps) {
    std::string arguments;
    for (const std::size_t value : step.linked) arguments += (arguments.empty() ? "" : ", ") + names[value];
    const std::size_t count = step.node->examples.size();
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(step.name + (count == 1 ? "" : "[" + std::to_string(i) + "]"));
    const std::string call =
        step.node->op ? step.node->op->name : nn_detail::indented(step.node->module->to_string());
    text += "\n  " + step.name + " = " + call + (step.node->op ? "(" : " of (") + arguments + ")";
  }
  std::string results;
  for (const std::size_t value : plan_->outputs) results += (results.empty() ? "" : ", ") + names[value];
  return text + "\n  -> " + results + "\n}";
}

}  // namespace heddle
