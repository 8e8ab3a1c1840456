// The order in which a model computes its nodes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/symbol.h"

namespace heddle::nn_detail {

struct ModelPlan {
  // Values are numbered: those of the inputs first, then the results of one step after the other.
  struct Step {
    std::shared_ptr<const SymbolNode> node;
    std::string name;                 // "dense_0"; a module that is called again has the same
    std::vector<std::size_t> linked;  // values of the node's links
    std::size_t first_result = 0;     // the value that the first of its results is
    std::vector<std::size_t> last{};  // values that no later step uses, nor the model's outputs
  };

  ModelPlan(std::vector<Symbol> inputs, const std::vector<Symbol>& outputs);
  static const ModelPlan& of(const Model& model) { return *model.plan_; }
  // Gives a model the steps and the modules of another one. Copies of the model share them, and keep its hooks and its mode.
  static void replace(Model& model, const Model& by);

  std::vector<std::shared_ptr<const SymbolNode>> inputs;
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;
  std::size_t value_count = 0;

 private:
  using Key = std::pair<const SymbolNode*, std::size_t>;
  void add_inputs(const std::vector<Symbol>& given);
  void add(const std::shared_ptr<const SymbolNode>& node);
  void find_last_uses();
  std::string name_of(const SymbolNode& node);

  std::map<const SymbolNode*, std::size_t> first_values_;  // of the nodes that have been added
  std::map<std::string, int> counts_;                      // how many steps have names that begin so
  std::map<const void*, std::string> module_names_;
};

}  // namespace heddle::nn_detail
