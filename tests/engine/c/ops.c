// Pushes, prepared ops, groups, waits inside ops.
#include "check.h"

static void values_arrive_in_order(void) {
  int x = 0;
  struct job job = {.value = &x};
  heddle_engine* engine = new_engine();
  heddle_var* a = new_var(engine);
  heddle_var* b = NULL;
  OK(heddle_var_copy(a, &b, NULL));
  const heddle_op_options both = {
      .struct_size = sizeof both, .read = &a, .read_count = 1, .mutate = &b, .mutate_count = 1};
  for (int i = 0; i < 100; ++i)
    OK(heddle_push(engine, run_job, &job, i % 2 ? destroy_job : NULL, &both, NULL));
  OK(heddle_wait(engine, a, NULL));
  CHECK(x == 100 && job.ran == 100 && job.destroyed == 50);
  OK(heddle_push(engine, run_job, &job, NULL, NULL, NULL));  // an op without vars
  OK(heddle_wait_all(engine, NULL));
  CHECK(x == 101);
  int32_t workers = 0;
  OK(heddle_engine_workers(engine, &workers, NULL));
  CHECK(workers >= 1);
  OK(heddle_var_destroy(a));
  OK(heddle_engine_destroy(engine, NULL));
  OK(heddle_var_destroy(b));  // the engine was destroyed before the var
}

static void refused(heddle_engine* engine, heddle_op_fn fn, const heddle_op_options* options,
                    heddle_status want) {
  struct job job = {0};
  heddle_error* error = NULL;
  IS(heddle_push(engine, fn, &job, destroy_job, options, &error), want);
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(info.code == want && strlen(info.message) > 0 && job.destroyed == 1 && job.ran == 0);
  OK(heddle_error_destroy(error));
  IS(heddle_push(engine, fn, &job, destroy_job, options, NULL), want);
  CHECK(job.destroyed == 2);
  heddle_prepared* prepared = NULL;
  IS(heddle_prepare(engine, fn, &job, destroy_job, options, &prepared, NULL), want);
  CHECK(job.destroyed == 3 && !prepared);
}

static void refused_pushes_destroy_their_ctx_once(void) {
  heddle_engine *engine = new_engine(), *other = new_engine();
  heddle_var *a = new_var(engine), *foreign = new_var(other), *none = NULL;
  const heddle_op_options good = {.struct_size = sizeof good, .mutate = &a, .mutate_count = 1};
  heddle_op_options bad = good;
  refused(NULL, run_job, &good, HEDDLE_INVALID_ARGUMENT);
  refused(engine, NULL, &good, HEDDLE_INVALID_ARGUMENT);
  for (size_t size = 0; size < 3; ++size) {
    bad.struct_size = size == 2 ? sizeof bad + 8 : size * 8;
    refused(engine, run_job, &bad, HEDDLE_INVALID_ARGUMENT);
  }
  bad = good;
  bad.mutate = NULL;
  refused(engine, run_job, &bad, HEDDLE_INVALID_ARGUMENT);
  bad.mutate = &none;
  refused(engine, run_job, &bad, HEDDLE_INVALID_ARGUMENT);
  bad.mutate = &foreign;
  refused(engine, run_job, &bad, HEDDLE_INVALID_ARGUMENT);
  bad = good;
  bad.priority = 10001;
  refused(engine, run_job, &bad, HEDDLE_INVALID_ARGUMENT);
  bad.priority = 0;
  bad.group = (heddle_group*)a;
  refused(engine, run_job, &bad, HEDDLE_BAD_HANDLE);
  refused((heddle_engine*)a, run_job, &good, HEDDLE_BAD_HANDLE);
  OK(heddle_var_destroy(a));
  OK(heddle_var_destroy(foreign));
  OK(heddle_engine_destroy(engine, NULL));
  OK(heddle_engine_destroy(other, NULL));
}

static void prepared_ops(void) {
  int x = 0;
  struct job job = {.value = &x};
  heddle_engine *engine = new_engine(), *other = new_engine();
  heddle_var* a = new_var(engine);
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &a, .mutate_count = 1, .name = "again", .priority = 3};
  heddle_prepared* prepared = NULL;
  OK(heddle_prepare(engine, run_job, &job, destroy_job, &options, &prepared, NULL));
  for (int i = 0; i < 10; ++i) OK(heddle_push_prepared(engine, prepared, NULL));
  IS(heddle_push_prepared(other, prepared, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_wait(engine, a, NULL));
  CHECK(x == 10 && job.destroyed == 0);
  OK(heddle_prepared_destroy(prepared));
  OK(heddle_wait_all(engine, NULL));
  OK(heddle_var_destroy(a));
  OK(heddle_engine_destroy(engine, NULL));
  OK(heddle_engine_destroy(other, NULL));
  CHECK(job.destroyed == 1);
}

