#include "model/module_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <heddle/layer.h>
#include <heddle/sequential.h>

#include "model/plan.h"
#include "module/inference_scope.h"

namespace heddle::nn_detail {

namespace {

// A result of a node, and its value if the module is called.
struct Value {
  std::size_t node = 0;
  NDArray array{};
};
using Values = std::vector<Value>;

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

std::int64_t parameters_of(const Module& module) {
  try {
    std::set<std::string> paths;
    visit_parameters(module, [&](const std::string& path, const NDArray&) { paths.insert(path); });
    std::int64_t count = 0;
    for (const Parameter& one : module.state())
      if (paths.count(one.name)) count += one.value.size();
    return count;
  } catch (const InvalidArgument&) {  // a size that the first call finds
    return -1;
  }
}

class Walk {
 public:
  explicit Walk(bool calls) : calls_(calls) {}
  std::vector<GraphNode> take() { return std::move(nodes_); }

  Value add_input(const std::string& name, const NDArray& array, const std::optional<Shape>& shape) {
    GraphNode node{.kind = GraphNode::Kind::input, .path = unique(name), .name = "input", .text = name};
    node.outputs = {array.defined() ? array.shape() : shape};
    nodes_.push_back(std::move(node));
    return {nodes_.size() - 1, array};
  }

  // Adds what the module is made of. `known`: the shapes of its results, if they are known and the module is not called.
  Values add(Module& module, const std::string& path, const Values& inputs,
             const std::vector<std::optional<Shape>>& known) {
    if (auto* const list = dynamic_cast<Sequential*>(&module); list && list->size() > 0 && inputs.size() == 1)
      return add_sequential(*list, path, inputs, known);
    if (auto* const model = dynamic_cast<Model*>(&module)) return add_model(*model, path, inputs);
    GraphNode node{.path = unique(path.empty() ? "net" : path)};
    node.outputs = known;
    return finish(std::move(node), inputs, &module,
                  [&](std::span<const NDArray> arrays) { return module.run(arrays, CallSite::current()); });
  }
  void mark_outputs(const Values& outputs) {
    for (const Value& one : outputs) nodes_[one.node].is_output = true;
  }

 private:
  Values add_sequential(Sequential& list, const std::string& path, Values values,
                        const std::vector<std::optional<Shape>>& known) {
    for (std::size_t i = 0; i < list.size(); ++i)
      values = add(list[i], joined(path, std::to_string(i)), {values.at(0)},
                   i + 1 == list.size() ? known : std::vector<std::optional<Shape>>{});
    return values;
  }

  Values add_model(const Model& model, const std::string& path, const Values& inputs) {
    const ModelPlan& plan = ModelPlan::of(model);
    if (inputs.size() != plan.inputs.size())
      throw InvalidArgument("Model: " + std::to_string(inputs.size()) + " inputs; want " +
                            std::to_string(plan.inputs.size()));
    const bool any_batch = std::all_of(plan.inputs.begin(), plan.inputs.end(), [](const auto& node) {
      return node->shape.size() > 0 && node->shape[0] == kInferred;
    });
    std::vector<Value> values(inputs);
    for (const ModelPlan::Step& step : plan.steps) {
      Values linked;
      for (const std::size_t value : step.linked) linked.push_back(values.at(value));
      std::vector<std::optional<Shape>> known;
      for (const NDArray& example : step.node->examples) {
        Shape shape = example.shape();
        if (any_batch && shape.size() > 0 && shape[0] == 2) shape[0] = kInferred;
        known.push_back(shape);
      }
      const std::string name = joined(path, step.name);
      Values results = step.node->module ? add(*step.node->module, name, in_order(*step.node, linked), known)
                                         : add_operator(step, name, linked, known);
      results.resize(step.node->examples.size(), results.empty() ? Value{} : results.back());
      values.insert(values.end(), results.begin(), results.end());
    }
    Values outputs;
    for (const std::size_t value : plan.outputs) outputs.push_back(values.at(value));
    return outputs;
  }

