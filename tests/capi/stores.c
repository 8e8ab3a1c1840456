// Key-value stores in one process.
#include "support.h"

static const float kValues[] = {1, 2, 3, 4};
static const float kZeros[4] = {0};
static const heddle_key kOne = {.number = 1}, kUnknown = {.number = 2}, kName = {.name = "encoder.weight"};

static heddle_kvstore* new_store(heddle_engine* engine) {
  const heddle_kvstore_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_kvstore* store = NULL;
  OK(heddle_kvstore_create("local", &options, &store, NULL));
  return store;
}

static void pulls(heddle_kvstore* store, heddle_key key, heddle_engine* engine, const float* values) {
  heddle_array* out = new_vector(engine, kZeros, 4);
  const heddle_array* const list[] = {out};
  OK(heddle_kvstore_pull(store, key, list, 1, NULL));
  holds(out, values, 4);
  OK(heddle_array_destroy(out));
}

static void stores_are_described(heddle_engine* engine) {
  heddle_kvstore_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_kvstore* store = NULL;
  IS(heddle_kvstore_create("telepathy", &options, &store, NULL), HEDDLE_INVALID_ARGUMENT);
  options.placement = "round_robin";
  IS(heddle_kvstore_create("local", &options, &store, NULL), HEDDLE_INVALID_ARGUMENT);
  options.placement = NULL;
  options.compression = "fp16";
  IS(heddle_kvstore_create("local", &options, &store, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_kvstore_create("allreduce", &options, &store, NULL));
  const char* type = NULL;
  OK(heddle_kvstore_type(store, &type, NULL));
  CHECK(strcmp(type, "allreduce") == 0);
  int32_t rank = -1, workers = -1;
  OK(heddle_kvstore_rank(store, &rank, &workers, NULL));
  CHECK(rank == 0 && workers == 1);
  OK(heddle_kvstore_barrier(store, NULL));
  OK(heddle_kvstore_destroy(store));
}

static void values_are_pushed_and_pulled(heddle_engine* engine) {
  heddle_kvstore* store = new_store(engine);
  heddle_array *weight = new_vector(engine, kValues, 4), *grad = new_vector(engine, kValues, 4);
  const heddle_array* const both[] = {grad, grad};
  const heddle_array* const out[] = {weight};
  OK(heddle_kvstore_init(store, kOne, weight, NULL));
  OK(heddle_kvstore_push(store, kOne, both, 2, NULL, NULL));
  const float twice[] = {2, 4, 6, 8};
  pulls(store, kOne, engine, twice);
  const heddle_parameter lr = {"lr", 0.5};
  OK(heddle_kvstore_set_optimizer(store, "sgd", &lr, 1, NULL));
  const double none = 0;
  const heddle_update_options still = {.struct_size = sizeof still, .lr = &none};
  OK(heddle_kvstore_push(store, kOne, both, 2, &still, NULL));
  pulls(store, kOne, engine, twice);
  OK(heddle_kvstore_push_pull(store, kOne, both, 2, out, 1, NULL, NULL));
  holds(weight, kValues, 4);
  OK(heddle_kvstore_assign(store, kOne, grad, NULL));  // sets the value without the optimizer
  pulls(store, kOne, engine, kValues);
  IS(heddle_kvstore_push(store, kUnknown, both, 2, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_push(store, kOne, NULL, 1, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_pull(store, kOne, NULL, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_assign(store, kUnknown, grad, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_engine* other = new_engine();
  heddle_array* foreign = new_vector(other, kValues, 4);
  IS(heddle_kvstore_init(store, kUnknown, foreign, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(foreign));
  OK(heddle_engine_destroy(other, NULL));
  OK(heddle_array_destroy(weight));
  OK(heddle_array_destroy(grad));
  OK(heddle_kvstore_destroy(store));
}

static void keys_have_names(heddle_engine* engine) {
  heddle_kvstore* store = new_store(engine);
  heddle_array *weight = new_vector(engine, kValues, 4), *out = new_vector(engine, kZeros, 4);
  const heddle_array* const list[] = {out};
  OK(heddle_kvstore_broadcast(store, kName, weight, list, 1, NULL));
  holds(out, kValues, 4);
  const heddle_key seven = {.number = 7}, seven_too = {.name = "7"}, bad = {.name = "a\nb"};
  OK(heddle_kvstore_init(store, seven_too, weight, NULL));
  pulls(store, seven, engine, kValues);
  IS(heddle_kvstore_init(store, bad, weight, NULL), HEDDLE_INVALID_ARGUMENT);
  // the key is initialised already
  IS(heddle_kvstore_broadcast(store, kName, weight, list, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(out));
  OK(heddle_array_destroy(weight));
  OK(heddle_kvstore_destroy(store));
}

static void lists_of_keys(heddle_engine* engine) {
  heddle_kvstore* store = new_store(engine);
  const heddle_key keys[] = {kOne, kName};
  heddle_array* arrays[4];
  for (int i = 0; i < 4; ++i) arrays[i] = new_vector(engine, i == 1 ? kValues : kZeros, 4);
  const heddle_array* const values[] = {arrays[0], arrays[1]};
  const heddle_array* const out[] = {arrays[2], arrays[3]};
  for (int i = 0; i < 2; ++i) OK(heddle_kvstore_init(store, keys[i], values[0], NULL));
  OK(heddle_kvstore_push_list(store, keys, values, 2, NULL, NULL));
  OK(heddle_kvstore_pull_list(store, keys, out, 2, NULL));
  holds(out[0], kZeros, 4);
  holds(out[1], kValues, 4);
  const heddle_array* const turned[] = {arrays[1], arrays[0]};
  OK(heddle_kvstore_push_pull_list(store, keys, turned, out, 2, NULL, NULL));
  holds(out[0], kValues, 4);
  holds(out[1], kZeros, 4);
  IS(heddle_kvstore_push_list(store, NULL, values, 2, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_pull_list(store, keys, NULL, 2, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_kvstore_pull_list(store, NULL, NULL, 0, NULL));
  for (int i = 0; i < 4; ++i) OK(heddle_array_destroy(arrays[i]));
  OK(heddle_kvstore_destroy(store));
}

static void rows_alone(heddle_engine* engine) {
  heddle_kvstore* store = new_store(engine);
  const float table[] = {1, 2, 3, 4, 5, 6}, pushed[] = {10, 20};
  const int64_t shape[] = {3, 2}, two_rows[] = {2, 2}, row = 1, wanted[] = {2, 1}, beyond[] = {0, 3};
  heddle_array *weight = new_array(engine, table, shape, 2), *out = new_array(engine, kZeros, two_rows, 2),
               *indices = new_indices(engine, wanted, 2), *wrong = new_indices(engine, beyond, 2);
  heddle_row_sparse *rows = new_rows(engine, &row, 1, pushed, shape), *pulled = NULL;
  const heddle_row_sparse* const twice[] = {rows, rows};
  OK(heddle_kvstore_init(store, kName, weight, NULL));
  OK(heddle_kvstore_push_rows(store, kName, twice, 2, NULL, NULL));
  OK(heddle_kvstore_pull_rows(store, kName, indices, out, NULL));
  const float expected[] = {5, 6, 20, 40}, dense[] = {0, 0, 20, 40, 5, 6};
  holds(out, expected, 4);
  OK(heddle_kvstore_pull_row_sparse(store, kName, indices, &pulled, NULL));
  heddle_array* whole = dense_of(pulled);
  holds(whole, dense, 6);
  OK(heddle_kvstore_pull_rows(store, kName, wrong, out, NULL));
  CHECK(heddle_array_wait(out, NULL) != HEDDLE_OK);
  IS(heddle_kvstore_push_rows(store, kName, twice, 0, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_pull_rows(store, kName, weight, out, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(whole));
  OK(heddle_row_sparse_destroy(pulled));
  OK(heddle_row_sparse_destroy(rows));
  OK(heddle_array_destroy(wrong));
  OK(heddle_array_destroy(indices));
  OK(heddle_array_destroy(out));
  OK(heddle_array_destroy(weight));
  OK(heddle_kvstore_destroy(store));
}

static size_t arrays_in(const heddle_archive* archive) {
  size_t arrays = 0, texts = 1;
  OK(heddle_archive_size(archive, &arrays, &texts, NULL));
  CHECK(texts == 0);
  return arrays;
}

static void states_and_errors(heddle_engine* engine) {
  heddle_kvstore *store = new_store(engine), *other = new_store(engine);
  heddle_array *weight = new_vector(engine, kValues, 4), *bad = new_vector(engine, kValues, 4);
  const heddle_array* const list[] = {weight};
  const heddle_array* const failed[] = {bad};
  const heddle_parameter momentum[] = {{"lr", 0.5}, {"momentum", 0.5}};
  heddle_archive* state = NULL;
  OK(heddle_kvstore_init(store, kName, weight, NULL));
  OK(heddle_kvstore_optimizer_state(store, &state, NULL));
  CHECK(arrays_in(state) == 0);
  OK(heddle_archive_destroy(state));
  OK(heddle_kvstore_set_optimizer(store, "sgd", momentum, 2, NULL));
  OK(heddle_kvstore_push(store, kName, list, 1, NULL, NULL));
  poison(engine, bad);
  OK(heddle_kvstore_push(store, kName, failed, 1, NULL, NULL));
  OK(heddle_kvstore_clear_errors(store, NULL));
  const float half[] = {0.5F, 1, 1.5F, 2}, next[] = {-0.25F, -0.5F, -0.75F, -1};
  pulls(store, kName, engine, half);
  OK(heddle_kvstore_optimizer_state(store, &state, NULL));
  CHECK(arrays_in(state) == 2);  // velocity and number of updates
  heddle_array* now = new_vector(engine, half, 4);
  OK(heddle_kvstore_init(other, kName, now, NULL));
  // the other store has no optimizer yet
  IS(heddle_kvstore_set_optimizer_state(other, state, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_kvstore_set_optimizer(other, "sgd", momentum, 2, NULL));
  OK(heddle_kvstore_set_optimizer_state(other, state, NULL));
  OK(heddle_kvstore_push(other, kName, list, 1, NULL, NULL));
  pulls(other, kName, engine, next);
  IS(heddle_kvstore_set_residuals(store, state, NULL), HEDDLE_INVALID_ARGUMENT);  // nothing is compressed
  OK(heddle_kvstore_set_optimizer(other, "add", NULL, 0, NULL));
  OK(heddle_kvstore_push(other, kName, list, 1, NULL, NULL));
  const float sums[] = {kValues[0] - 0.25F, kValues[1] - 0.5F, kValues[2] - 0.75F, kValues[3] - 1};
  pulls(other, kName, engine, sums);
  heddle_array* memory = weight;
  OK(heddle_kvstore_gradient_memory(store, kName, &memory, NULL));
  CHECK(!memory);
  OK(heddle_archive_destroy(state));
  OK(heddle_array_destroy(now));
  OK(heddle_array_destroy(bad));
  OK(heddle_array_destroy(weight));
  OK(heddle_kvstore_destroy(other));
  OK(heddle_kvstore_destroy(store));
}

static heddle_engine* engine_of_ranks;

static void compress(heddle_communicator* rank, int index) {
  const heddle_kvstore_options options = {.struct_size = sizeof options, .compression = "2bit:1"};
  const heddle_kvstore_options foreign = {.struct_size = sizeof foreign, .engine = engine_of_ranks};
  heddle_kvstore* store = NULL;
  IS(heddle_kvstore_create_over("allreduce", rank, &foreign, &store, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_kvstore_create_over("local", rank, NULL, &store, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_kvstore_create_over("allreduce", rank, &options, &store, NULL));
  const float mine[] = {1.5F, 0, 2, 0};
  heddle_array* value = new_vector(engine_of_ranks, mine, 4);
  const heddle_array* const list[] = {value};
  OK(heddle_kvstore_init(store, kName, value, NULL));
  OK(heddle_kvstore_push(store, kName, list, 1, NULL, NULL));
  const float sums[] = {2, 0, 2, 0};  // compression rounds each element to -1, 0 or 1
  pulls(store, kName, engine_of_ranks, sums);
  heddle_archive* residuals = NULL;
  OK(heddle_kvstore_residuals(store, &residuals, NULL));
  CHECK(arrays_in(residuals) > 0);
  OK(heddle_kvstore_set_residuals(store, residuals, NULL));
  OK(heddle_kvstore_barrier(store, NULL));
  int32_t number = -1, workers = -1;
  OK(heddle_kvstore_rank(store, &number, &workers, NULL));
  CHECK(number == index && workers == 2);
  OK(heddle_archive_destroy(residuals));
  OK(heddle_array_destroy(value));
  OK(heddle_kvstore_destroy(store));
}

// The array is large enough for the store to lend memory for its gradient.
static void gradients_lie_in_lent_memory(heddle_communicator* rank, int index) {
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine_of_ranks};
  const int64_t length = 1 << 18;
  heddle_kvstore* store = NULL;
  heddle_array *weight = NULL, *memory = NULL, *part = NULL;
  OK(heddle_array_zeros(&options, &length, 1, &weight, NULL));
  OK(heddle_kvstore_create_over("allreduce", rank, NULL, &store, NULL));
  OK(heddle_kvstore_init(store, kOne, weight, NULL));
  OK(heddle_kvstore_gradient_memory(store, kOne, &memory, NULL));
  CHECK(memory != NULL);
  OK(heddle_array_fill(memory, 1 + index, NULL));
  const heddle_array* const pushed[] = {memory};
  const heddle_array* const pulled[] = {weight};
  OK(heddle_kvstore_push_pull(store, kOne, pushed, 1, pulled, 1, NULL, NULL));
  const float threes[] = {3, 3, 3, 3};
  for (int i = 0; i < 2; ++i) {
    OK(heddle_array_slice(i ? weight : memory, 0, -4, HEDDLE_END, 1, &part, NULL));
    holds(part, threes, 4);
    OK(heddle_array_destroy(part));
  }
  OK(heddle_array_destroy(memory));
  OK(heddle_array_destroy(weight));
  OK(heddle_kvstore_destroy(store));
}

static void stores_over_ranks(heddle_engine* engine) {
  if (is_scheduler("naive")) return;
  const heddle_communicator_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_communicator* ranks[2] = {NULL, NULL};
  OK(heddle_communicator_create_local(&options, 2, ranks, NULL));
  engine_of_ranks = engine;
  on_two_ranks(ranks, compress);
  on_two_ranks(ranks, gradients_lie_in_lent_memory);
  for (int i = 0; i < 2; ++i) OK(heddle_communicator_destroy(ranks[i]));
}

void test_stores(void) {
  heddle_engine* engine = new_engine();
  stores_are_described(engine);
  values_are_pushed_and_pulled(engine);
  keys_have_names(engine);
  lists_of_keys(engine);
  rows_alone(engine);
  states_and_errors(engine);
  stores_over_ranks(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
