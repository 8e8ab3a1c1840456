// Trains a small network on generated data in C, through libheddle.so: operators by name, gradients and a
// trainer. The network tells points inside a circle from those outside. Only reading the loss blocks.
#include <stdio.h>
#include <stdlib.h>

#include <heddle/c/heddle.h>

enum { kPoints = 512, kHidden = 32, kSteps = 300 };

static void check(heddle_status status, heddle_error* error) {
  if (status == HEDDLE_OK) return;
  char* text = NULL;
  if (error && heddle_error_to_text(error, &text) == HEDDLE_OK) fprintf(stderr, "%s\n", text);
  exit(1);
}

// Calls the operator: the first arguments are the arrays a and b, and `last` is appended unless it is null.
static heddle_array* call(const char* name, heddle_array* a, heddle_array* b, const heddle_value* last) {
  heddle_error* error = NULL;
  const heddle_operator* op = NULL;
  heddle_array* result = NULL;
  heddle_value values[3];
  size_t count = 0;
  if (a) values[count++] = (heddle_value){.kind = HEDDLE_VALUE_ARRAY, .as.array = a};
  if (b) values[count++] = (heddle_value){.kind = HEDDLE_VALUE_ARRAY, .as.array = b};
  if (last) values[count++] = *last;
  check(heddle_operator_find(name, &op, &error), error);
  check(heddle_operator_apply(op, values, count, NULL, 0, NULL, &result, &error), error);
  return result;
}

// As `call`, and frees `a`: the tape keeps its own references.
static heddle_array* then(const char* name, heddle_array* a, heddle_array* b) {
  heddle_array* result = call(name, a, b, NULL);
  heddle_array_destroy(a);
  return result;
}

static heddle_array* new_weight(int64_t rows, int64_t columns, heddle_generator* generator) {
  const int64_t shape[] = {rows, columns};
  const heddle_value values[] = {{.kind = HEDDLE_VALUE_INTEGERS, .count = 2, .as.integers = shape},
                                 {.kind = HEDDLE_VALUE_REAL, .as.real = -0.5},
                                 {.kind = HEDDLE_VALUE_REAL, .as.real = 0.5}};
  const heddle_named_value from = {"generator", {.kind = HEDDLE_VALUE_GENERATOR, .as.generator = generator}};
  heddle_error* error = NULL;
  const heddle_operator* uniform = NULL;
  heddle_array* weight = NULL;
  check(heddle_operator_find("uniform", &uniform, &error), error);
  check(heddle_operator_apply(uniform, values, 3, &from, 1, NULL, &weight, &error), error);
  check(heddle_array_set_requires_grad(weight, 1, &error), error);
  return weight;
}

static heddle_array* copy_of(const float* values, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  heddle_error* error = NULL;
  heddle_array* array = NULL;
  const size_t bytes = (size_t)(rows * columns) * sizeof *values;
  check(heddle_array_from_memory(NULL, shape, 2, values, bytes, &array, &error), error);
  return array;
}

static float step(heddle_array* points, heddle_array* wanted, heddle_array* const* weights,
                  heddle_trainer* trainer, int look) {
  heddle_error* error = NULL;
  heddle_array* x = call("matmul", points, weights[0], NULL);
  x = then("relu", then("add", x, weights[1]), NULL);
  x = then("sigmoid", then("add", then("matmul", x, weights[2]), weights[3]), NULL);
  x = then("mean", then("square", then("subtract", x, wanted), NULL), NULL);
  check(heddle_backward(x, NULL, 0, &error), error);
  check(heddle_trainer_step(trainer, 1, &error), error);
  float loss = 0;
  if (look) check(heddle_array_read(x, &loss, sizeof loss, &error), error);
  heddle_array_destroy(x);
  return loss;
}

int main(void) {
  static float coordinates[kPoints][2], inside[kPoints];
  srand(1);
  for (int i = 0; i < kPoints; ++i) {
    for (int k = 0; k < 2; ++k) coordinates[i][k] = 2.0F * (float)rand() / (float)RAND_MAX - 1.0F;
    inside[i] = coordinates[i][0] * coordinates[i][0] + coordinates[i][1] * coordinates[i][1] < 0.5F;
  }
  heddle_array* points = copy_of(coordinates[0], kPoints, 2);
  heddle_array* wanted = copy_of(inside, kPoints, 1);

  heddle_error* error = NULL;
  heddle_generator* generator = NULL;
  heddle_trainer* trainer = NULL;
  check(heddle_generator_create(42, &generator, &error), error);
  heddle_array* weights[] = {new_weight(2, kHidden, generator), new_weight(1, kHidden, generator),
                             new_weight(kHidden, 1, generator), new_weight(1, 1, generator)};
  const heddle_named_array parameters[] = {
      {"0.weight", weights[0]}, {"0.bias", weights[1]}, {"1.weight", weights[2]}, {"1.bias", weights[3]}};
  const heddle_parameter rate = {"lr", 0.02};
  const heddle_trainer_options options = {
      .struct_size = sizeof options, .optimizer = "adam", .parameters = &rate, .parameter_count = 1};
  check(heddle_trainer_create(parameters, 4, &options, &trainer, &error), error);

  float first = 0, loss = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const int look = i % 100 == 0;
    const float now = step(points, wanted, weights, trainer, look);
    if (!look) continue;
    printf("step %3d: loss %.4f\n", i, (double)now);
    if (i == 0) first = now;
    loss = now;
  }
  for (int i = 0; i < 4; ++i) heddle_array_destroy(weights[i]);
  heddle_array_destroy(points);
  heddle_array_destroy(wanted);
  heddle_trainer_destroy(trainer);
  heddle_generator_destroy(generator);
  if (loss < first / 4) return 0;
  fprintf(stderr, "the loss was to fall to a quarter\n");
  return 1;
}
