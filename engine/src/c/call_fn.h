// C functions as the closures of ops, and the options of a push as an access list.
#pragma once

#include <exception>
#include <optional>
#include <source_location>
#include <vector>

#include <heddle/engine.h>

#include "c/boundary.h"

namespace heddle::c {

inline void call_fn(heddle_op_fn fn, void* ctx, const heddle_run* run) {
  heddle_error* error = nullptr;
  const heddle_status status = fn(ctx, run, &error);
  if (status != HEDDLE_OK || error) [[unlikely]]
    throw_if_failed(status, error, "the op's function");
}

// Closure of an op without destroy and skipped, so that its destructor has nothing to do. Only for processes
// without HEDDLE_CHECK=1.
struct CallFn {
  heddle_op_fn fn;
  void* ctx;
  void operator()(RunContext& context) const {
    const heddle_run run(&context);
    call_fn(fn, ctx, &run);
  }
};

// The ctx that an op's closure owns, and the function to call if the op is skipped.
struct OwnedCtx {
  Owned owned;
  heddle_skipped_fn on_skipped;
  void tell_skipped(const std::exception_ptr& why) noexcept;
};

struct CallOwnedFn {
  heddle_op_fn fn;
  OwnedCtx ctx;
  void operator()(RunContext& context) const {
    Lent<heddle_run> run(&context);
    call_fn(fn, ctx.owned.ctx(), run.get());
  }
  void skipped(const std::exception_ptr& why) noexcept { ctx.tell_skipped(why); }
};

struct CallAsyncFn {
  heddle_async_fn fn;
  OwnedCtx ctx;
  void operator()(RunContext& context, Completion done) const;
  void skipped(const std::exception_ptr& why) noexcept { ctx.tell_skipped(why); }
};

[[gnu::always_inline]] inline void add_vars(VarList& list, heddle_var* const* vars, std::size_t count,
                                            const char* call) {
  if (count > 0 && !vars) [[unlikely]]
    throw_null(call, "an array of vars");
  for (std::size_t i = 0; i < count; ++i) {
    check_kind(vars[i], call);
    list.add(vars[i]->value);
  }
}

// Converts the options of a push to an access list that is valid during the call. Only for processes without
// HEDDLE_CHECK=1.
[[gnu::always_inline]] inline void read_options(const heddle_op_options& options, const char* call,
                                                Access& access) {
  add_vars(access.read, options.read, options.read_count, call);
  add_vars(access.mutate, options.mutate, options.mutate_count, call);
  if (options.name) access.name = options.name;
  access.priority = options.priority;
  access.bytes = options.bytes;
  if (!options.group) return;
  check_kind(options.group, call);
  access.group = options.group->value;
}

// The access list of an op, for a call in any process. In a checked process it also holds references on the
// vars and the group.
class OpAccess {
 public:
  OpAccess(const heddle_op_options* options, const char* call);
  const Access& operator*() const { return access_; }
  std::source_location where() const { return where_; }
  heddle_skipped_fn on_skipped() const { return on_skipped_; }

 private:
  void keep(const heddle_op_options& options, const char* call);
  Access access_;
  std::source_location where_;
  heddle_skipped_fn on_skipped_ = nullptr;
  std::vector<Var> vars_;
  std::optional<Group> group_;
};

}  // namespace heddle::c
