// Asynchronous ops that are completed by other threads, timed waits, progress sources.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "check.h"

enum how { DONE, FAIL, FAIL_WITHOUT_ERROR, DROP };

struct async_op {
  struct job job;
  enum how how;
  heddle_completion* completion;
  pthread_t thread;
  sem_t started, may_end;
};

static void complete(struct async_op* op) {
  heddle_error* error = NULL;
  switch (op->how) {
    case DONE:
      OK(heddle_completion_done(op->completion));
      return;
    case FAIL:
      OK(heddle_error_create(HEDDLE_USER, "no route", NULL, &error));
      OK(heddle_completion_fail(op->completion, error));
      return;
    case FAIL_WITHOUT_ERROR:
      OK(heddle_completion_fail(op->completion, NULL));
      return;
    case DROP:
      OK(heddle_completion_drop(op->completion));
      return;
  }
}

static void* complete_elsewhere(void* ctx) {
  complete(ctx);
  return NULL;
}

static heddle_status start_thread(void* ctx, const heddle_run* run, heddle_completion* completion,
                                  heddle_error** error) {
  struct async_op* op = ctx;
  (void)run, (void)error;
  op->completion = completion;
  CHECK(pthread_create(&op->thread, NULL, complete_elsewhere, op) == 0);
  return HEDDLE_OK;
}

static heddle_status complete_here(void* ctx, const heddle_run* run, heddle_completion* completion,
                                   heddle_error** error) {
  struct async_op* op = ctx;
  (void)run, (void)error;
  op->completion = completion;
  complete(op);
  return HEDDLE_OK;
}

static heddle_status cannot_start(void* ctx, const heddle_run* run, heddle_completion* completion,
                                  heddle_error** error) {
  (void)completion;
  return fail_job(ctx, run, error);
}

static void ends_with(heddle_engine* engine, heddle_async_fn fn, enum how how, heddle_status want) {
  struct async_op op = {.how = how};
  heddle_var* a = new_var(engine);
  const heddle_op_options options = {.struct_size = sizeof options, .mutate = &a, .mutate_count = 1};
  OK(heddle_push_async(engine, fn, &op, destroy_job, &options, NULL));
  IS(heddle_wait(engine, a, NULL), want);
  if (fn == start_thread) CHECK(pthread_join(op.thread, NULL) == 0);
  CHECK(op.job.destroyed == 1);
  OK(heddle_var_destroy(a));
}

