// Communicators and key-value stores in one process.
#include "support.h"

static const float kValues[] = {1, 2, 3, 4};

static void alone(heddle_engine* engine) {
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator* communicator = NULL;
  OK(heddle_communicator_create(&options, &communicator, NULL));
  int32_t rank = -1, size = -1;
  OK(heddle_communicator_rank(communicator, &rank, &size, NULL));
  CHECK(rank == 0 && size == 1);
  heddle_array* array = new_vector(engine, kValues, 4);
  OK(heddle_all_reduce(communicator, array, array, HEDDLE_SUM, NULL));
  holds(array, kValues, 4);
  heddle_var* var = NULL;
  OK(heddle_communicator_var(communicator, &var, NULL));
  OK(heddle_wait(engine, var, NULL));
  OK(heddle_var_destroy(var));
  OK(heddle_array_destroy(array));
  OK(heddle_communicator_destroy(communicator));
}

static void two_ranks(heddle_engine* engine) {
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator* ranks[2] = {NULL, NULL};
  if (is_scheduler("naive")) {  // ranks would wait for each other for ever
    IS(heddle_communicator_create_local(&options, 2, ranks, NULL), HEDDLE_INVALID_ARGUMENT);
    return;
  }
  OK(heddle_communicator_create_local(&options, 2, ranks, NULL));
  heddle_array *whole[2], *half[2];
  const float other[] = {10, 20, 30, 40}, zeros[2] = {0};
  for (int i = 0; i < 2; ++i) {
    whole[i] = new_vector(engine, i ? other : kValues, 4);
    half[i] = new_vector(engine, zeros, 2);
  }
  for (int i = 0; i < 2; ++i) OK(heddle_reduce_scatter(ranks[i], whole[i], half[i], HEDDLE_SUM, NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_all_gather(ranks[i], half[i], whole[i], NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_all_reduce(ranks[i], whole[i], whole[i], HEDDLE_MAX, NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_barrier(ranks[i], NULL));
  const float sums[] = {11, 22, 33, 44};
  for (int i = 0; i < 2; ++i) OK(heddle_communicator_wait(ranks[i], NULL));
  for (int i = 0; i < 2; ++i) holds(whole[i], sums, 4);
  OK(heddle_array_fill(half[1], 9, NULL));
  for (int i = 0; i < 2; ++i) OK(heddle_broadcast(ranks[i], half[i], 1, NULL));
  const float nines[] = {9, 9};
  holds(half[0], nines, 2);
  IS(heddle_all_reduce(ranks[0], whole[0], whole[0], 5, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_broadcast(ranks[0], whole[0], 2, NULL), HEDDLE_INVALID_ARGUMENT);
  // An error of the upper library, thrown in an op, at a wait of the lower one.
  heddle_var* var = NULL;
  OK(heddle_array_var(whole[0], &var, NULL));
  OK(heddle_all_reduce(ranks[0], whole[0], whole[0], HEDDLE_SUM, NULL));
  OK(heddle_all_reduce(ranks[1], half[1], half[1], HEDDLE_SUM, NULL));
  IS(heddle_wait(engine, var, NULL), HEDDLE_COMM_MISMATCH);
  IS(heddle_array_wait(half[1], NULL), HEDDLE_COMM_MISMATCH);
  OK(heddle_communicator_abort(ranks[0], "enough", NULL));
  OK(heddle_var_destroy(var));
  for (int i = 0; i < 2; ++i) {
    OK(heddle_array_destroy(whole[i]));
    OK(heddle_array_destroy(half[i]));
    OK(heddle_communicator_destroy(ranks[i]));
  }
}

static void local_store(heddle_engine* engine) {
  const heddle_kvstore_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_kvstore* store = NULL;
  IS(heddle_kvstore_create("telepathy", &options, &store, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_kvstore_create("local", &options, &store, NULL));
  int32_t rank = -1, workers = -1;
  OK(heddle_kvstore_rank(store, &rank, &workers, NULL));
  CHECK(rank == 0 && workers == 1);
  heddle_array *weight = new_vector(engine, kValues, 4), *grad = new_vector(engine, kValues, 4);
  const heddle_array* const both[] = {grad, grad};
  const heddle_array* const out[] = {weight};
  OK(heddle_kvstore_init(store, 1, weight, NULL));
  OK(heddle_kvstore_push(store, 1, both, 2, NULL, NULL));
  OK(heddle_kvstore_pull(store, 1, out, 1, NULL));
  const float twice[] = {2, 4, 6, 8}, zeros[4] = {0};
  holds(weight, twice, 4);
  const heddle_parameter lr = {"lr", 1};
  OK(heddle_kvstore_set_optimizer(store, "sgd", &lr, 1, NULL));
  OK(heddle_kvstore_push_pull(store, 1, both, 2, out, 1, NULL, NULL));
  holds(weight, zeros, 4);
  OK(heddle_kvstore_barrier(store, NULL));
  IS(heddle_kvstore_push(store, 2, both, 2, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_push(store, 1, NULL, 1, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_pull(store, 1, NULL, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(weight));
  OK(heddle_array_destroy(grad));
  OK(heddle_kvstore_destroy(store));
}

void test_ranks(void) {
  heddle_engine* engine = new_engine();
  alone(engine);
  two_ranks(engine);
  local_store(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
