// Gradients through the C ABI.
#include "support.h"

static const float kWeight[] = {1, 2, 3};

static void gradients_accumulate(heddle_engine* engine) {
  heddle_array *weight = new_vector(engine, kWeight, 3), *grad = NULL;
  int32_t needed = 1;
  OK(heddle_array_requires_grad(weight, &needed, NULL));
  CHECK(needed == 0);
  OK(heddle_array_set_requires_grad(weight, 1, NULL));
  OK(heddle_array_requires_grad(weight, &needed, NULL));
  CHECK(needed == 1);
  OK(heddle_array_grad(weight, &grad, NULL));
  CHECK(!grad);
  for (int round = 1; round <= 2; ++round) {
    heddle_array *square = apply("square", weight, NULL), *loss = apply("sum", square, NULL);
    IS(heddle_backward(square, NULL, 0, NULL), HEDDLE_INVALID_ARGUMENT);  // three elements need a seed
    OK(heddle_backward(loss, NULL, 0, NULL));
    IS(heddle_backward(loss, NULL, 0, NULL), HEDDLE_FAILED);  // backward has freed the tape
    OK(heddle_array_grad(weight, &grad, NULL));
    const float doubled[] = {2.0F * (float)round, 4.0F * (float)round, 6.0F * (float)round};
    holds(grad, doubled, 3);
    OK(heddle_array_destroy(grad));
    OK(heddle_array_destroy(loss));
    OK(heddle_array_destroy(square));
  }
  OK(heddle_array_clear_grad(weight, NULL));
  OK(heddle_array_grad(weight, &grad, NULL));
  CHECK(!grad);
  heddle_array *square = apply("square", weight, NULL), *seed = new_vector(engine, kWeight, 3);
  OK(heddle_backward(square, seed, 1, NULL));
  OK(heddle_backward(square, seed, 0, NULL));
  const float seeded[] = {4, 16, 36};
  OK(heddle_array_grad(weight, &grad, NULL));
  holds(grad, seeded, 3);
  OK(heddle_array_destroy(grad));
  OK(heddle_array_destroy(seed));
  OK(heddle_array_destroy(square));
  OK(heddle_array_destroy(weight));
}

