#include <heddle/bulk.h>

#include "core.h"

namespace heddle {

using namespace detail;

Bulk::~Bulk() {
  try {
    commit();
  } catch (const Error&) {
  }
}

void Bulk::keep(const Access& access) {
  for (const VarList* list : {&access.read, &access.mutate}) {
    for (VarState* var : *list) {
      // Neighbours often share vars, and counting references is most of what a bulk costs.
      if (!var || (!vars_.empty() && vars_.back().state() == var)) continue;
      vars_.emplace_back();
      retain(var);
      vars_.back() = Var::adopt(var);
    }
  }
}

void Bulk::add(OpNode* op) {
  op->set_next_ready(nullptr);
  if (last_) {
    last_->set_next_ready(op);
  } else {
    first_ = op;
  }
  last_ = op;
  if (engine_.core().bounded()) commit();
}

void Bulk::push(const PreparedOp& op) { add(engine_.make_op(op)); }

void Bulk::commit() {
  if (!first_) return;
  try {
    engine_.core().check_open();
  } catch (...) {
    discard();
    throw;
  }
  engine_.core().submit_all(first_, last_);
  first_ = last_ = nullptr;
  vars_.clear();
}

void Bulk::discard() noexcept {
  last_ = nullptr;
  while (OpNode* op = first_) {
    first_ = op->next_ready();
    engine_.core().return_room(op->bytes());
    destroy_closure(op);
    free_op(op);
  }
  vars_.clear();
}

}  // namespace heddle
