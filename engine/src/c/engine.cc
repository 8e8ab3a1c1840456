#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <heddle/c/core.h>

#include "api/wait.h"
#include "c/boundary.h"
#include "c/not_owned.h"
#include "c/wait.h"
#include "core/capture.h"
#include "core/core.h"

using namespace heddle;
using namespace heddle::c;

namespace {

// The last reference on an engine may be released by a call inside one of its ops, when another thread has
// destroyed the handle (in a checked process). The engine must not be destroyed there.
struct DestroyOutsideOps {
  void operator()(Engine* engine) const {
    if (!engine->core().current_op()) {
      delete engine;
      return;
    }
    try {
      std::thread([engine] { delete engine; }).detach();
    } catch (const std::system_error&) {  // no thread can be started: the engine is leaked
    }
  }
};

// The hooks of worker threads, with the ctx that they own.
struct WorkerThreadHooks {
  heddle_thread_fn start, end;
  Owned ctx;
};

Scheduler scheduler_of(std::int32_t number, const char* call) {
  switch (number) {
    case HEDDLE_THREADED:
      return Scheduler::threaded;
    case HEDDLE_NAIVE:
      return Scheduler::naive;
    case HEDDLE_FUZZ:
      return Scheduler::fuzz;
    default:
      throw InvalidArgument(std::string(call) + ": scheduler is " + std::to_string(number) +
                            ", want HEDDLE_THREADED, HEDDLE_NAIVE or HEDDLE_FUZZ");
  }
}

std::int32_t number_of(Scheduler scheduler) {
  switch (scheduler) {
    case Scheduler::naive:
      return HEDDLE_NAIVE;
    case Scheduler::fuzz:
      return HEDDLE_FUZZ;
    default:
      return HEDDLE_THREADED;
  }
}

EngineOptions options_of(const heddle_engine_options* wanted, const char* call) {
  if (!wanted) return EngineOptions::from_environment();
  check_struct(wanted, call, "heddle_engine_options");
  auto hooks = std::make_shared<WorkerThreadHooks>(wanted->thread_start, wanted->thread_end,
                                                   Owned(wanted->thread_ctx, wanted->thread_destroy));
  EngineOptions options;
  options.scheduler = scheduler_of(wanted->scheduler, call);
  options.workers = wanted->workers;
  options.seed = wanted->seed;
  options.watchdog = wanted->watchdog;
  options.spin = wanted->spin;
  options.max_ops = wanted->max_ops;
  options.max_bytes = wanted->max_bytes;
  options.on_thread_start = [hooks] {
    if (hooks->start) hooks->start(hooks->ctx.ctx());
  };
  options.on_thread_end = [hooks] {
    if (hooks->end) hooks->end(hooks->ctx.ctx());
  };
  return options;
}

detail::Deadline after(std::int64_t nanoseconds) {
  const detail::Deadline now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds time(std::max<std::int64_t>(nanoseconds, 0));
  return time >= detail::kNever - now ? detail::kNever : now + time;
}

void wait_until(Engine& engine, const Var& var, detail::Deadline deadline, const char* call) {
  const detail::WaitOutcome outcome = detail::wait_for(&engine.core(), var, deadline);
  if (outcome.poison) throw CError(error_of(describe(*outcome.poison)));
  if (!outcome.over)
    throw_error(HEDDLE_TIMEOUT, std::string(call) + ": the time is over, and ops on the var are under way");
}

void wait_until(heddle_engine* engine, const heddle_var* var, detail::Deadline deadline, const char* call) {
  const HandleAccess<heddle_engine> on(engine, call);
  const HandleAccess<heddle_var> of(var, call);
  wait_until(**on, *of, deadline, call);
}

}  // namespace

void heddle::c::wait(Engine& engine, const Var& var, const char* call) {
  wait_until(engine, var, detail::kNever, call);
}

heddle_status heddle_engine_options_from_environment(heddle_engine_options* options, heddle_error** error) {
  return guarded(error, [&] {
    check_struct(options, "heddle_engine_options_from_environment", "heddle_engine_options");
    const EngineOptions wanted = EngineOptions::from_environment();
    *options = {};
    options->struct_size = sizeof *options;
    options->scheduler = number_of(wanted.scheduler);
    options->workers = wanted.workers;
    options->seed = wanted.seed;
    options->watchdog = wanted.watchdog;
    options->spin = wanted.spin;
    options->max_ops = wanted.max_ops;
    options->max_bytes = wanted.max_bytes;
  });
}

heddle_status heddle_engine_create(const heddle_engine_options* options, heddle_engine** engine,
                                   heddle_error** error) {
  return guarded(error, [&] {
    const EngineOptions wanted = options_of(options, "heddle_engine_create");
    check_out(engine, "heddle_engine_create", "engine");
    *engine = make_handle<heddle_engine>(std::shared_ptr<Engine>(new Engine(wanted), DestroyOutsideOps()));
  });
}

