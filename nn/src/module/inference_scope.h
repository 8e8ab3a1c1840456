// InferenceScope: a module in inference, without a tape, for a while.
#pragma once

#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include <heddle/autograd.h>

#include "module/module_node.h"

namespace heddle::nn_detail {

// Sets the module and those inside it to inference, and back to what each one was.
class InferenceScope {
 public:
  explicit InferenceScope(Module& module) {
    note(ModuleNode::shared(module));
    module.train(false);
  }
  ~InferenceScope() {
    for (const auto& [node, training] : modes_) node->set_training(training);
  }
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;

 private:
  void note(const std::shared_ptr<ModuleNode>& node) {
    if (!known_.insert(node.get()).second) return;
    modes_.emplace_back(node, node->training.load(std::memory_order_relaxed));
    for (const ModuleNode::Entry& entry : node->entries)
      if (entry.module) note(ModuleNode::shared(*entry.module));
  }
  const NoGrad no_grad_{};
  std::unordered_set<const ModuleNode*> known_;
  // forward() may replace modules, so nodes are kept.
  std::vector<std::pair<std::shared_ptr<ModuleNode>, bool>> modes_;
};

}  // namespace heddle::nn_detail
