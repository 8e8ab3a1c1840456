#include <memory>
#include <utility>

#include <heddle/c/progress.h>

#include "c/boundary.h"

namespace heddle::c {

// A progress source whose work is done by a C function.
struct CProgressSource final : ProgressSource {
  CProgressSource(heddle_progress_fn its_fn, Owned its_ctx) : fn(its_fn), ctx(std::move(its_ctx)) {}

  void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept override {
    try {
      Lent<heddle_var> lent_var(var);
      Lent<heddle_waiting> waiting(&over);
      fn(ctx.ctx(), var ? lent_var.get() : nullptr, waiting.get());
    } catch (...) {  // out of memory: the wait goes on without this source
    }
  }

  heddle_progress_fn fn;
  Owned ctx;
};

}  // namespace heddle::c

using namespace heddle;
using namespace heddle::c;

heddle_status heddle_waiting_over(const heddle_waiting* waiting, int32_t* over) {
  return guarded(nullptr, [&] {
    const HandleAccess<heddle_waiting> of(waiting, "heddle_waiting_over");
    check_out(over, "heddle_waiting_over", "over");
    *over = (*of)->load(std::memory_order_acquire) != 0 ? 1 : 0;
  });
}

heddle_status heddle_progress_add(heddle_engine* engine, heddle_progress_fn fn, void* ctx,
                                  heddle_destroy_fn destroy, heddle_progress** progress,
                                  heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    const HandleAccess<heddle_engine> to(engine, "heddle_progress_add");
    if (!fn) throw_null("heddle_progress_add", "fn");
    check_out(progress, "heddle_progress_add", "progress");
    auto source = std::make_shared<CProgressSource>(fn, std::move(owned));
    heddle_progress* const made = make_handle<heddle_progress>(source);
    try {
      (*to)->add_progress_source(source);
    } catch (...) {
      take(made, "");
      throw;
    }
    *progress = made;
  });
}

heddle_status heddle_progress_destroy(heddle_progress* progress) {
  return guarded(nullptr, [&] {
    if (progress) take(progress, "heddle_progress_destroy");
  });
}
