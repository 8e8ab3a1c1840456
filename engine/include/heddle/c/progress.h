// Progress sources: a thread that waits for an asynchronous op can do the work that ends it, so that no thread has to be
// woken.
#pragma once

#include <heddle/c/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_progress heddle_progress;  // a progress source; heddle_progress_destroy ends it
typedef struct heddle_waiting heddle_waiting;  // a wait; valid until the function that it is given to returns

// Called on a thread that is in no op and waits for var; var is valid during the call only, and null in
// heddle_wait_all. Does the work that the source's ops which mutate var (null: any var) wait for, if that can
// begin now; may block until it is done. Returns as soon as heddle_waiting_over says so. Called once in a
// wait: work that can begin only later is left to a thread of the source's own. Must not wait for vars.
typedef void (*heddle_progress_fn)(void* ctx, const heddle_var* var, const heddle_waiting* waiting);

// Sets *over to 1 once the wait has ended.
HEDDLE_API heddle_status heddle_waiting_over(const heddle_waiting* waiting, int32_t* over);

// From now on threads that wait on the engine call fn, until the handle is destroyed and the last call has returned; then
// destroy(ctx) is called, on any thread, or here if this fails. Only with HEDDLE_THREADED.
HEDDLE_API heddle_status heddle_progress_add(heddle_engine* engine, heddle_progress_fn fn, void* ctx,
                                             heddle_destroy_fn destroy, heddle_progress** progress,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_progress_destroy(heddle_progress* progress);

#ifdef __cplusplus
}
#endif
