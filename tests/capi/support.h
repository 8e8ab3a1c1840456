// Helpers of the tests of the C ABI of arrays.
#pragma once

#include <stdatomic.h>

#include <heddle/c/heddle.h>

#include "c_check.h"

// Makes an f32 array on the engine, with a copy of the values.
heddle_array* new_array(heddle_engine* engine, const float* values, const int64_t* shape, int32_t ndim);
heddle_array* new_vector(heddle_engine* engine, const float* values, int64_t count);
// Waits for the array and checks that its `count` values equal `values`.
#define holds(array, values, count) check_values(array, values, count, __FILE__, __LINE__)
void check_values(const heddle_array* array, const float* values, int64_t count, const char* file, int line);
const heddle_operator* op_named(const char* name);
heddle_value of_array(heddle_array* array);
// Applies the operator to one or two arrays; b may be null.
heddle_array* apply(const char* name, heddle_array* a, heddle_array* b);

// Makes an i64 array.
heddle_array* new_indices(heddle_engine* engine, const int64_t* numbers, int64_t count);
// Makes a row-sparse f32 matrix of that shape with `count` rows.
heddle_row_sparse* new_rows(heddle_engine* engine, const int64_t* rows, int64_t count, const float* values,
                            const int64_t* shape);
heddle_array* dense_of(heddle_row_sparse* rows);

// poison() pushes an op that mutates the array and fails with HEDDLE_USER + 3. clear_poison() pushes an op
// that overwrites the array.
void poison(heddle_engine* engine, const heddle_array* array);
void clear_poison(heddle_engine* engine, const heddle_array* array);

// Calls use(ranks[0], 0) and use(ranks[1], 1) on two threads. The calls may wait for each other, so the
// scheduler must not be naive.
void on_two_ranks(heddle_communicator* const* ranks, void (*use)(heddle_communicator* rank, int index));

// A destroy function for tests: increments the atomic_int at ctx.
void give_back(void* ctx);

void test_arrays(void);
void test_one_engine(void);
void test_operators(void);
void test_autograd(void);
void test_optimizers(void);
void test_files(void);
void test_dlpack(void);
void test_gpu(void);
void test_ranks(void);
void test_stores(void);
void test_trainers(void);
void test_metrics(void);
void test_modules(void);
