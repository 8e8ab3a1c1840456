// Pushing ops: functions with the vars that they read and the vars that they mutate.
//
// Every push takes fn, ctx and destroy. destroy(ctx) is called exactly once, whatever happens: when the op has run, was
// skipped or has failed, or before the push returns if the push fails. A null destroy is not called.
#pragma once

#include <heddle/c/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_run heddle_run;                // an op that runs: valid until its function returns
typedef struct heddle_completion heddle_completion;  // ends an asynchronous op
typedef struct heddle_prepared heddle_prepared;      // an op to push many times; a handle on it

// The function of an op. It is called on a worker thread, or on a thread that pushes or waits. It may push,
// wait for vars, make and destroy handles; it must not call heddle_wait_all or destroy its engine. Any result
// but HEDDLE_OK fails the op: with the error that it stores in *error, which the engine then owns, or with
// one made of the status. With HEDDLE_OK an error that it has stored is destroyed.
typedef heddle_status (*heddle_op_fn)(void* ctx, const heddle_run* run, heddle_error** error);

// The function of an asynchronous op: as heddle_op_fn, but the op ends when its completion was called. If it
// returns HEDDLE_OK it owns the completion, and must call done, fail or drop on it once, on any thread, now
// or later. Else the op has failed; the function must not have used the completion.
typedef heddle_status (*heddle_async_fn)(void* ctx, const heddle_run* run, heddle_completion* completion,
                                         heddle_error** error);

// Called instead of fn, before destroy, if the op does not run, because a var that it reads is poisoned or
// its group was cancelled. On any thread; it must not block. `why` is valid during the call only.
typedef void (*heddle_skipped_fn)(void* ctx, const heddle_error* why);

// Vars and options of an op. Zeros are legal for all but struct_size. Arrays are read during the call only.
typedef struct heddle_op_options {
  size_t struct_size;  // sizeof(heddle_op_options)
  heddle_var* const* read;
  size_t read_count;
  heddle_var* const* mutate;  // a var in both lists is mutated, and its old value counts as read
  size_t mutate_count;
  const char* name;  // must outlive the op, its error and its traces: a literal, or heddle_intern; null: "op"
  const heddle_site* site;    // must outlive the op likewise; null: not known
  const heddle_group* group;  // the group that the op is cancelled with; null: none
  uint64_t bytes;             // memory that the op holds until it has ended; see max_bytes
  int32_t priority;           // ready ops of higher priority run first; -10000 to 10000
  heddle_skipped_fn skipped;  // may be null
} heddle_op_options;

// Queues an op and returns. With HEDDLE_NAIVE the push returns when the op has ended, so that an asynchronous
// op has to be ended in its function or on another thread. Null options: an op without vars. In an engine
// with max_ops or max_bytes the push blocks until there is room, except inside ops.
HEDDLE_API heddle_status heddle_push(heddle_engine* engine, heddle_op_fn fn, void* ctx,
                                     heddle_destroy_fn destroy, const heddle_op_options* options,
                                     heddle_error** error);
HEDDLE_API heddle_status heddle_push_async(heddle_engine* engine, heddle_async_fn fn, void* ctx,
                                           heddle_destroy_fn destroy, const heddle_op_options* options,
                                           heddle_error** error);

// An op whose access list is checked once. destroy(ctx) is called when the last handle is gone and the last op that was
// pushed with it has ended; fn may be called on several threads at once.
HEDDLE_API heddle_status heddle_prepare(heddle_engine* engine, heddle_op_fn fn, void* ctx,
                                        heddle_destroy_fn destroy, const heddle_op_options* options,
                                        heddle_prepared** prepared, heddle_error** error);
HEDDLE_API heddle_status heddle_push_prepared(heddle_engine* engine, const heddle_prepared* prepared,
                                              heddle_error** error);
HEDDLE_API heddle_status heddle_prepared_destroy(heddle_prepared* prepared);

// heddle_completion_done, _fail and _drop end the op and free the completion. They may be called on any
// thread, also inside the op's own function. Ops that become ready may start on other threads before the call
// returns. destroy(ctx) of the op is called by this call or when the op's function has returned, whichever is
// later.
HEDDLE_API heddle_status heddle_completion_done(heddle_completion* completion);
// The op fails with `failure`, which the library owns whatever this returns; null: an error that says so.
HEDDLE_API heddle_status heddle_completion_fail(heddle_completion* completion, heddle_error* failure);
// The op fails with HEDDLE_DROPPED.
HEDDLE_API heddle_status heddle_completion_drop(heddle_completion* completion);

// The data that a running op can query about itself.
typedef struct heddle_run_info {
  size_t struct_size;  // sizeof(heddle_run_info), set by the caller
  const char* name;    // the op's name
  uint64_t sequence;   // the op's position in the engine's serial order
  int32_t worker;      // the worker slot when the op started, 0 .. workers-1
  int32_t cancelled;   // 1: the op's group is cancelled or overdue by now: it may stop early
} heddle_run_info;

HEDDLE_API heddle_status heddle_run_describe(const heddle_run* run, heddle_run_info* info);

#ifdef __cplusplus
}
#endif
