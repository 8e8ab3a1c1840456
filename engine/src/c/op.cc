#include <utility>

#include <heddle/c/op.h>

#include "c/call_fn.h"

using namespace heddle;
using namespace heddle::c;

namespace {

constexpr const char* kPush = "heddle_push";

[[gnu::noinline]] heddle_status push_in_general(heddle_engine* engine, heddle_op_fn fn, void* ctx,
                                                heddle_destroy_fn destroy, const heddle_op_options* options,
                                                heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> to(engine, kPush);
    if (!fn) throw_null(kPush, "fn");
    const OpAccess access(options, kPush);
    (*to)->push(CallOwnedFn{fn, {std::move(owned), access.on_skipped()}}, *access, access.where());
  });
}

}  // namespace

// The fast path for most pushes, which have nothing to destroy.
heddle_status heddle_push(heddle_engine* engine, heddle_op_fn fn, void* ctx, heddle_destroy_fn destroy,
                          const heddle_op_options* options, heddle_error** error) {
  if (checked || destroy || !options || !fn || options->struct_size != sizeof *options || options->skipped) {
    return push_in_general(engine, fn, ctx, destroy, options, error);
  }
  return guarded(error, [&] {
    check_kind(engine, kPush);
    Access access;
    read_options(*options, kPush, access);
    engine->value->push(CallFn{fn, ctx}, access, location_of(options->site));
  });
}

heddle_status heddle_push_async(heddle_engine* engine, heddle_async_fn fn, void* ctx,
                                heddle_destroy_fn destroy, const heddle_op_options* options,
                                heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_push_async";
    const HandleAccess<heddle_engine> to(engine, kCall);
    if (!fn) throw_null(kCall, "fn");
    const OpAccess access(options, kCall);
    (*to)->push_async(CallAsyncFn{fn, {std::move(owned), access.on_skipped()}}, *access, access.where());
  });
}

heddle_status heddle_prepare(heddle_engine* engine, heddle_op_fn fn, void* ctx, heddle_destroy_fn destroy,
                             const heddle_op_options* options, heddle_prepared** prepared,
                             heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_prepare";
    const HandleAccess<heddle_engine> to(engine, kCall);
    if (!fn) throw_null(kCall, "fn");
    check_out(prepared, kCall, "prepared");
    const OpAccess access(options, kCall);
    *prepared = make_handle<heddle_prepared>(
        (*to)->prepare(CallOwnedFn{fn, {std::move(owned), access.on_skipped()}}, *access, access.where()));
  });
}

heddle_status heddle_push_prepared(heddle_engine* engine, const heddle_prepared* prepared,
                                   heddle_error** error) {
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> to(engine, "heddle_push_prepared");
    const HandleAccess<heddle_prepared> op(prepared, "heddle_push_prepared");
    (*to)->push(*op);
  });
}

heddle_status heddle_prepared_destroy(heddle_prepared* prepared) {
  return guarded(nullptr, [&] {
    if (prepared) take(prepared, "heddle_prepared_destroy");
  });
}

heddle_status heddle_completion_done(heddle_completion* completion) {
  return guarded(nullptr, [&] { take(completion, "heddle_completion_done").done(); });
}

heddle_status heddle_completion_fail(heddle_completion* completion, heddle_error* failure) {
  heddle_status status = HEDDLE_OK;
  std::exception_ptr exception;
  if (failure) {
    status = guarded(nullptr, [&] {
      const ErrorPtr data = *HandleAccess<heddle_error>(failure, "heddle_completion_fail");
      exception = std::make_exception_ptr(CError(data));
    });
    heddle_error_destroy(failure);
  }
  const heddle_status ended =
      guarded(nullptr, [&] { take(completion, "heddle_completion_fail").fail(exception); });
  return ended == HEDDLE_OK ? status : ended;
}

heddle_status heddle_completion_drop(heddle_completion* completion) {
  return guarded(nullptr, [&] { take(completion, "heddle_completion_drop"); });
}

heddle_status heddle_run_describe(const heddle_run* run, heddle_run_info* info) {
  return guarded(nullptr, [&] {
    const HandleAccess<heddle_run> context(run, "heddle_run_describe");
    check_struct(info, "heddle_run_describe", "heddle_run_info");
    info->name = (*context)->name;
    info->sequence = (*context)->sequence;
    info->worker = (*context)->worker;
    info->cancelled = (*context)->cancelled() ? 1 : 0;
  });
}
