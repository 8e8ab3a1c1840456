// Gradients and optimizers.
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
    IS(heddle_backward(square, NULL, 0, NULL), HEDDLE_INVALID_ARGUMENT);  // three elements, no seed
    OK(heddle_backward(loss, NULL, 0, NULL));
    IS(heddle_backward(loss, NULL, 0, NULL), HEDDLE_FAILED);  // what was recorded is gone
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

static void optimizers_update(heddle_engine* engine) {
  heddle_array *weight = new_vector(engine, kWeight, 3), *grad = new_vector(engine, kWeight, 3);
  const heddle_parameter lr = {"lr", 0.5}, unknown = {"patience", 1};
  const heddle_parameter twice[] = {lr, lr};
  heddle_optimizer* sgd = NULL;
  IS(heddle_optimizer_create("sgd", &unknown, 1, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_optimizer_create("sgd", twice, 2, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_optimizer_create("hope", NULL, 0, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_optimizer_create("sgd", NULL, 1, &sgd, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_optimizer_create("sgd", &lr, 1, &sgd, NULL));
  OK(heddle_optimizer_update(sgd, 1, weight, grad, NULL, NULL));
  const float half[] = {0.5F, 1, 1.5F}, zeros[3] = {0};
  holds(weight, half, 3);
  const heddle_update_options faster = {.struct_size = sizeof faster, .lr = 1, .grad_scale = 0.5};
  OK(heddle_optimizer_update(sgd, 1, weight, grad, &faster, NULL));
  holds(weight, zeros, 3);
  heddle_array* other = NULL;
  OK(heddle_array_astype(grad, HEDDLE_F64, &other, NULL));
  IS(heddle_optimizer_update(sgd, 1, weight, other, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(other));
  OK(heddle_optimizer_destroy(sgd));
  OK(heddle_array_destroy(grad));
  OK(heddle_array_destroy(weight));
}

void test_autograd(void) {
  heddle_engine* engine = new_engine();
  gradients_accumulate(engine);
  recording_can_be_off(engine);
  optimizers_update(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
