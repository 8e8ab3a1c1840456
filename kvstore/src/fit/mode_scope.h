// Restores the modes of a module and of all modules inside.
#pragma once

#include <utility>
#include <vector>

#include <heddle/module.h>

namespace heddle::fit_detail {

class ModeScope {
 public:
  explicit ModeScope(Module& module) { note(module); }
  ~ModeScope() { restore(); }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

  // A module's train() reaches those inside, which come behind it.
  void restore() {
    for (const auto& [module, mode] : modes_) module->train(mode);
  }

 private:
  void note(Module& module) {
    modes_.emplace_back(&module, module.training());
    for (const Module::Child& child : module.children()) {
      held_.push_back(child.module);
      note(*child.module);
    }
  }
  std::vector<std::pair<Module*, bool>> modes_;
  std::vector<std::shared_ptr<Module>> held_;
};

}  // namespace heddle::fit_detail