  // The inputs of a module's call, of which the missing ones in front of others are left out.
  static Values in_order(const SymbolNode& node, const Values& linked) {
    Values inputs(node.input_count, Value{kMissing});
    for (std::size_t i = 0; i < linked.size(); ++i) inputs[node.links[i].argument] = linked[i];
    return inputs;
  }

  Values add_operator(const ModelPlan::Step& step, const std::string& path, const Values& linked,
                      const std::vector<std::optional<Shape>>& known) {
    GraphNode node{.kind = GraphNode::Kind::op,
                   .path = unique(path),
                   .name = step.node->op->name,
                   .text = step.node->op->name};
    node.outputs = known;
    return finish(std::move(node), linked, nullptr, [&](std::span<const NDArray> arrays) {
      return step.node->compute({arrays.begin(), arrays.end()});
    });
  }

  // Adds the node, and calls it if the module is called.
  template <class Call>
  Values finish(GraphNode node, const Values& inputs, const Module* module, const Call& call) {
    std::vector<NDArray> arrays;
    for (const Value& one : inputs) {
      if (one.node != kMissing) node.inputs.push_back(one.node);
      arrays.push_back(one.array);
    }
    std::vector<NDArray> results;
    if (calls_) {
      results = call(arrays);
      node.outputs.clear();
      for (const NDArray& one : results)
        node.outputs.push_back(one.defined() ? std::optional(one.shape()) : std::nullopt);
    }
    if (module) {  // now that a call has found sizes
      const std::string text = module->to_string();
      node.text = text.substr(0, text.find('{'));
      node.name = node.text.substr(0, node.text.find('('));
      node.parameters = parameters_of(*module);
    }
    if (node.outputs.empty()) node.outputs.emplace_back();
    Values values(node.outputs.size(), {nodes_.size(), NDArray()});
    for (std::size_t i = 0; i < results.size(); ++i) values[i].array = results[i];
    nodes_.push_back(std::move(node));
    return values;
  }

  std::string unique(const std::string& path) {
    const int count = paths_[path]++;
    return count == 0 ? path : unique(path + "_" + std::to_string(count));
  }

  static constexpr std::size_t kMissing = static_cast<std::size_t>(-1);
  const bool calls_;
  std::vector<GraphNode> nodes_;
  std::map<std::string, int> paths_;
};

}  // namespace

std::vector<GraphNode> module_graph(Module& module, std::span<const NDArray> inputs) {
  const InferenceScope scope(module);
  Walk walk(!inputs.empty());
  Values values;
  if (const auto* const model = dynamic_cast<const Model*>(&module)) {
    const ModelPlan& plan = ModelPlan::of(*model);
    if (!inputs.empty() && inputs.size() != plan.inputs.size())
      throw InvalidArgument("Model: " + std::to_string(inputs.size()) + " inputs; want " +
                            std::to_string(plan.inputs.size()));
    for (std::size_t i = 0; i < plan.inputs.size(); ++i)
      values.push_back(walk.add_input(plan.inputs[i]->name, inputs.empty() ? NDArray() : inputs[i],
                                      plan.inputs[i]->shape));
  } else {
    const Layer* const layer = module.as_layer();
    for (std::size_t i = 0; i < std::max<std::size_t>(1, inputs.size()); ++i) {
      const bool named = layer && i > 0 && i <= layer->info().more_inputs.size();
      values.push_back(walk.add_input(i == 0  ? "x"
                                      : named ? layer->info().more_inputs[i - 1].name
                                              : "x" + std::to_string(i),
                                      inputs.empty() ? NDArray() : inputs[i], std::nullopt));
    }
  }
  walk.mark_outputs(walk.add(module, "", values, {}));
  return walk.take();
}

}  // namespace heddle::nn_detail
