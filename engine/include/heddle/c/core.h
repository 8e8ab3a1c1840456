// Engines, vars and groups: make them, wait for them, look at their errors.
#pragma once

#include <heddle/c/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_engine heddle_engine;  // threads that run ops
typedef struct heddle_var heddle_var;        // a handle on a var, which stands for a piece of data
typedef struct heddle_group heddle_group;    // a handle on a group: ops that are cancelled together

// The source line of a push. It must live as long as the ops that name it, their errors and traces: make it
// static, or use heddle_site_intern.
//
//   static const heddle_site here = HEDDLE_SITE;
typedef struct heddle_site {
  const char* file;
  const char* function;
  uint32_t line;  // 0: not known
  uint32_t column;
} heddle_site;
#define HEDDLE_SITE \
  { __FILE__, __func__, __LINE__, 0 }

// *site lives as long as the process, and is the same pointer for equal arguments. The texts are copied; null is "".
HEDDLE_API heddle_status heddle_site_intern(const char* file, const char* function, uint32_t line,
                                            const heddle_site** site, heddle_error** error);

#define HEDDLE_THREADED ((int32_t)0)  // worker threads
#define HEDDLE_NAIVE ((int32_t)1)     // every op runs inside its push; serves as the reference for results
#define HEDDLE_FUZZ ((int32_t)2)      // one thread picks any ready op, by seed

// Called on a worker thread before its first op and after its last. For what a thread has to set up: a name,
// a core, an interpreter's state. It must not call this library.
typedef void (*heddle_thread_fn)(void* ctx);

// Zeros are the defaults. See EngineOptions in docs/engine.md.
typedef struct heddle_engine_options {
  size_t struct_size;  // sizeof(heddle_engine_options)
  int32_t scheduler;   // HEDDLE_THREADED, HEDDLE_NAIVE or HEDDLE_FUZZ
  int32_t workers;     // number of worker threads; 0: one per usable core. Only with HEDDLE_THREADED
  uint64_t seed;       // seed of HEDDLE_FUZZ
  double watchdog;     // seconds without the end of any op after which ops in flight are logged; 0: never
  double spin;         // seconds that an idle worker looks for work before it is parked
  uint64_t max_ops;    // a push blocks while so many ops are in flight; 0: no bound
  uint64_t max_bytes;  // a push blocks while the ops in flight hold so many bytes; 0: no bound
  heddle_thread_fn thread_start, thread_end;  // may be null; used only with HEDDLE_THREADED
  void* thread_ctx;
  // Called with thread_ctx when the engine and all handles made from it are gone, on any thread; may be null.
  heddle_destroy_fn thread_destroy;
} heddle_engine_options;

// The options that HEDDLE_SCHEDULER, HEDDLE_WORKERS and the other variables ask for. The caller sets struct_size before.
HEDDLE_API heddle_status heddle_engine_options_from_environment(heddle_engine_options* options,
                                                                heddle_error** error);

// Null options: those of the environment. thread_destroy is called if this fails, unless struct_size is wrong.
HEDDLE_API heddle_status heddle_engine_create(const heddle_engine_options* options, heddle_engine** engine,
                                              heddle_error** error);
// A handle on the process's default engine, which is made at first use and finished at exit. The child of a
// fork makes its own.
HEDDLE_API heddle_status heddle_engine_default(heddle_engine** engine, heddle_error** error);
// Waits for all ops and ends the threads; for the default engine it only frees the handle. Fails inside an op
// of this engine, which then stays as it is. Vars, groups, graphs and prepared ops may outlive the engine.
HEDDLE_API heddle_status heddle_engine_destroy(heddle_engine* engine, heddle_error** error);
// The number of worker slots of the engine; 1 with HEDDLE_NAIVE and HEDDLE_FUZZ.
HEDDLE_API heddle_status heddle_engine_workers(heddle_engine* engine, int32_t* workers, heddle_error** error);

HEDDLE_API heddle_status heddle_var_create(heddle_engine* engine, heddle_var** var, heddle_error** error);
// A second handle on the same var.
HEDDLE_API heddle_status heddle_var_copy(const heddle_var* var, heddle_var** copy, heddle_error** error);
// Destroys a handle. Ops that were pushed on the var are not affected.
HEDDLE_API heddle_status heddle_var_destroy(heddle_var* var);

// Blocks until every op pushed so far that mutates var is done. Returns the error that poisons it. The
// calling thread may run such ops meanwhile. Inside an op other ops keep running; HEDDLE_WOULD_DEADLOCK if
// the wait could only end after that op.
HEDDLE_API heddle_status heddle_wait(heddle_engine* engine, const heddle_var* var, heddle_error** error);
// Waits as heddle_wait does, at most so many nanoseconds; HEDDLE_TIMEOUT if ops are still under way then. A negative
// time does not block.
HEDDLE_API heddle_status heddle_wait_for(heddle_engine* engine, const heddle_var* var, int64_t nanoseconds,
                                         heddle_error** error);
// Blocks until every op pushed so far, and what those push, is done. Fails with HEDDLE_SEVERAL, whose causes are all
// errors that still poison a var or that no wait has returned, and with HEDDLE_WOULD_DEADLOCK inside an op.
HEDDLE_API heddle_status heddle_wait_all(heddle_engine* engine, heddle_error** error);

// The error that poisons var now; *poison is null if there is none. Does not wait.
HEDDLE_API heddle_status heddle_error_of(heddle_engine* engine, const heddle_var* var, heddle_error** poison,
                                         heddle_error** error);
// Removes the poison of var, in push order: ops pushed later see it clean. `site` may be null.
HEDDLE_API heddle_status heddle_clear_error(heddle_engine* engine, const heddle_var* var,
                                            const heddle_site* site, heddle_error** error);

// The ops that run, those that wait and what for, as text and as a DOT graph; free it with heddle_text_destroy. Any
// thread, at any time.
HEDDLE_API heddle_status heddle_describe_pending(heddle_engine* engine, char** text, heddle_error** error);
HEDDLE_API heddle_status heddle_pending_dot(heddle_engine* engine, char** text, heddle_error** error);

HEDDLE_API heddle_status heddle_group_create(heddle_group** group, heddle_error** error);
HEDDLE_API heddle_status heddle_group_copy(const heddle_group* group, heddle_group** copy,
                                           heddle_error** error);
HEDDLE_API heddle_status heddle_group_destroy(heddle_group* group);
// Ops of the group that have not started fail with HEDDLE_CANCELLED, also those pushed later.
HEDDLE_API heddle_status heddle_group_cancel(heddle_group* group, heddle_error** error);
// The group counts as cancelled from so many nanoseconds after this call on; its ops then fail with
// HEDDLE_OVERDUE. INT64_MAX removes the deadline.
HEDDLE_API heddle_status heddle_group_set_timeout(heddle_group* group, int64_t nanoseconds,
                                                  heddle_error** error);
// 1 if the group was cancelled or is overdue.
HEDDLE_API heddle_status heddle_group_cancelled(const heddle_group* group, int32_t* cancelled,
                                                heddle_error** error);

#ifdef __cplusplus
}
#endif