static void groups(void) {
  struct job job = {0};
  heddle_engine* engine = new_engine();
  heddle_var* a = new_var(engine);
  heddle_group *group = NULL, *late = NULL;
  int32_t cancelled = 1;
  OK(heddle_group_create(&group, NULL));
  OK(heddle_group_cancelled(group, &cancelled, NULL));
  CHECK(cancelled == 0);
  OK(heddle_group_cancel(group, NULL));
  OK(heddle_group_cancelled(group, &cancelled, NULL));
  CHECK(cancelled == 1);
  heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &a, .mutate_count = 1, .group = group, .skipped = job_skipped};
  OK(heddle_push(engine, run_job, &job, destroy_job, &options, NULL));
  OK(heddle_group_destroy(group));  // the pushed op keeps the group alive
  IS(heddle_wait(engine, a, NULL), HEDDLE_CANCELLED);
  CHECK(job.ran == 0 && job.skipped == 1 && job.skipped_because == HEDDLE_CANCELLED && job.destroyed == 1);

  OK(heddle_group_create(&late, NULL));
  OK(heddle_group_copy(late, &group, NULL));
  OK(heddle_group_set_timeout(group, 0, NULL));
  options.group = late;
  OK(heddle_push(engine, run_job, &job, destroy_job, &options, NULL));
  IS(heddle_wait(engine, a, NULL), HEDDLE_OVERDUE);
  OK(heddle_group_set_timeout(group, INT64_MAX, NULL));
  OK(heddle_push(engine, run_job, &job, destroy_job, &options, NULL));
  OK(heddle_wait(engine, a, NULL));  // the op does not read `a`, so the error is overwritten
  CHECK(job.ran == 1 && job.skipped == 2 && job.destroyed == 3);
  OK(heddle_group_destroy(group));
  OK(heddle_group_destroy(late));
  OK(heddle_var_destroy(a));
  OK(heddle_engine_destroy(engine, NULL));
}

struct inside {
  heddle_engine* engine;
  heddle_var* own;
  heddle_var* other;
  struct job job;
};

static heddle_status look_around(void* ctx, const heddle_run* run, heddle_error** error) {
  struct inside* inside = ctx;
  (void)error;
  heddle_run_info info = {.struct_size = sizeof info};
  OK(heddle_run_describe(run, &info));
  CHECK(strcmp(info.name, "look") == 0 && info.worker >= 0 && info.cancelled == 0);
  IS(heddle_engine_destroy(inside->engine, NULL), HEDDLE_WOULD_DEADLOCK);
  IS(heddle_wait_all(inside->engine, NULL), HEDDLE_WOULD_DEADLOCK);
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &inside->other, .mutate_count = 1};
  OK(heddle_push(inside->engine, run_job, &inside->job, destroy_job, &options, NULL));
  OK(heddle_wait(inside->engine, inside->other, NULL));
  CHECK(inside->job.ran == 1);
  const heddle_op_options after = {.struct_size = sizeof after, .mutate = &inside->own, .mutate_count = 1};
  OK(heddle_push(inside->engine, run_job, &inside->job, destroy_job, &after, NULL));
  IS(heddle_wait(inside->engine, inside->own, NULL), HEDDLE_WOULD_DEADLOCK);
  IS(heddle_wait_for(inside->engine, inside->own, 1000000000, NULL), HEDDLE_WOULD_DEADLOCK);
  return HEDDLE_OK;
}

static void waits_inside_an_op(void) {
  struct inside inside = {.engine = new_engine()};
  inside.own = new_var(inside.engine);
  inside.other = new_var(inside.engine);
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &inside.own, .mutate_count = 1, .name = "look"};
  OK(heddle_push(inside.engine, look_around, &inside, NULL, &options, NULL));
  OK(heddle_wait_all(inside.engine, NULL));
  CHECK(inside.job.ran == 2 && inside.job.destroyed == 2);
  OK(heddle_var_destroy(inside.own));
  OK(heddle_var_destroy(inside.other));
  OK(heddle_engine_destroy(inside.engine, NULL));
}

void test_ops(void) {
  values_arrive_in_order();
  refused_pushes_destroy_their_ctx_once();
  prepared_ops();
  groups();
  waits_inside_an_op();
}
