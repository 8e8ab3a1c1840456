// Bulk: many pushes that take effect at once.
//
//   heddle::Bulk bulk(engine);
//   for (auto& layer : layers) bulk.push([&] { layer.step(); }, {.mutate = {layer.var}});
//   bulk.commit();
//
// For ops that belong together. It is not faster than pushes one by one: see docs/engine.md.
#pragma once

#include <array>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/engine.h>

namespace heddle {

// Of one thread, and gone before its engine. What it is given counts as pushed at the commit, in that order and without
// any op of another thread in between: whatever its thread pushes or waits for before the commit comes first. On an
// engine with bounds each op is pushed at once: a bulk that holds room, and is not pushed, would keep everybody waiting.
class Bulk {
 public:
  explicit Bulk(Engine& engine) : engine_(engine) {}
  ~Bulk();  // commits; ops for an engine that was shut down meanwhile are destroyed
  Bulk(const Bulk&) = delete;
  Bulk& operator=(const Bulk&) = delete;

  // As the engine's. Handles of the vars need not live until the commit.
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, PreparedOp>) void push(
      F&& fn, const Access& access = {}, std::source_location where = std::source_location::current()) {
    keep(access);
    add(engine_.make_op<detail::SyncOp<std::decay_t<F>>>(std::forward<F>(fn), access, where));
  }
  template <class F>
  void push_async(F&& fn, const Access& access = {},
                  std::source_location where = std::source_location::current()) {
    keep(access);
    add(engine_.make_op<detail::AsyncOp<std::decay_t<F>>>(std::forward<F>(fn), access, where));
  }
  void push(const PreparedOp& op);

  // Pushes what was given so far; the bulk may be filled again. Throws Error, and destroys the ops, if the engine was shut
  // down meanwhile.
  void commit();

 private:
  void keep(const Access& access);
  void add(detail::OpNode* op);
  void discard() noexcept;
  void forget() noexcept;

  Engine& engine_;
  detail::OpNode* first_ = nullptr;  // a list in push order
  detail::OpNode* last_ = nullptr;
  std::vector<Var> vars_;  // of the list's ops: the end of a var must not be queued before an op on it
  std::array<detail::VarState*, 64> kept_{};  // some of them, by address
};

}  // namespace heddle
