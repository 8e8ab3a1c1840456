// Errors that travel with data, error objects, and invalid handles.
#include "check.h"

static const heddle_site kPushedHere = {"disk.c", "load", 17, 0};

static void check_report(const heddle_error* error, int skipped) {
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(info.code == HEDDLE_USER + 3 && strcmp(info.message, "disk full") == 0);
  CHECK(strcmp(info.op, "load") == 0 && strcmp(info.file, "disk.c") == 0 && info.line == 17);
  CHECK(info.skipped_count == (size_t)skipped && info.cause_count == 0);
  if (skipped) CHECK(strcmp(info.skipped[0], "use at use.c:5") == 0);
  char* text = NULL;
  OK(heddle_error_to_text(error, &text));
  CHECK(strstr(text, "op 'load' pushed at disk.c:17 failed: disk full") == text);
  OK(heddle_text_destroy(text));
}

static heddle_status pass_on(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)run;
  return heddle_error_copy(ctx, error) == HEDDLE_OK ? HEDDLE_USER + 3 : HEDDLE_FAILED;
}

static heddle_status only_a_status(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)ctx, (void)run, (void)error;
  return HEDDLE_USER + 9;
}

// `seen` is the error of op "load". An op that fails with this error object names itself as the failed op,
// with "load" as its cause.
static void errors_of_errors(heddle_engine* engine, heddle_error* seen) {
  heddle_var* c = new_var(engine);
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &c, .mutate_count = 1, .name = "pass on"};
  OK(heddle_push(engine, pass_on, seen, NULL, &options, NULL));
  heddle_error* error = NULL;
  IS(heddle_wait(engine, c, &error), HEDDLE_USER + 3);
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(strcmp(info.op, "pass on") == 0 && info.line == 0 && info.cause_count == 1);
  const heddle_error* cause = NULL;
  OK(heddle_error_cause(error, 0, &cause));
  check_report(cause, 1);
  IS(heddle_error_cause(error, 1, &cause), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_error_destroy(error));

  OK(heddle_push(engine, only_a_status, NULL, NULL, &options, NULL));
  IS(heddle_wait(engine, c, &error), HEDDLE_USER + 9);
  OK(heddle_error_destroy(error));
  OK(heddle_var_destroy(c));
}

static void errors_travel(void) {
  static const heddle_site use_here = {"use.c", "use", 5, 0};
  struct job job = {0};
  heddle_engine* engine = new_engine();
  heddle_var *a = new_var(engine), *b = new_var(engine);
  const heddle_op_options load = {
      .struct_size = sizeof load, .mutate = &a, .mutate_count = 1, .name = "load", .site = &kPushedHere};
  const heddle_op_options use = {.struct_size = sizeof use,
                                 .read = &a,
                                 .read_count = 1,
                                 .mutate = &b,
                                 .mutate_count = 1,
                                 .name = "use",
                                 .site = &use_here,
                                 .skipped = job_skipped};
  OK(heddle_push(engine, fail_job, NULL, NULL, &load, NULL));
  OK(heddle_push(engine, run_job, &job, destroy_job, &use, NULL));
  heddle_error *error = NULL, *poison = NULL;
  IS(heddle_wait(engine, b, &error), HEDDLE_USER + 3);
  check_report(error, 1);
  CHECK(job.ran == 0 && job.skipped == 1 && job.skipped_because == HEDDLE_USER + 3 && job.destroyed == 1);
  OK(heddle_error_of(engine, a, &poison, NULL));
  check_report(poison, 0);
  OK(heddle_error_destroy(poison));
  errors_of_errors(engine, error);
  OK(heddle_error_destroy(error));

  IS(heddle_wait_all(engine, &error), HEDDLE_SEVERAL);
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(info.cause_count >= 1);
  const heddle_error* first = NULL;
  OK(heddle_error_cause(error, 0, &first));
  check_report(first, 0);
  OK(heddle_error_destroy(error));

  OK(heddle_clear_error(engine, a, &kPushedHere, NULL));
  OK(heddle_clear_error(engine, b, NULL, NULL));
  OK(heddle_wait(engine, b, &error));
  CHECK(!error);
  OK(heddle_error_of(engine, b, &poison, NULL));
  CHECK(!poison);
  OK(heddle_wait_all(engine, NULL));
  OK(heddle_var_destroy(a));
  OK(heddle_var_destroy(b));
  OK(heddle_engine_destroy(engine, NULL));
}

static void error_objects(void) {
  heddle_error *inner = NULL, *outer = NULL;
  IS(heddle_error_create(HEDDLE_OK, "none", NULL, &inner), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_error_create(HEDDLE_FAILED, NULL, NULL, &inner), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_error_create(HEDDLE_FAILED, "nowhere", NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_error_create(HEDDLE_FAILED, "inner", NULL, &inner));
  OK(heddle_error_create(HEDDLE_USER, "outer", inner, &outer));
  OK(heddle_error_destroy(inner));
  const heddle_error* cause = NULL;
  OK(heddle_error_cause(outer, 0, &cause));
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(cause, &info));
  CHECK(strcmp(info.message, "inner") == 0 && strcmp(info.op, "") == 0 && info.line == 0);
  info.struct_size = 4;
  IS(heddle_error_describe(cause, &info), HEDDLE_INVALID_ARGUMENT);
  char* text = NULL;
  OK(heddle_error_to_text(outer, &text));
  CHECK(strcmp(text, "outer\n  inner") == 0);
  OK(heddle_text_destroy(text));
  OK(heddle_error_destroy(outer));
  OK(heddle_error_destroy(NULL));
}

// A chain of causes too long for recursive destruction, and for a complete text.
static void long_chains(void) {
  heddle_error *last = NULL, *next = NULL;
  for (int i = 0; i < 200000; ++i) {
    OK(heddle_error_create(HEDDLE_USER, "again", last, &next));
    OK(heddle_error_destroy(last));
    last = next;
  }
  char* text = NULL;
  OK(heddle_error_to_text(last, &text));
  CHECK(strlen(text) < 10000 && strstr(text, "\n... and more causes"));
  OK(heddle_text_destroy(text));
  OK(heddle_error_destroy(last));
}

void test_errors(void) {
  errors_travel();
  error_objects();
  long_chains();
}

// Destroyed handles are detected only in a checked process; handles of a wrong type always.
void test_handles(void) {
  heddle_engine* engine = new_engine();
  heddle_var* var = new_var(engine);
  heddle_group* group = NULL;
  OK(heddle_group_create(&group, NULL));
  IS(heddle_wait(engine, (heddle_var*)group, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_wait((heddle_engine*)var, var, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_wait(engine, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_var_destroy((heddle_var*)group), HEDDLE_BAD_HANDLE);
  IS(heddle_group_cancel((heddle_group*)engine, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_completion_done(NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_var_destroy(var));
  OK(heddle_var_destroy(NULL));
  if (is_checked()) {
    IS(heddle_wait(engine, var, NULL), HEDDLE_BAD_HANDLE);
    IS(heddle_var_destroy(var), HEDDLE_BAD_HANDLE);
    const heddle_op_options options = {.struct_size = sizeof options, .read = &var, .read_count = 1};
    struct job job = {0};
    IS(heddle_push(engine, run_job, &job, destroy_job, &options, NULL), HEDDLE_BAD_HANDLE);
    CHECK(job.destroyed == 1);
  }
  OK(heddle_group_destroy(group));
  OK(heddle_engine_destroy(engine, NULL));
  if (is_checked()) IS(heddle_engine_destroy(engine, NULL), HEDDLE_BAD_HANDLE);
}
