// Helpers of the tests of the engine's C ABI.
#pragma once

#include <stdatomic.h>

#include "c_check.h"

// The `ctx` argument of an op. Counts what happens to the op.
struct job {
  atomic_int ran, destroyed, skipped;
  heddle_status skipped_because;
  int* value;
};

heddle_status run_job(void* ctx, const heddle_run* run, heddle_error** error);
void destroy_job(void* ctx);
void job_skipped(void* ctx, const heddle_error* why);
// Fails with HEDDLE_USER + 3 and the message "disk full".
heddle_status fail_job(void* ctx, const heddle_run* run, heddle_error** error);

heddle_var* new_var(heddle_engine* engine);

void test_ops(void);
void test_async(void);
void test_errors(void);
void test_handles(void);
void test_graphs(void);
void test_streams(void);
void test_failing_streams(void);
void test_process(void);
