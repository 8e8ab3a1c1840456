// What the tests of the C ABI of arrays share.
#pragma once

#include <stdatomic.h>

#include <heddle/c/heddle.h>

#include "c_check.h"

// An f32 array of the engine, with a copy of the values.
heddle_array* new_array(heddle_engine* engine, const float* values, const int64_t* shape, int32_t ndim);
heddle_array* new_vector(heddle_engine* engine, const float* values, int64_t count);
// Waits; `values` are what the array holds, `count` of them.
void holds(const heddle_array* array, const float* values, int64_t count);
const heddle_operator* op_named(const char* name);
heddle_value of_array(heddle_array* array);
// The result of an operator with these one or two arrays; b may be null.
heddle_array* apply(const char* name, heddle_array* a, heddle_array* b);

// Counts in the atomic_int that ctx is.
void give_back(void* ctx);

void test_arrays(void);
void test_one_engine(void);
void test_operators(void);
void test_autograd(void);
void test_files(void);
void test_dlpack(void);
void test_ranks(void);
