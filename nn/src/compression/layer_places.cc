#include "compression/layer_places.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/layer_registry.h>
#include <heddle/shape_ops.h>

#include "layers/loaded_shapes.h"
#include "model/plan.h"

namespace heddle::nn_detail {

const Layer* plain_layer(const Module& module) {
  const Layer* const layer = module.as_layer();
  return layer && layer->info().type && typeid(*layer) == *layer->info().type ? layer : nullptr;
}

bool has_hooks(const Module& module) {
  const ModuleNode& node = ModuleNode::of(module);
  return !node.hooks(true).empty() || !node.hooks(false).empty();
}

namespace {

std::string inside(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

void link(LayerPlace* before, LayerPlace& after) {
  if (!before) return;
  before->next = &after;
  after.previous = before;
}

// The arguments of an operator's step, with symbols in place of what is linked.
std::vector<SymbolValue> step_arguments(const ModelPlan::Step& step, const std::vector<Symbol>& values) {
  const SymbolNode& node = *step.node;
  std::vector<SymbolValue> arguments(node.values.begin(), node.values.end());
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    const SymbolNode::Link& link = node.links[i];
    const Symbol& symbol = values.at(step.linked[i]);
    if (!std::holds_alternative<std::vector<NDArray>>(node.values[link.argument])) {
      arguments[link.argument] = symbol;
      continue;
    }
    auto* list = std::get_if<std::vector<Symbol>>(&arguments[link.argument]);
    if (!list) list = &arguments[link.argument].emplace<std::vector<Symbol>>();
    list->resize(std::max(list->size(), link.element + 1));
    (*list)[link.element] = symbol;
  }
  return arguments;
}

}  // namespace

LayerPlaces::LayerPlaces(Module& root) {
  count_uses(ModuleNode::of(root));
  if (plain_layer(root)) add("", std::shared_ptr<Module>(std::shared_ptr<void>(), &root));
  walk(root, "");
}

void LayerPlaces::count_uses(ModuleNode& node) {
  if (!counted_.insert(&node).second) return;
  for (const ModuleNode::Entry& entry : node.entries) {
    if (!entry.module) continue;
    ++uses_[&ModuleNode::of(*entry.module)];
    count_uses(ModuleNode::of(*entry.module));
  }
}

LayerPlace& LayerPlaces::add(const std::string& path, const std::shared_ptr<Module>& module) {
  places_.push_back({.path = path, .module = module});
  return places_.back();
}

// Adds the places inside a module.
void LayerPlaces::walk(Module& module, const std::string& path) {
  ModuleNode& node = ModuleNode::of(module);
  if (!visited_.insert(&node).second) return;
  if (dynamic_cast<Sequential*>(&module)) {
    walk_sequential(node, path, nullptr);
  } else if (auto* const model = dynamic_cast<Model*>(&module)) {
    walk_model(*model, path);
  } else {
    for (const ModuleNode::Entry& entry : node.entries) {
      if (!entry.module) continue;
      if (plain_layer(*entry.module)) add(inside(path, entry.name), entry.module);
      walk(*entry.module, inside(path, entry.name));
    }
  }
}

// Returns the last place. A Sequential inside is like its modules, unless it also stands elsewhere, or has hooks.
LayerPlace* LayerPlaces::walk_sequential(ModuleNode& list, const std::string& path, LayerPlace* before) {
  for (ModuleNode::Entry& entry : list.entries) {
    const std::string name = inside(path, entry.name);
    ModuleNode& node = ModuleNode::of(*entry.module);
    if (dynamic_cast<Sequential*>(entry.module.get()) && uses_[&node] == 1 && !has_hooks(*entry.module) &&
        visited_.insert(&node).second) {
      before = walk_sequential(node, name, before);
      continue;
    }
    LayerPlace& place = add(name, entry.module);
    place.entry = &entry;
    link(before, place);
    before = &place;
    walk(*entry.module, name);
  }
  return before;
}

void LayerPlaces::walk_model(Model& model, const std::string& path) {
  const ModelPlan& plan = ModelPlan::of(model);
  std::vector<int> uses(plan.value_count);
  std::vector<LayerPlace*> makers(plan.value_count), of_steps;
  std::map<const ModuleNode*, LayerPlace*> by_module;
  for (const std::size_t value : plan.outputs) ++uses[value];
  for (const ModelPlan::Step& step : plan.steps) {
    for (const std::size_t value : step.linked) ++uses[value];
    LayerPlace*& known = by_module[step.node->module ? &ModuleNode::of(*step.node->module) : nullptr];
    if (step.node->module && known) {
      ++known->calls;
    } else {
      known = &add(inside(path, step.name), step.node->module);
      known->model = &model;
      if (step.node->op) known->op = step.node->op->name;
    }
    of_steps.push_back(known);
    if (step.node->examples.size() == 1) {
      makers[step.first_result] = known;
      known->result_axes = step.node->examples[0].ndim();
    }
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const ModelPlan::Step& step = plan.steps[i];
    if (step.linked.size() != 1 || uses[step.linked[0]] != 1 || of_steps[i]->calls != 1) continue;
    LayerPlace* const maker = makers[step.linked[0]];
    if (maker && maker->calls == 1) link(maker, *of_steps[i]);
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].node->module) walk(*plan.steps[i].node->module, of_steps[i]->path);
  models_.emplace_back(&model, std::move(of_steps));
}

