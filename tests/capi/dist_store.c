// A worker of a store on servers: heddle launch -n 2 --servers 1 -- capi_dist_store dist_sync
#include <string.h>

#include <heddle/c/heddle.h>

#include "c_check.h"

static const heddle_key kWeight = {.name = "weight"}, kUnknown = {.number = 7};

static heddle_array* both_are(float value) {
  const float values[] = {value, value};
  const int64_t count = 2;
  heddle_array* array = NULL;
  OK(heddle_array_from_memory(NULL, &count, 1, values, sizeof values, &array, NULL));
  return array;
}

static float pulled(heddle_kvstore* store) {
  heddle_array* out = both_are(-1);
  const heddle_array* const list[] = {out};
  OK(heddle_kvstore_pull(store, kWeight, list, 1, NULL));
  float values[2];
  OK(heddle_array_read(out, values, sizeof values, NULL));
  CHECK(values[0] == values[1]);
  OK(heddle_array_destroy(out));
  return values[0];
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  const heddle_kvstore_options options = {.struct_size = sizeof options};
  heddle_kvstore* store = NULL;
  OK(heddle_kvstore_create(arguments[1], &options, &store, NULL));
  const char* type = NULL;
  OK(heddle_kvstore_type(store, &type, NULL));
  CHECK(strcmp(type, arguments[1]) == 0);
  int32_t rank = -1, workers = -1;
  OK(heddle_kvstore_rank(store, &rank, &workers, NULL));
  CHECK(workers == 2 && (rank == 0 || rank == 1));

  heddle_array *weight = both_are(rank == 0 ? 10 : 20), *grad = both_are((float)rank + 1);
  const heddle_array* const grads[] = {grad};
  OK(heddle_kvstore_init(store, kWeight, weight, NULL));
  CHECK(pulled(store) == 10);  // the value of rank 0, which initialises the key
  const heddle_parameter lr = {"lr", 0.5};
  OK(heddle_kvstore_set_optimizer(store, "sgd", &lr, 1, NULL));
  OK(heddle_kvstore_barrier(store, NULL));
  OK(heddle_kvstore_push(store, kWeight, grads, 1, NULL, NULL));
  const float now = pulled(store), own = 10 - 0.5F * (float)(rank + 1);
  // dist_sync adds the gradients of both workers, 1 and 2. dist_async has applied this worker's gradient, and
  // perhaps the other one's.
  CHECK(now == 8.5F || (strcmp(type, "dist_async") == 0 && now == own));
  OK(heddle_kvstore_barrier(store, NULL));
  const heddle_array* const unknown[] = {weight};
  IS(heddle_kvstore_pull(store, kUnknown, unknown, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(weight));
  OK(heddle_array_destroy(grad));
  OK(heddle_kvstore_destroy(store));
  return 0;
}