heddle_status heddle_engine_default(heddle_engine** engine, heddle_error** error) {
  return guarded(error, [&] {
    check_out(engine, "heddle_engine_default", "engine");
    *engine = make_handle<heddle_engine>(std::shared_ptr<Engine>(&default_engine(), NotOwned()));
  });
}

heddle_status heddle_engine_destroy(heddle_engine* engine, heddle_error** error) {
  return guarded(error, [&] {
    if (!engine) return;
    constexpr const char* kCall = "heddle_engine_destroy";
    detail::refuse_in_capture(kCall);
    {
      const HandleAccess<heddle_engine> handle(engine, kCall);
      const detail::OpNode* op = (*handle)->core().current_function();
      if (op && !std::get_deleter<NotOwned>(*handle)) {
        throw WouldDeadlock(std::string(kCall) + " inside op '" + op->name +
                            "' of this engine: it would wait for that op, which waits for it");
      }
    }
    take(engine, kCall);
  });
}

heddle_status heddle_engine_workers(heddle_engine* engine, int32_t* workers, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> of(engine, "heddle_engine_workers");
    check_out(workers, "heddle_engine_workers", "workers");
    *workers = (*of)->workers();
  });
}

heddle_status heddle_var_create(heddle_engine* engine, heddle_var** var, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> of(engine, "heddle_var_create");
    check_out(var, "heddle_var_create", "var");
    *var = make_handle<heddle_var>((*of)->new_var());
  });
}

heddle_status heddle_var_copy(const heddle_var* var, heddle_var** copy, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_var> of(var, "heddle_var_copy");
    check_out(copy, "heddle_var_copy", "copy");
    *copy = make_handle<heddle_var>(*of);
  });
}

heddle_status heddle_var_destroy(heddle_var* var) {
  return guarded(nullptr, [&] {
    if (var) take(var, "heddle_var_destroy");
  });
}

heddle_status heddle_wait(heddle_engine* engine, const heddle_var* var, heddle_error** error) {
  return guarded(error, [&] { wait_until(engine, var, detail::kNever, "heddle_wait"); });
}

heddle_status heddle_wait_for(heddle_engine* engine, const heddle_var* var, int64_t nanoseconds,
                              heddle_error** error) {
  return guarded(error, [&] { wait_until(engine, var, after(nanoseconds), "heddle_wait_for"); });
}

heddle_status heddle_wait_all(heddle_engine* engine, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> on(engine, "heddle_wait_all");
    (*on)->wait_all();
  });
}

heddle_status heddle_error_of(heddle_engine* engine, const heddle_var* var, heddle_error** poison,
                              heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> on(engine, "heddle_error_of");
    const HandleAccess<heddle_var> of(var, "heddle_error_of");
    check_out(poison, "heddle_error_of", "poison");
    const ErrorReport report = (*on)->error_of(*of);
    *poison = report.exception ? make_handle<heddle_error>(error_of(report)) : nullptr;
  });
}

heddle_status heddle_clear_error(heddle_engine* engine, const heddle_var* var, const heddle_site* site,
                                 heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> on(engine, "heddle_clear_error");
    const HandleAccess<heddle_var> of(var, "heddle_clear_error");
    (*on)->clear_error(*of, location_of(site));
  });
}

heddle_status heddle_describe_pending(heddle_engine* engine, char** text, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> on(engine, "heddle_describe_pending");
    check_out(text, "heddle_describe_pending", "text");
    *text = make_text((*on)->describe_pending());
  });
}

heddle_status heddle_pending_dot(heddle_engine* engine, char** text, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> on(engine, "heddle_pending_dot");
    check_out(text, "heddle_pending_dot", "text");
    *text = make_text((*on)->pending_dot());
  });
}

heddle_status heddle_group_create(heddle_group** group, heddle_error** error) {
  return guarded(error, [&] {
    check_out(group, "heddle_group_create", "group");
    *group = make_handle<heddle_group>(Group());
  });
}

heddle_status heddle_group_copy(const heddle_group* group, heddle_group** copy, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_group> of(group, "heddle_group_copy");
    check_out(copy, "heddle_group_copy", "copy");
    *copy = make_handle<heddle_group>(*of);
  });
}

heddle_status heddle_group_destroy(heddle_group* group) {
  return guarded(nullptr, [&] {
    if (group) take(group, "heddle_group_destroy");
  });
}

heddle_status heddle_group_cancel(heddle_group* group, heddle_error** error) {
  return guarded(error, [&] { Group(*HandleAccess<heddle_group>(group, "heddle_group_cancel")).cancel(); });
}

heddle_status heddle_group_set_timeout(heddle_group* group, int64_t nanoseconds, heddle_error** error) {
  return guarded(error, [&] {
    Group(*HandleAccess<heddle_group>(group, "heddle_group_set_timeout")).set_deadline(after(nanoseconds));
  });
}

heddle_status heddle_group_cancelled(const heddle_group* group, int32_t* cancelled, heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_group> of(group, "heddle_group_cancelled");
    check_out(cancelled, "heddle_group_cancelled", "cancelled");
    *cancelled = of->cancelled() ? 1 : 0;
  });
}
