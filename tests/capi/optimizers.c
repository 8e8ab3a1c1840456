// Optimizers through the C ABI.
#include "support.h"

static const float kWeight[] = {1, 2, 3};

static heddle_optimizer* new_optimizer(const char* name, const char* parameter, double value) {
  const heddle_parameter parameters[] = {{"lr", 0.5}, {parameter, value}};
  heddle_optimizer* optimizer = NULL;
  OK(heddle_optimizer_create(name, parameters, parameter ? 2 : 1, &optimizer, NULL));
  return optimizer;
}

static void optimizers_update(heddle_engine* engine) {
  heddle_array *weight = new_vector(engine, kWeight, 3), *grad = new_vector(engine, kWeight, 3);
  const heddle_parameter lr = {"lr", 0.5}, unknown = {"patience", 1};
  const heddle_parameter twice[] = {lr, lr};
  const heddle_key key = {.number = 1};
  heddle_optimizer* sgd = NULL;
  IS(heddle_optimizer_create("sgd", &unknown, 1, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_optimizer_create("sgd", twice, 2, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_optimizer_create("hope", NULL, 0, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_optimizer_create("sgd", NULL, 1, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_optimizer_create("sgd", &lr, 1, &sgd, NULL));
  OK(heddle_optimizer_update(sgd, key, weight, grad, NULL, NULL));
  const float half[] = {0.5F, 1, 1.5F}, zeros[3] = {0};
  holds(weight, half, 3);
  const double one = 1, none = 0, scale = 0.5;
  heddle_update_options options = {.struct_size = sizeof options, .lr = &none};
  // the rate is 0, as at the start of a warm-up
  OK(heddle_optimizer_update(sgd, key, weight, grad, &options, NULL));
  holds(weight, half, 3);
  options = (heddle_update_options){.struct_size = sizeof options, .grad_scale = &none};
  OK(heddle_optimizer_update(sgd, key, weight, grad, &options, NULL));
  holds(weight, half, 3);
  options = (heddle_update_options){.struct_size = sizeof options, .lr = &one, .grad_scale = &scale};
  OK(heddle_optimizer_update(sgd, key, weight, grad, &options, NULL));
  holds(weight, zeros, 3);
  heddle_array* other = NULL;
  OK(heddle_array_astype(grad, HEDDLE_F64, &other, NULL));
  IS(heddle_optimizer_update(sgd, key, weight, other, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  const heddle_key nameless = {.name = ""};
  IS(heddle_optimizer_update(sgd, nameless, weight, grad, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(other));
  OK(heddle_optimizer_destroy(sgd));
  OK(heddle_array_destroy(grad));
  OK(heddle_array_destroy(weight));
}

static void optimizers_are_described(void) {
  heddle_optimizer* sgd = new_optimizer("sgd", "momentum", 0.9);
  const char* name = NULL;
  OK(heddle_optimizer_name(sgd, &name, NULL));
  CHECK(strcmp(name, "sgd") == 0);
  heddle_parameter parameters[4];
  size_t count = 0;
  OK(heddle_optimizer_parameters(sgd, NULL, 0, &count, NULL));
  CHECK(count == 4);
  IS(heddle_optimizer_parameters(sgd, NULL, 4, &count, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_optimizer_parameters(sgd, parameters, 4, &count, NULL));
  CHECK(strcmp(parameters[0].name, "lr") == 0 && parameters[0].value == 0.5);
  CHECK(strcmp(parameters[1].name, "momentum") == 0 && parameters[1].value == 0.9);
  CHECK(strcmp(parameters[3].name, "weight_decay") == 0 && parameters[3].value == 0);
  OK(heddle_optimizer_destroy(sgd));
}

static void rows_are_updated_alone(heddle_engine* engine) {
  const float values[] = {1, 2, 3, 4, 5, 6}, grads[] = {2, 4};
  const int64_t shape[] = {3, 2}, row = 1;
  heddle_array* weight = new_array(engine, values, shape, 2);
  heddle_row_sparse* grad = new_rows(engine, &row, 1, grads, shape);
  heddle_optimizer* adam = new_optimizer("adam", NULL, 0);
  const heddle_key key = {.name = "table"};
  const double none = 0;
  const heddle_update_options still = {.struct_size = sizeof still, .lr = &none};
  OK(heddle_optimizer_update_rows(adam, key, weight, grad, &still, NULL));
  holds(weight, values, 6);
  OK(heddle_optimizer_update_rows(adam, key, weight, grad, NULL, NULL));
  const float expected[] = {1, 2, 2.5F, 3.5F, 5, 6};  // Adam's first step is lr
  holds(weight, expected, 6);
  heddle_archive* state = NULL;
  OK(heddle_optimizer_state(adam, &state, NULL));
  heddle_array* updates = NULL;
  int64_t counts[3] = {0};
  OK(heddle_archive_get(state, "table.row_updates", &updates, NULL));
  OK(heddle_array_read(updates, counts, sizeof counts, NULL));
  CHECK(counts[0] == 0 && counts[1] == 2 && counts[2] == 0);
  OK(heddle_array_destroy(updates));
  OK(heddle_archive_destroy(state));
  IS(heddle_optimizer_update_rows(adam, key, weight, NULL, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_optimizer_destroy(adam));
  OK(heddle_row_sparse_destroy(grad));
  OK(heddle_array_destroy(weight));
}

static void a_state_goes_on_elsewhere(heddle_engine* engine) {
  heddle_array *weights[2], *grad = new_vector(engine, kWeight, 3);
  heddle_optimizer *first = new_optimizer("sgd", "momentum", 0.5), *second = NULL;
  const heddle_key key = {.name = "w"};
  weights[0] = new_vector(engine, kWeight, 3);
  OK(heddle_optimizer_update(first, key, weights[0], grad, NULL, NULL));
  heddle_archive *state = NULL, *empty = NULL;
  OK(heddle_optimizer_state(first, &state, NULL));
  OK(heddle_array_clone(weights[0], &weights[1], NULL));
  second = new_optimizer("sgd", "momentum", 0.5);
  OK(heddle_optimizer_set_state(second, state, NULL));
  OK(heddle_optimizer_update(first, key, weights[0], grad, NULL, NULL));
  OK(heddle_optimizer_update(second, key, weights[1], grad, NULL, NULL));
  const float expected[] = {-0.25F, -0.5F, -0.75F};  // momentum 0.5: 1 - 0.5 * 1 - 0.5 * (0.5 * 1 + 1)
  for (int i = 0; i < 2; ++i) holds(weights[i], expected, 3);
  OK(heddle_archive_set(state, "w.hope", grad, NULL));
  IS(heddle_optimizer_set_state(second, state, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_archive_create(&empty, NULL));
  OK(heddle_optimizer_set_state(second, empty, NULL));
  OK(heddle_archive_destroy(state));
  OK(heddle_optimizer_state(second, &state, NULL));
  size_t arrays = 1, texts = 1;
  OK(heddle_archive_size(state, &arrays, &texts, NULL));
  CHECK(arrays == 0 && texts == 0);
  OK(heddle_archive_destroy(state));
  OK(heddle_archive_destroy(empty));
  OK(heddle_optimizer_destroy(second));
  OK(heddle_optimizer_destroy(first));
  for (int i = 0; i < 2; ++i) OK(heddle_array_destroy(weights[i]));
  OK(heddle_array_destroy(grad));
}

static void a_failed_gradient_is_forgotten(heddle_engine* engine) {
  heddle_array *weight = new_vector(engine, kWeight, 3), *grad = new_vector(engine, kWeight, 3),
               *bad = new_vector(engine, kWeight, 3);
  heddle_optimizer* sgd = new_optimizer("sgd", "momentum", 0.5);
  const heddle_key key = {.number = 1};
  OK(heddle_optimizer_update(sgd, key, weight, grad, NULL, NULL));
  poison(engine, bad);
  OK(heddle_optimizer_update(sgd, key, weight, bad, NULL, NULL));
  IS(heddle_array_wait(weight, NULL), HEDDLE_USER + 3);
  OK(heddle_optimizer_clear_errors(sgd, NULL));
  clear_poison(engine, weight);
  OK(heddle_optimizer_update(sgd, key, weight, grad, NULL, NULL));
  const float expected[] = {-0.25F, -0.5F, -0.75F};  // the failed update has changed neither weight nor state
  holds(weight, expected, 3);
  OK(heddle_optimizer_destroy(sgd));
  OK(heddle_array_destroy(bad));
  OK(heddle_array_destroy(grad));
  OK(heddle_array_destroy(weight));
}

// State on a destroyed engine cannot be read, but can be replaced.
static void an_engine_may_go_first(heddle_engine* engine) {
  heddle_engine* other = new_engine();
  heddle_array *weight = new_vector(other, kWeight, 3), *mine = new_vector(engine, kWeight, 3);
  heddle_optimizer* sgd = new_optimizer("sgd", "momentum", 0.5);
  const heddle_key key = {.number = 1}, next = {.number = 2};
  OK(heddle_optimizer_update(sgd, key, weight, weight, NULL, NULL));
  OK(heddle_engine_destroy(other, NULL));
  heddle_archive* state = NULL;
  IS(heddle_optimizer_state(sgd, &state, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_optimizer_clear_errors(sgd, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_optimizer_update(sgd, next, mine, mine, NULL, NULL), HEDDLE_BAD_HANDLE);
  OK(heddle_archive_create(&state, NULL));
  OK(heddle_optimizer_set_state(sgd, state, NULL));
  OK(heddle_optimizer_update(sgd, next, mine, mine, NULL, NULL));
  OK(heddle_archive_destroy(state));
  OK(heddle_optimizer_destroy(sgd));
  OK(heddle_array_destroy(mine));
  OK(heddle_array_destroy(weight));
}

void test_optimizers(void) {
  heddle_engine* engine = new_engine();
  optimizers_update(engine);
  optimizers_are_described();
  rows_are_updated_alone(engine);
  a_state_goes_on_elsewhere(engine);
  a_failed_gradient_is_forgotten(engine);
  an_engine_may_go_first(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