static void gradients_of_gradients(heddle_engine* engine) {
  heddle_array *x = new_vector(engine, kWeight, 3), *unused = new_vector(engine, kWeight, 3),
               *got[2] = {NULL, NULL};
  OK(heddle_array_set_requires_grad(x, 1, NULL));
  OK(heddle_array_set_requires_grad(unused, 1, NULL));
  heddle_array *squared = apply("square", x, NULL), *fourth = apply("square", squared, NULL),
               *loss = apply("sum", fourth, NULL);
  const heddle_array *outputs[] = {loss}, *inputs[] = {x, unused}, *vectors[1], *seeds[] = {unused};
  heddle_grad_options options = {.struct_size = sizeof options, .create_graph = 1};
  // One of the inputs is unused.
  IS(heddle_grad(outputs, 1, inputs, 2, &options, got, NULL), HEDDLE_INVALID_ARGUMENT);
  options.allow_unused = 1;
  OK(heddle_grad(outputs, 1, inputs, 2, &options, got, NULL));
  const float third[] = {4, 32, 108}, twice[] = {12, 96, 324};
  holds(got[0], third, 3);
  CHECK(!got[1]);
  vectors[0] = got[0];
  // Three elements need a seed.
  IS(heddle_grad(vectors, 1, inputs, 1, NULL, got + 1, NULL), HEDDLE_INVALID_ARGUMENT);
  options.seeds = seeds;
  OK(heddle_grad(vectors, 1, inputs, 1, &options, got + 1, NULL));
  holds(got[1], twice, 3);  // 12 x^2, times the seed x
  heddle_array* accumulated = NULL;
  OK(heddle_array_grad(x, &accumulated, NULL));
  CHECK(!accumulated);
  IS(heddle_grad(NULL, 1, inputs, 1, NULL, got, NULL), HEDDLE_INVALID_ARGUMENT);
  options.struct_size = 1;
  IS(heddle_grad(outputs, 1, inputs, 1, &options, got, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_array* all[] = {got[0], got[1], x, unused, squared, fourth, loss};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) OK(heddle_array_destroy(all[i]));
}

static void recording_can_be_off(heddle_engine* engine) {
  heddle_array* weight = new_vector(engine, kWeight, 3);
  OK(heddle_array_set_requires_grad(weight, 1, NULL));
  int32_t before = -1, needed = -1;
  OK(heddle_recording_set(0, &before, NULL));
  CHECK(before == 1);
  heddle_array* square = apply("square", weight, NULL);
  OK(heddle_array_requires_grad(square, &needed, NULL));
  CHECK(needed == 0);
  OK(heddle_array_destroy(square));
  OK(heddle_recording_set(0, &before, NULL));
  CHECK(before == 0);
  OK(heddle_recording_set(1, NULL, NULL));
  square = apply("square", weight, NULL);
  OK(heddle_array_requires_grad(square, &needed, NULL));
  CHECK(needed == 1);
  heddle_array* detached = NULL;
  OK(heddle_array_detach(square, &detached, NULL));
  OK(heddle_array_requires_grad(detached, &needed, NULL));
  CHECK(needed == 0);
  OK(heddle_array_destroy(detached));
  OK(heddle_array_destroy(square));
  OK(heddle_array_set_requires_grad(weight, 0, NULL));
  OK(heddle_array_requires_grad(weight, &needed, NULL));
  CHECK(needed == 0);
  OK(heddle_array_destroy(weight));
}

static void row_sparse_gradients(heddle_engine* engine) {
  const float table[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t shape[] = {4, 2}, numbers[] = {3, 1, 3};
  heddle_array *weight = new_array(engine, table, shape, 2), *indices = new_indices(engine, numbers, 3);
  OK(heddle_array_set_requires_grad(weight, 1, NULL));
  heddle_row_sparse* rows = NULL;
  OK(heddle_array_row_sparse_grad(weight, &rows, NULL));
  CHECK(!rows);
  for (int sparse = 1; sparse >= 0; --sparse) {
    const heddle_value values[] = {of_array(weight), of_array(indices)};
    const heddle_named_value how = {"sparse_grad", {.kind = HEDDLE_VALUE_BOOLEAN, .as.boolean = sparse}};
    heddle_array *looked_up = NULL, *grad = NULL;
    OK(heddle_operator_apply(op_named("embedding"), values, 2, &how, 1, NULL, &looked_up, NULL));
    heddle_array* loss = apply("sum", looked_up, NULL);
    OK(heddle_backward(loss, NULL, 0, NULL));
    OK(heddle_array_grad(weight, &grad, NULL));
    OK(heddle_array_row_sparse_grad(weight, &rows, NULL));
    CHECK((grad == NULL) == sparse && (rows == NULL) == !sparse);
    const float once[] = {0, 0, 1, 1, 0, 0, 2, 2}, twice[] = {0, 0, 2, 2, 0, 0, 4, 4};
    if (sparse) grad = dense_of(rows);
    holds(grad, sparse ? once : twice, 8);  // a dense gradient is added to a row-sparse one
    OK(heddle_row_sparse_destroy(rows));
    OK(heddle_array_destroy(grad));
    OK(heddle_array_destroy(loss));
    OK(heddle_array_destroy(looked_up));
  }
  IS(heddle_array_row_sparse_grad(weight, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(indices));
  OK(heddle_array_destroy(weight));
}

static void gradients_are_computed_in_lent_memory(heddle_engine* engine) {
  const float inputs[] = {4, 5, 6}, nines[] = {9, 9, 9};
  const int64_t column[] = {3, 1}, row[] = {1, 3};
  heddle_array *weight = new_array(engine, kWeight, column, 2), *memory = new_array(engine, nines, column, 2),
               *input = new_array(engine, inputs, row, 2);
  // the weight is not a leaf yet
  IS(heddle_array_lend_gradient_memory(weight, memory, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_set_requires_grad(weight, 1, NULL));
  IS(heddle_array_lend_gradient_memory(weight, weight, NULL), HEDDLE_INVALID_ARGUMENT);
  for (int lent = 0; lent <= 1; ++lent) {
    OK(heddle_array_lend_gradient_memory(weight, memory, NULL));
    if (!lent) OK(heddle_array_lend_gradient_memory(weight, NULL, NULL));
    heddle_array *loss = apply("matmul", input, weight), *grad = NULL;
    OK(heddle_backward(loss, NULL, 0, NULL));
    OK(heddle_array_grad(weight, &grad, NULL));
    holds(grad, inputs, 3);
    holds(memory, lent ? inputs : nines, 3);
    OK(heddle_array_destroy(grad));
    OK(heddle_array_destroy(loss));
    OK(heddle_array_clear_grad(weight, NULL));
  }
  OK(heddle_array_destroy(input));
  OK(heddle_array_destroy(memory));
  OK(heddle_array_destroy(weight));
}

void test_autograd(void) {
  heddle_engine* engine = new_engine();
  gradients_accumulate(engine);
  gradients_of_gradients(engine);
  recording_can_be_off(engine);
  row_sparse_gradients(engine);
  gradients_are_computed_in_lent_memory(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
