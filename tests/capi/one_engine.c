// Both libraries share one engine: a program's own ops can work on arrays, and errors pass from one library
// to the other.
#include "support.h"

struct work {
  heddle_array* array;
  float factor;
};

static heddle_status multiply(void* ctx, const heddle_run* run, heddle_error** error) {
  const struct work* work = ctx;
  void* data = NULL;
  (void)run;
  if (heddle_array_data(work->array, &data, error) != HEDDLE_OK) return HEDDLE_USER;
  float* values = data;
  for (int i = 0; i < 3; ++i) values[i] *= work->factor;
  return HEDDLE_OK;
}

static heddle_status add_up(void* ctx, const heddle_run* run, heddle_error** error) {
  const struct work* work = ctx;
  const void* data = NULL;
  (void)run;
  if (heddle_array_read_data(work->array, &data, error) != HEDDLE_OK) return HEDDLE_USER;
  const float* values = data;
  for (int i = 0; i < 3; ++i) ((struct work*)ctx)->factor += values[i];
  return HEDDLE_OK;
}

static heddle_status fail(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)ctx, (void)run;
  OK(heddle_error_create(HEDDLE_USER + 3, "disk full", NULL, error));
  return HEDDLE_USER + 3;
}

static const float kValues[] = {1, 2, 3};

static void ops_work_on_arrays(heddle_engine* engine) {
  heddle_array* array = new_vector(engine, kValues, 3);
  heddle_var* var = NULL;
  OK(heddle_array_var(array, &var, NULL));
  struct work ten = {array, 10}, sum = {array, 0};
  const heddle_op_options mutates = {.struct_size = sizeof mutates, .mutate = &var, .mutate_count = 1};
  const heddle_op_options reads = {.struct_size = sizeof reads, .read = &var, .read_count = 1};
  OK(heddle_push(engine, multiply, &ten, NULL, &mutates, NULL));
  OK(heddle_push(engine, add_up, &sum, NULL, &reads, NULL));
  OK(heddle_push(engine, multiply, &ten, NULL, &mutates, NULL));  // this op waits for the sum
  OK(heddle_wait(engine, var, NULL));
  CHECK(sum.factor == 60);
  const float hundreds[] = {100, 200, 300}, squares[] = {10000, 40000, 90000};
  holds(array, hundreds, 3);
  heddle_array* square = apply("square", array, NULL);  // this op waits for the one that wrote the array
  OK(heddle_push(engine, multiply, &ten, NULL, &mutates, NULL));
  holds(square, squares, 3);
  OK(heddle_array_wait(array, NULL));
  OK(heddle_array_destroy(square));
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
}

// The access checker sees accesses to arrays inside ops that were pushed by the engine's C ABI.
static void undeclared_access_is_found(heddle_engine* engine) {
  if (!is_checked()) return;
  heddle_array* array = new_vector(engine, kValues, 3);
  heddle_var *var = NULL, *other = NULL;
  OK(heddle_array_var(array, &var, NULL));
  OK(heddle_var_create(engine, &other, NULL));
  struct work ten = {array, 10};
  const heddle_op_options reads = {
      .struct_size = sizeof reads, .read = &var, .read_count = 1, .mutate = &other, .mutate_count = 1};
  OK(heddle_push(engine, multiply, &ten, NULL, &reads, NULL));
  IS(heddle_wait(engine, other, NULL), HEDDLE_UNDECLARED_ACCESS);
  OK(heddle_var_destroy(other));
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
}

