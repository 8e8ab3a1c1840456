// Uses all of the C ABI of arrays from C11. HEDDLE_SCHEDULER chooses the scheduler.
#include <pthread.h>

#include "support.h"

heddle_array* new_array(heddle_engine* engine, const float* values, const int64_t* shape, int32_t ndim) {
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  size_t bytes = sizeof *values;
  for (int32_t i = 0; i < ndim; ++i) bytes *= (size_t)shape[i];
  heddle_array* array = NULL;
  OK(heddle_array_from_memory(&options, shape, ndim, values, bytes, &array, NULL));
  return array;
}

heddle_array* new_vector(heddle_engine* engine, const float* values, int64_t count) {
  return new_array(engine, values, &count, 1);
}

void check_values(const heddle_array* array, const float* values, int64_t count, const char* file, int line) {
  float got[64];
  const size_t bytes = (size_t)count * sizeof *got;
  CHECK(bytes <= sizeof got);
  check_status(heddle_array_read(array, got, bytes, NULL), HEDDLE_OK, "the array's values", file, line);
  for (int64_t i = 0; i < count; ++i) {
    const float difference = got[i] - values[i];
    check(difference < 1e-5F && difference > -1e-5F, "the array has these values", file, line);
  }
}

const heddle_operator* op_named(const char* name) {
  const heddle_operator* op = NULL;
  OK(heddle_operator_find(name, &op, NULL));
  return op;
}

heddle_value of_array(heddle_array* array) {
  const heddle_value value = {.kind = HEDDLE_VALUE_ARRAY, .as.array = array};
  return value;
}

heddle_array* apply(const char* name, heddle_array* a, heddle_array* b) {
  const heddle_value values[] = {of_array(a), of_array(b)};
  heddle_array* result = NULL;
  OK(heddle_operator_apply(op_named(name), values, b ? 2 : 1, NULL, 0, NULL, &result, NULL));
  return result;
}

heddle_array* new_indices(heddle_engine* engine, const int64_t* numbers, int64_t count) {
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine, .dtype = HEDDLE_I64};
  heddle_array* array = NULL;
  const size_t bytes = (size_t)count * sizeof *numbers;
  OK(heddle_array_from_memory(&options, &count, 1, numbers, bytes, &array, NULL));
  return array;
}

heddle_row_sparse* new_rows(heddle_engine* engine, const int64_t* rows, int64_t count, const float* values,
                            const int64_t* shape) {
  const int64_t part[] = {count, shape[1]};
  heddle_array *which = new_indices(engine, rows, count), *what = new_array(engine, values, part, 2);
  const heddle_value arguments[] = {
      of_array(which), of_array(what), {.kind = HEDDLE_VALUE_INTEGERS, .count = 2, .as.integers = shape}};
  heddle_value result = {0};
  OK(heddle_operator_call(op_named("row_sparse"), arguments, 3, NULL, 0, NULL, &result, 1, NULL));
  OK(heddle_array_destroy(which));
  OK(heddle_array_destroy(what));
  return result.as.row_sparse;
}

heddle_array* dense_of(heddle_row_sparse* rows) {
  const heddle_value value = {.kind = HEDDLE_VALUE_ROW_SPARSE, .as.row_sparse = rows};
  heddle_array* dense = NULL;
  OK(heddle_operator_apply(op_named("to_dense"), &value, 1, NULL, 0, NULL, &dense, NULL));
  return dense;
}

static heddle_status fail(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)ctx, (void)run;
  OK(heddle_error_create(HEDDLE_USER + 3, "disk full", NULL, error));
  return HEDDLE_USER + 3;
}

void poison(heddle_engine* engine, const heddle_array* array) {
  heddle_var* var = NULL;
  OK(heddle_array_var(array, &var, NULL));
  const heddle_op_options mutates = {.struct_size = sizeof mutates, .mutate = &var, .mutate_count = 1};
  OK(heddle_push(engine, fail, NULL, NULL, &mutates, NULL));
  OK(heddle_var_destroy(var));
}

void clear_poison(heddle_engine* engine, const heddle_array* array) {
  heddle_var* var = NULL;
  OK(heddle_array_var(array, &var, NULL));
  OK(heddle_clear_error(engine, var, NULL, NULL));
  OK(heddle_var_destroy(var));
}

struct rank {
  heddle_communicator* communicator;
  void (*use)(heddle_communicator* rank, int index);
  int index;
};

static void* run_rank(void* ctx) {
  const struct rank* rank = ctx;
  rank->use(rank->communicator, rank->index);
  return NULL;
}

void on_two_ranks(heddle_communicator* const* ranks, void (*use)(heddle_communicator* rank, int index)) {
  struct rank all[] = {{ranks[0], use, 0}, {ranks[1], use, 1}};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_rank, &all[1]) == 0);
  run_rank(&all[0]);
  CHECK(pthread_join(thread, NULL) == 0);
}

void give_back(void* ctx) { atomic_fetch_add((atomic_int*)ctx, 1); }

int main(void) {
  test_arrays();
  test_one_engine();
  test_operators();
  test_autograd();
  test_optimizers();
  test_files();
  test_dlpack();
  test_gpu();
  test_ranks();
  test_stores();
  test_trainers();
  test_metrics();
  test_modules();
  return 0;
}