static void completions(void) {
  heddle_engine* engine = new_engine();
  const heddle_async_fn both[] = {start_thread, complete_here};
  for (int i = 0; i < 2; ++i) {
    ends_with(engine, both[i], DONE, HEDDLE_OK);
    ends_with(engine, both[i], FAIL, HEDDLE_USER);
    ends_with(engine, both[i], FAIL_WITHOUT_ERROR, HEDDLE_FAILED);
    ends_with(engine, both[i], DROP, HEDDLE_DROPPED);
  }
  ends_with(engine, cannot_start, DONE, HEDDLE_USER + 3);
  struct job job = {0};
  IS(heddle_push_async(engine, NULL, &job, destroy_job, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_push_async(NULL, start_thread, &job, destroy_job, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(job.destroyed == 2);
  OK(heddle_engine_destroy(engine, NULL));
}

static heddle_status keep_completion(void* ctx, const heddle_run* run, heddle_completion* completion,
                                     heddle_error** error) {
  struct async_op* op = ctx;
  (void)run, (void)error;
  op->completion = completion;
  sem_post(&op->started);
  return HEDDLE_OK;
}

struct pusher {
  heddle_engine* engine;
  heddle_var* var;
  struct async_op op;
  int asked_for_all;
};

static void* push_and_wait(void* ctx) {
  struct pusher* pusher = ctx;
  const heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &pusher->var, .mutate_count = 1};
  OK(heddle_push_async(pusher->engine, keep_completion, &pusher->op, destroy_job, &options, NULL));
  OK(heddle_wait(pusher->engine, pusher->var, NULL));  // under fuzz the op runs on the waiting thread
  return NULL;
}

// Another thread pushes, since a push under `naive` returns only when the op has ended; this thread waits
// with timeouts.
static void waits_that_time_out(void) {
  struct pusher pusher = {.engine = new_engine()};
  pusher.var = new_var(pusher.engine);
  CHECK(sem_init(&pusher.op.started, 0, 0) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, push_and_wait, &pusher) == 0);
  sem_wait(&pusher.op.started);
  heddle_error* error = NULL;
  IS(heddle_wait_for(pusher.engine, pusher.var, 1000000, &error), HEDDLE_TIMEOUT);
  OK(heddle_error_destroy(error));
  IS(heddle_wait_for(pusher.engine, pusher.var, 0, NULL), HEDDLE_TIMEOUT);
  IS(heddle_wait_for(pusher.engine, pusher.var, INT64_MIN, NULL), HEDDLE_TIMEOUT);
  char* text = NULL;
  OK(heddle_describe_pending(pusher.engine, &text, NULL));
  CHECK(strlen(text) > 0);
  OK(heddle_text_destroy(text));
  OK(heddle_pending_dot(pusher.engine, &text, NULL));
  CHECK(strstr(text, "digraph"));
  OK(heddle_text_destroy(text));
  OK(heddle_completion_done(pusher.op.completion));
  OK(heddle_wait_for(pusher.engine, pusher.var, INT64_MAX, NULL));
  OK(heddle_wait_for(pusher.engine, pusher.var, 60000000000, NULL));
  CHECK(pthread_join(thread, NULL) == 0);
  OK(heddle_var_destroy(pusher.var));
  OK(heddle_engine_destroy(pusher.engine, NULL));
  CHECK(pusher.op.job.destroyed == 1);
}

static void end_what_is_waited_for(void* ctx, const heddle_var* var, const heddle_waiting* waiting) {
  struct pusher* pusher = ctx;
  int32_t over = 1;
  heddle_var* copy = NULL;
  OK(heddle_waiting_over(waiting, &over));
  if (var) OK(heddle_var_copy(var, &copy, NULL));
  if (!var) ++pusher->asked_for_all;
  OK(heddle_var_destroy(copy));
  if (over || sem_trywait(&pusher->op.started) != 0) return;
  OK(heddle_completion_done(pusher->op.completion));
}

static void destroy_pusher(void* ctx) { destroy_job(&((struct pusher*)ctx)->op.job); }

static void progress_sources(void) {
  if (!is_scheduler("threaded")) return;
  struct pusher pusher = {.engine = new_engine()};
  pusher.var = new_var(pusher.engine);
  CHECK(sem_init(&pusher.op.started, 0, 0) == 0);
  heddle_progress* progress = NULL;
  OK(heddle_progress_add(pusher.engine, end_what_is_waited_for, &pusher, destroy_pusher, &progress, NULL));
  const heddle_op_options options = {.struct_size = sizeof options, .mutate = &pusher.var, .mutate_count = 1};
  OK(heddle_push_async(pusher.engine, keep_completion, &pusher.op, NULL, &options, NULL));
  // A timed wait asks the source once: if the op had not started, it times out, and the next wait asks again.
  while (heddle_wait_for(pusher.engine, pusher.var, 0, NULL) == HEDDLE_TIMEOUT) {
    int value = 0;
    sem_getvalue(&pusher.op.started, &value);
    if (value > 0) break;
  }
  OK(heddle_wait(pusher.engine, pusher.var, NULL));
  CHECK(pusher.asked_for_all == 0);
  OK(heddle_push_async(pusher.engine, keep_completion, &pusher.op, NULL, &options, NULL));
  for (int value = 0; value == 0; sched_yield()) sem_getvalue(&pusher.op.started, &value);
  OK(heddle_wait_all(pusher.engine, NULL));
  CHECK(pusher.asked_for_all > 0);
  OK(heddle_progress_destroy(progress));
  CHECK(pusher.op.job.destroyed == 1);
  IS(heddle_progress_add(NULL, end_what_is_waited_for, &pusher, destroy_pusher, &progress, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(pusher.op.job.destroyed == 2);
  OK(heddle_var_destroy(pusher.var));
  OK(heddle_engine_destroy(pusher.engine, NULL));
}

void test_async(void) {
  completions();
  waits_that_time_out();
  progress_sources();
}