static void errors_travel_through_both(heddle_engine* engine) {
  static const heddle_site here = HEDDLE_SITE;
  static const heddle_site there = {"there.c", "square", 7, 0};
  heddle_array* array = new_vector(engine, kValues, 3);
  heddle_var* var = NULL;
  OK(heddle_array_var(array, &var, NULL));
  const heddle_op_options loads = {
      .struct_size = sizeof loads, .mutate = &var, .mutate_count = 1, .name = "load", .site = &here};
  OK(heddle_push(engine, fail, NULL, NULL, &loads, NULL));
  const heddle_site* before = &here;
  OK(heddle_site_set(&there, &before));
  CHECK(!before);
  heddle_array* square = apply("square", array, NULL);
  OK(heddle_site_set(NULL, &before));
  CHECK(before == &there);
  float got[3];
  for (int i = 0; i < 3; ++i) {  // read, describe and wait report the same error
    heddle_error* error = NULL;
    char* text = NULL;
    if (i == 0) IS(heddle_array_wait(square, &error), HEDDLE_USER + 3);
    if (i == 1) IS(heddle_array_to_text(square, &text, &error), HEDDLE_USER + 3);
    if (i == 2) IS(heddle_array_read(square, got, sizeof got, &error), HEDDLE_USER + 3);
    heddle_error_info info = {.struct_size = sizeof info};
    OK(heddle_error_describe(error, &info));
    CHECK(strcmp(info.message, "disk full") == 0 && strcmp(info.op, "load") == 0);
    CHECK(info.line == here.line && info.skipped_count >= 1);
    CHECK(strcmp(info.skipped[0], "square at there.c:7") == 0);
    OK(heddle_error_destroy(error));
  }
  OK(heddle_array_destroy(square));
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
}

// An error of the array library that is thrown inside an op keeps its type when it passes through the
// engine's library.
static void types_of_errors_are_kept(heddle_engine* engine) {
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  const int64_t huge = INT64_C(1) << 58;
  heddle_array* array = NULL;
  heddle_var* var = NULL;
  OK(heddle_array_zeros(&options, &huge, 1, &array, NULL));
  OK(heddle_array_var(array, &var, NULL));
  IS(heddle_wait(engine, var, NULL), HEDDLE_OUT_OF_MEMORY);
  IS(heddle_array_wait(array, NULL), HEDDLE_OUT_OF_MEMORY);
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
  const char* name = NULL;
  OK(heddle_status_name(HEDDLE_COMM_MISMATCH, &name));
  CHECK(strcmp(name, "HEDDLE_COMM_MISMATCH") == 0);
  OK(heddle_status_name(HEDDLE_STORE_ERROR, &name));
  CHECK(strcmp(name, "HEDDLE_STORE_ERROR") == 0);
  OK(heddle_status_name(999, &name));
  CHECK(strcmp(name, "an unknown status") == 0);
}

static void arrays_outlive_their_engine(void) {
  heddle_engine* engine = new_engine();
  heddle_array *array = new_vector(engine, kValues, 3), *copy = NULL, *view = NULL;
  OK(heddle_engine_destroy(engine, NULL));
  heddle_array_info info = {.struct_size = sizeof info};
  OK(heddle_array_describe(array, &info, NULL));
  OK(heddle_array_copy(array, &copy, NULL));
  IS(heddle_array_fill(array, 1, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_array_wait(copy, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_array_index(copy, 0, &view, NULL), HEDDLE_BAD_HANDLE);
  const heddle_value value = of_array(array);
  IS(heddle_operator_apply(op_named("square"), &value, 1, NULL, 0, NULL, &view, NULL), HEDDLE_BAD_HANDLE);
  OK(heddle_array_destroy(copy));
  OK(heddle_array_destroy(array));
}

static void the_default_engine_is_one(void) {
  heddle_engine* engine = NULL;
  OK(heddle_engine_default(&engine, NULL));
  heddle_array* array = new_vector(NULL, kValues, 3);
  heddle_var* var = NULL;
  OK(heddle_array_var(array, &var, NULL));
  const heddle_op_options loads = {
      .struct_size = sizeof loads, .mutate = &var, .mutate_count = 1, .name = "load"};
  OK(heddle_push(engine, fail, NULL, NULL, &loads, NULL));  // refused if the var belonged to another engine
  IS(heddle_array_wait(array, NULL), HEDDLE_USER + 3);
  OK(heddle_engine_destroy(engine, NULL));
  OK(heddle_array_fill(array, 1, NULL));  // only the handle was destroyed; the array keeps the engine
  const float ones[] = {1, 1, 1};
  holds(array, ones, 3);
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
}

void test_one_engine(void) {
  heddle_engine* engine = new_engine();
  ops_work_on_arrays(engine);
  undeclared_access_is_found(engine);
  errors_travel_through_both(engine);
  types_of_errors_are_kept(engine);
  OK(heddle_engine_destroy(engine, NULL));
  arrays_outlive_their_engine();
  the_default_engine_is_one();
}
