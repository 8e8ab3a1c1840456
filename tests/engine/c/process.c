// Process-wide functions: options, thread hooks, the log, traces, names, the default engine.
#include <unistd.h>

#include "check.h"

struct hooks {
  atomic_int started, ended, destroyed;
};

static void thread_started(void* ctx) { atomic_fetch_add(&((struct hooks*)ctx)->started, 1); }
static void thread_ended(void* ctx) { atomic_fetch_add(&((struct hooks*)ctx)->ended, 1); }
static void hooks_destroyed(void* ctx) { atomic_fetch_add(&((struct hooks*)ctx)->destroyed, 1); }

static void thread_hooks(void) {
  struct hooks hooks = {0};
  heddle_engine_options options = {.struct_size = sizeof options};
  OK(heddle_engine_options_from_environment(&options, NULL));
  options.thread_start = thread_started;
  options.thread_end = thread_ended;
  options.thread_ctx = &hooks;
  options.thread_destroy = hooks_destroyed;
  heddle_engine* engine = NULL;
  int32_t workers = 0;
  OK(heddle_engine_create(&options, &engine, NULL));
  OK(heddle_engine_workers(engine, &workers, NULL));
  OK(heddle_engine_destroy(engine, NULL));
  CHECK(hooks.destroyed == 1 && hooks.started == hooks.ended);
  CHECK(hooks.started == (options.scheduler == HEDDLE_THREADED ? workers : 0));
  options.workers = -1;
  IS(heddle_engine_create(&options, &engine, NULL), HEDDLE_INVALID_ARGUMENT);
  options.workers = 1;
  options.scheduler = 3;
  IS(heddle_engine_create(&options, &engine, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(hooks.destroyed == 3);
  options.struct_size = 0;
  IS(heddle_engine_create(&options, &engine, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_engine_options_from_environment(&options, NULL), HEDDLE_INVALID_ARGUMENT);
}

struct log {
  atomic_int lines, destroyed;
  char last[400];
};

static void keep_line(void* ctx, const char* line) {
  struct log* log = ctx;
  snprintf(log->last, sizeof log->last, "%s", line);
  atomic_fetch_add(&log->lines, 1);
}

static void log_destroyed(void* ctx) { atomic_fetch_add(&((struct log*)ctx)->destroyed, 1); }

static void errors_that_nobody_saw_are_logged(void) {
  struct log log = {0};
  OK(heddle_log_set(keep_line, &log, log_destroyed, NULL));
  heddle_engine* engine = new_engine();
  heddle_var* a = new_var(engine);
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &a, .mutate_count = 1, .name = "load"};
  OK(heddle_push(engine, fail_job, NULL, NULL, &options, NULL));
  OK(heddle_engine_destroy(engine, NULL));
  OK(heddle_var_destroy(a));
  CHECK(log.lines == 1 && strstr(log.last, "op 'load' failed: disk full") && !strchr(log.last, '\n'));
  OK(heddle_log_set(NULL, NULL, NULL, NULL));
  CHECK(log.destroyed == 1);
}

static void traces(void) {
  char path[] = "/tmp/heddle_c_trace_XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  close(file);
  const heddle_trace_options bounds = {.struct_size = sizeof bounds, .file_bytes = 1 << 20};
  OK(heddle_trace_start(path, &bounds, NULL));
  IS(heddle_trace_start(path, NULL, NULL), HEDDLE_FAILED);  // a trace is already running
  struct job job = {0};
  heddle_engine* engine = new_engine();
  OK(heddle_push(engine, run_job, &job, NULL, NULL, NULL));
  OK(heddle_wait_all(engine, NULL));
  OK(heddle_trace_flush(NULL));
  heddle_trace_summary summary = {.struct_size = sizeof summary};
  OK(heddle_trace_stop(&summary, NULL));
  CHECK(summary.records >= 1 && summary.dropped == 0 && summary.bytes > 0);
  OK(heddle_trace_stop(NULL, NULL));  // no trace is running
  summary.struct_size = 1;
  IS(heddle_trace_stop(&summary, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_trace_start(NULL, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_engine_destroy(engine, NULL));
  remove(path);
}

static void names(void) {
  char name[] = "made at run time";
  const char *first = NULL, *second = NULL;
  OK(heddle_intern(name, &first));
  OK(heddle_intern("made at run time", &second));
  CHECK(first == second && first != name && strcmp(first, name) == 0);
  IS(heddle_intern(NULL, &first), HEDDLE_INVALID_ARGUMENT);
  const heddle_site *here = NULL, *same = NULL, *other = NULL;
  OK(heddle_site_intern("a.py", NULL, 3, &here, NULL));
  OK(heddle_site_intern("a.py", NULL, 3, &same, NULL));
  OK(heddle_site_intern("a.py", NULL, 4, &other, NULL));
  CHECK(here == same && here != other && here->line == 3 && strcmp(here->file, "a.py") == 0);
  static const heddle_site site = HEDDLE_SITE;
  CHECK(strstr(site.file, "process.c") && strcmp(site.function, "names") == 0 && site.line > 0);
  const char* status = NULL;
  OK(heddle_status_name(HEDDLE_TIMEOUT, &status));
  CHECK(strcmp(status, "HEDDLE_TIMEOUT") == 0);
  OK(heddle_status_name(-1, &status));
  CHECK(strlen(status) > 0);
}

static void the_default_engine(void) {
  heddle_engine *engine = NULL, *again = NULL;
  OK(heddle_engine_default(&engine, NULL));
  OK(heddle_engine_default(&again, NULL));
  heddle_var* a = new_var(engine);
  struct job job = {0};
  const heddle_op_options options = {.struct_size = sizeof options, .mutate = &a, .mutate_count = 1};
  OK(heddle_push(again, run_job, &job, NULL, &options, NULL));
  OK(heddle_engine_destroy(again, NULL));  // destroys only this handle, not the default engine
  OK(heddle_wait(engine, a, NULL));
  CHECK(job.ran == 1);
  OK(heddle_var_destroy(a));
  OK(heddle_engine_destroy(engine, NULL));
  IS(heddle_engine_default(NULL, NULL), HEDDLE_INVALID_ARGUMENT);
}

void test_process(void) {
  heddle_build build = {.struct_size = sizeof build};
  OK(heddle_build_describe(&build));
  CHECK(build.major == HEDDLE_VERSION_MAJOR && build.minor == HEDDLE_VERSION_MINOR &&
        strlen(build.compiler) > 0);
  thread_hooks();
  errors_that_nobody_saw_are_logged();
  traces();
  names();
  the_default_engine();
}
