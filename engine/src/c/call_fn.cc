#include "c/call_fn.h"

#include <utility>

namespace heddle::c {

void OwnedCtx::tell_skipped(const std::exception_ptr& why) noexcept {
  if (!on_skipped) return;
  heddle_error* error = nullptr;
  try {
    give(error_of(why), &error);
  } catch (...) {
    give_current(&error);
  }
  on_skipped(owned.ctx(), error);
  heddle_error_destroy(error);
}

void CallAsyncFn::operator()(RunContext& context, Completion done) const {
  Lent<heddle_run> run(&context);
  heddle_completion* completion = make_handle<heddle_completion>(std::move(done));
  heddle_error* error = nullptr;
  const heddle_status status = fn(ctx.owned.ctx(), run.get(), completion, &error);
  if (status != HEDDLE_OK) {
    try {
      take(completion, "");
    } catch (const BadHandle&) {
      // Against the rule, the function has used the completion. Only the function's error counts.
    }
    throw_if_failed(status, error, "the op's function");
  }
  if (error) heddle_error_destroy(error);
}

OpAccess::OpAccess(const heddle_op_options* options, const char* call) {
  if (!options) return;
  check_struct(options, call, "heddle_op_options");
  where_ = location_of(options->site);
  on_skipped_ = options->skipped;
  if (checked) {
    keep(*options, call);
  } else {
    read_options(*options, call, access_);
  }
}

void OpAccess::keep(const heddle_op_options& options, const char* call) {
  const auto keep_all = [&](VarList& list, heddle_var* const* vars, std::size_t count) {
    if (count > 0 && !vars) throw_null(call, "an array of vars");
    for (std::size_t i = 0; i < count; ++i) {
      vars_.push_back(*HandleAccess<heddle_var>(vars[i], call));
      list.add(vars_.back());
    }
  };
  keep_all(access_.read, options.read, options.read_count);
  keep_all(access_.mutate, options.mutate, options.mutate_count);
  if (options.name) access_.name = options.name;
  access_.priority = options.priority;
  access_.bytes = options.bytes;
  if (!options.group) return;
  group_ = *HandleAccess<heddle_group>(options.group, call);
  access_.group = *group_;
}

}  // namespace heddle::c
