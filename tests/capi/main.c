// Everything that the C ABI of arrays has, used from C11. The scheduler is that of the environment.
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

void holds(const heddle_array* array, const float* values, int64_t count) {
  float got[64];
  const size_t bytes = (size_t)count * sizeof *got;
  CHECK(bytes <= sizeof got);
  OK(heddle_array_read(array, got, bytes, NULL));
  for (int64_t i = 0; i < count; ++i) {
    const float difference = got[i] - values[i];
    CHECK(difference < 1e-5F && difference > -1e-5F);
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

void give_back(void* ctx) { atomic_fetch_add((atomic_int*)ctx, 1); }

int main(void) {
  test_arrays();
  test_one_engine();
  test_operators();
  test_autograd();
  test_files();
  test_dlpack();
  test_ranks();
  return 0;
}