// The model with other steps.
Model LayerPlaces::rebuild(const Model& model) const {
  const auto known =
      std::find_if(models_.begin(), models_.end(), [&](const auto& one) { return one.first == &model; });
  const ModelPlan& plan = ModelPlan::of(model);
  std::vector<Symbol> values, outputs;
  for (const auto& node : plan.inputs) values.push_back(SymbolNode::outputs(node).front());
  const std::vector<Symbol> inputs = values;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const ModelPlan::Step& step = plan.steps[i];
    const LayerPlace& place = *known->second[i];
    if (place.removed) {
      values.push_back(values.at(step.linked.at(0)));
      continue;
    }
    std::vector<Symbol> results;
    if (step.node->module) {
      std::vector<Symbol> arguments(step.node->input_count);
      for (std::size_t j = 0; j < step.linked.size(); ++j)
        arguments[step.node->links[j].argument] = values.at(step.linked[j]);
      results = connect_all(place.replacement ? place.replacement : step.node->module, arguments,
                            CallSite::current());
    } else {
      results = connect_all(step.node->op->name, step_arguments(step, values), {}, CallSite::current());
    }
    values.insert(values.end(), results.begin(), results.end());
  }
  for (const std::size_t value : plan.outputs) outputs.push_back(values.at(value));
  return Model(inputs, outputs);
}

// What may throw comes first.
void LayerPlaces::commit() {
  std::vector<std::pair<Model*, Model>> rebuilt;
  for (const auto& [model, steps] : models_)
    if (std::any_of(steps.begin(), steps.end(),
                    [](const LayerPlace* place) { return place->replacement || place->removed; }))
      rebuilt.emplace_back(model, rebuild(*model));
  for (LayerPlace& place : places_)
    if (place.entry && place.removed) {
      place.replacement = std::make_shared<Identity>();
      place.replacement->train(false);
    }
  for (const auto& [model, by] : rebuilt) ModelPlan::replace(*model, by);
  for (LayerPlace& place : places_)
    if (place.entry && place.replacement) place.entry->module = place.replacement;
  ++registrations;
}

void put_array(Module& layer, const char* name, NDArray array, bool frozen) {
  ModuleNode::Entry* const entry = ModuleNode::of(layer).find(name);
  if (entry->kind == ModuleNode::Kind::parameter) set_requires_grad(array, !frozen);
  entry->array = std::move(array);
  ++registrations;
}

std::shared_ptr<Module> blank_layer(const std::string& name, const OperatorValues& arguments,
                                    const std::vector<Shape>& shapes) {
  std::map<std::string, NDArray> like;
  for (const Shape& shape : shapes) like[std::to_string(like.size())] = broadcast_to(zeros(Shape{}), shape);
  const LoadedShapes loaded(like);
  const std::shared_ptr<Module> made = make_layer(*find_layer(name), arguments, {}, CallSite::current());
  made->train(false);
  return made;
}

}  // namespace heddle::nn_detail
