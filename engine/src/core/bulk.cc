#include <cstdint>

#include <heddle/bulk.h>

#include "core/core.h"
#include "graph/graph_state.h"

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
      // Counting a reference for each access would cost more than a bulk saves, and ops of a bulk often share vars.
      VarState*& kept = kept_[reinterpret_cast<std::uintptr_t>(var) / sizeof(VarState) % kept_.size()];
      if (!var || kept == var) continue;
      vars_.emplace_back();
      retain(var);
      vars_.back() = Var::adopt(var);
      kept = var;
    }
  }
}

void Bulk::forget() noexcept {
  first_ = last_ = nullptr;
  vars_.clear();
  kept_.fill(nullptr);
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
    check_capture(&engine_.core());
  } catch (...) {
    discard();
    throw;
  }
  if (capturing()) {
    for (OpNode *op = first_, *next = nullptr; op; op = next) {
      next = op->next_ready();
      submit_or_record(&engine_.core(), op);
    }
  } else {
    engine_.core().submit_all(first_, last_);
  }
  forget();
}

void Bulk::discard() noexcept {
  while (OpNode* op = first_) {
    first_ = op->next_ready();
    engine_.core().return_room(op->bytes());
    destroy_closure(op);
    free_op(op);
  }
  forget();
}

}  // namespace heddle
