// What the tests of the C ABI of arrays share.
#pragma once

#include <stdatomic.h>

#include <heddle/c/heddle.h>

#include "c_check.h"

// An f32 array of the engine, with a copy of the values.
heddle_array* new_array(heddle_engine* engine, const float* values, const int64_t* shape, int32_t ndim);
heddle_array* new_vector(heddle_engine* engine, const float* values, int64_t count);
// Waits; `values` are what the array holds, `count` of them.
#define holds(array, values, count) check_values(array, values, count, __FILE__, __LINE__)
void check_values(const heddle_array* array, const float* values, int64_t count, const char* file, int line);
const heddle_operator* op_named(const char* name);
heddle_value of_array(heddle_array* array);
// The result of an operator with these one or two arrays; b may be null.
heddle_array* apply(const char* name, heddle_array* a, heddle_array* b);

// i64.
heddle_array* new_indices(heddle_engine* engine, const int64_t* numbers, int64_t count);
// `count` rows of an f32 array of that shape, which has two dimensions.
heddle_row_sparse* new_rows(heddle_engine* engine, const int64_t* rows, int64_t count, const float* values,
                            const int64_t* shape);
heddle_array* dense_of(heddle_row_sparse* rows);

// An op that changes the array fails with HEDDLE_USER + 3. Clearing that is an op too.
void poison(heddle_engine* engine, const heddle_array* array);
void clear_poison(heddle_engine* engine, const heddle_array* array);

// Calls use(rank, i) for ranks 0 and 1 of this process, on two threads, which wait for each other in it; `ranks` are the
// communicators. Not with the scheduler naive.
void on_two_ranks(heddle_communicator* const* ranks, void (*use)(heddle_communicator* rank, int index));

// Counts in the atomic_int that ctx is.
void give_back(void* ctx);

void test_arrays(void);
void test_one_engine(void);
void test_operators(void);
void test_autograd(void);
void test_optimizers(void);
void test_files(void);
void test_dlpack(void);
void test_ranks(void);
void test_stores(void);
void test_trainers(void);
void test_modules(void);
