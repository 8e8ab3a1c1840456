// Where the layers of a module stand, and what takes their results; and how other layers are put in their places.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <heddle/layer.h>
#include <heddle/model.h>
#include <heddle/sequential.h>

#include "module/module_node.h"

namespace heddle::nn_detail {

// The layer that a module is, if it is one of the library's and no class derived from one; else null.
const Layer* plain_layer(const Module& module);
bool has_hooks(const Module& module);

inline constexpr const char* kRootStays = "it is the whole module; put it into a Sequential";

// A module in a Sequential, a module or an operator in a Model, or a layer in another module.
struct LayerPlace {
  std::string path;                  // "0", "encoder.2", "dense_0"
  std::shared_ptr<Module> module{};  // null: an operator
  std::string op{};
  ModuleNode::Entry* entry = nullptr;  // of a Sequential
  Model* model = nullptr;              // the Model of which it is a step
  int calls = 1;                       // steps of the Model
  int result_axes = -1;                // of the result; -1: not known
  LayerPlace* next = nullptr;          // what alone takes the result, and nothing else
  LayerPlace* previous = nullptr;
  std::shared_ptr<Module> replacement{};
  bool removed = false;  // the results are the inputs

  bool is_root() const { return path.empty(); }  // a layer that is no part of anything
  bool replaceable() const { return entry || model; }
  const Layer* layer() const { return module ? plain_layer(*module) : nullptr; }
};

// All places in a module. The module outlives this object, and is not changed by others meanwhile.
class LayerPlaces {
 public:
  explicit LayerPlaces(Module& root);
  std::deque<LayerPlace>& all() { return places_; }
  // Puts replacements, and Identity for what is removed, in their places.
  void commit();

 private:
  LayerPlace& add(const std::string& path, const std::shared_ptr<Module>& module);
  void count_uses(ModuleNode& node);
  void walk(Module& module, const std::string& path);
  LayerPlace* walk_sequential(ModuleNode& list, const std::string& path, LayerPlace* before);
  void walk_model(Model& model, const std::string& path);
  Model rebuild(const Model& model) const;

  std::deque<LayerPlace> places_;
  std::unordered_set<const ModuleNode*> visited_, counted_;
  std::map<const ModuleNode*, int> uses_;                            // how many places hold a module
  std::vector<std::pair<Model*, std::vector<LayerPlace*>>> models_;  // the place of each step
};

// Gives a layer an array in place of the one that it has under this name: a parameter that is frozen or not, or a buffer.
void put_array(Module& layer, const char* name, NDArray array, bool frozen = false);
// A layer with these arguments, in inference, whose arrays are 0.
std::shared_ptr<Module> blank_layer(const std::string& name, const OperatorValues& arguments,
                                    const std::vector<Shape>& shapes);

}  // namespace heddle::nn_detail
