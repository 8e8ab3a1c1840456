// Uses all of the engine's C ABI from C11. HEDDLE_SCHEDULER chooses the scheduler.
#include "check.h"

heddle_status run_job(void* ctx, const heddle_run* run, heddle_error** error) {
  struct job* job = ctx;
  (void)run, (void)error;
  if (job->value) ++*job->value;
  atomic_fetch_add(&job->ran, 1);
  return HEDDLE_OK;
}

void destroy_job(void* ctx) { atomic_fetch_add(&((struct job*)ctx)->destroyed, 1); }

void job_skipped(void* ctx, const heddle_error* why) {
  struct job* job = ctx;
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(why, &info));
  job->skipped_because = info.code;
  atomic_fetch_add(&job->skipped, 1);
}

heddle_status fail_job(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)ctx, (void)run;
  OK(heddle_error_create(HEDDLE_USER + 3, "disk full", NULL, error));
  return HEDDLE_USER + 3;
}

heddle_var* new_var(heddle_engine* engine) {
  heddle_var* var = NULL;
  OK(heddle_var_create(engine, &var, NULL));
  return var;
}

int main(void) {
  test_ops();
  test_async();
  test_errors();
  test_handles();
  test_graphs();
  test_streams();
  test_failing_streams();
  test_process();
  return 0;
}
