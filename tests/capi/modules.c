// Layers by name, and modules of a program's own.
#include <unistd.h>

#include "support.h"

static const float kOnes[] = {1, 1, 1, 1};

static heddle_value of_integer(int64_t integer) {
  const heddle_value value = {.kind = HEDDLE_VALUE_INTEGER, .as.integer = integer};
  return value;
}

static heddle_module* new_dense(heddle_engine* engine, int64_t in, int64_t out) {
  const heddle_layer* dense = NULL;
  OK(heddle_layer_find("Dense", &dense, NULL));
  const heddle_value sizes[] = {of_integer(in), of_integer(out)};
  heddle_module* module = NULL;
  OK(heddle_module_make(dense, sizes, 2, NULL, 0, engine, &module, NULL));
  return module;
}

static void destroy_arrays(heddle_named_array* arrays, size_t count) {
  for (size_t i = 0; i < count; ++i) OK(heddle_array_destroy((heddle_array*)arrays[i].array));
}

static void is_text(const heddle_module* module, const char* wanted) {
  char* text = NULL;
  OK(heddle_module_text(module, &text, NULL));
  CHECK(strcmp(text, wanted) == 0);
  OK(heddle_text_destroy(text));
}

static void layers_are_described(heddle_engine* engine) {
  size_t count = 0;
  const heddle_layer *layer = NULL, *pool = NULL;
  OK(heddle_layer_count(&count));
  CHECK(count >= 10);
  for (size_t i = 0; i < count; ++i) {
    OK(heddle_layer_at(i, &layer, NULL));
    heddle_layer_info info = {.struct_size = sizeof info};
    OK(heddle_layer_describe(layer, &info, NULL));
    const heddle_layer* found = NULL;
    OK(heddle_layer_find(info.name, &found, NULL));
    CHECK(found == layer && info.documentation[0] && info.family[0]);
  }
  IS(heddle_layer_at(count, &layer, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_layer_find("Dens", &layer, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_layer_find("MaxPool2d", &pool, NULL));
  heddle_layer_info info = {.struct_size = sizeof info};
  OK(heddle_layer_describe(pool, &info, NULL));
  CHECK(info.argument_count == 5 &&
        strcmp(info.signature, "MaxPool2d(kernel, stride=0, padding=0, dilation=1, ceil_mode=False)") == 0);
  heddle_argument_info argument = {.struct_size = sizeof argument};
  OK(heddle_layer_argument(pool, 1, &argument, NULL));
  CHECK(strcmp(argument.name, "stride") == 0 && argument.kind == HEDDLE_ARGUMENT_INTEGERS &&
        !argument.required);
  IS(heddle_layer_argument(pool, 5, &argument, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_layer_array_info array = {.struct_size = sizeof array};
  CHECK(info.array_count == 0);
  IS(heddle_layer_array(pool, 0, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_layer_find("Dense", &layer, NULL));
  OK(heddle_layer_describe(layer, &info, NULL));
  CHECK(info.array_count == 2);
  OK(heddle_layer_array(layer, 1, &array, NULL));
  CHECK(strcmp(array.name, "bias") == 0 && strcmp(array.shape, "(out_features)") == 0 &&
        strcmp(array.condition, "bias") == 0 && array.start[0] && array.trained == 1);
  IS(heddle_layer_describe((const heddle_layer*)&info, &info, NULL), HEDDLE_BAD_HANDLE);

  heddle_module* module = NULL;
  const heddle_value two = of_integer(2), real = {.kind = HEDDLE_VALUE_REAL, .as.real = 0.5};
  const heddle_named_value stride = {"stride", of_integer(1)};
  IS(heddle_module_make(pool, NULL, 0, NULL, 0, engine, &module, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_module_make(pool, &real, 1, NULL, 0, engine, &module, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_module_make(pool, &two, 1, &stride, 9, engine, &module, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_module_make(pool, &two, 1, &stride, 1, engine, &module, NULL));
  is_text(module, "MaxPool2d(2, stride 1)");
  OK(heddle_module_destroy(module));
}

// A network of layers is trained: its parameters go to a trainer.
static void a_network_is_trained(heddle_engine* engine) {
  heddle_module* parts[] = {new_dense(engine, 2, 3), new_dense(engine, 3, 1)};
  heddle_module* net = NULL;
  OK(heddle_module_sequential(parts, 2, engine, &net, NULL));
  is_text(net, "Sequential{\n  Dense(2, 3)\n  Dense(3, 1)\n}");
  heddle_named_array arrays[8];
  size_t count = 0;
  OK(heddle_module_arrays(net, HEDDLE_MODULE_PARAMETERS, NULL, 0, &count, NULL));
  CHECK(count == 4);
  OK(heddle_module_arrays(net, HEDDLE_MODULE_PARAMETERS, arrays, 8, &count, NULL));
  CHECK(count == 4 && strcmp(arrays[3].name, "1.bias") == 0);
  heddle_trainer* trainer = NULL;
  OK(heddle_trainer_create(arrays, count, NULL, &trainer, NULL));
  const int64_t shape[] = {2, 2};
  heddle_array *x = new_array(engine, kOnes, shape, 2), *y = NULL;
  OK(heddle_module_apply(net, x, &y, NULL));
  heddle_array* loss = apply("sum", y, NULL);
  OK(heddle_backward(loss, NULL, 0, NULL));
  OK(heddle_trainer_step(trainer, 1, NULL));
  const float bias = -0.02F;  // two rows, each with the gradient 1, at the rate 0.01
  holds(arrays[3].array, &bias, 1);
  char path[64];  // of this process alone: the program runs several times at once
  snprintf(path, sizeof path, "capi_module_%ld.safetensors", (long)getpid());
  heddle_module* loaded = NULL;
  heddle_array* again = NULL;
  OK(heddle_module_save(net, path, NULL));
  OK(heddle_module_load(path, engine, &loaded, NULL));
  is_text(loaded, "Sequential{\n  Dense(2, 3)\n  Dense(3, 1)\n}");
  OK(heddle_module_apply(loaded, x, &again, NULL));
  OK(heddle_array_destroy(again));
  OK(heddle_module_destroy(loaded));
  CHECK(remove(path) == 0);
  IS(heddle_module_load(path, engine, &loaded, NULL), HEDDLE_FAILED);
  char* summary = NULL;
  OK(heddle_module_summary(net, &x, 1, &summary, NULL));
  CHECK(strstr(summary, "  1: Dense(3, 1)") && strstr(summary, "13 parameters, 13 of them trained"));
  OK(heddle_text_destroy(summary));
  IS(heddle_module_summary(net, NULL, 0, &summary, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_array* both[] = {x, NULL};
  IS(heddle_module_call(net, both, 2, &y, 1, &count, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_array* wrong = new_vector(engine, kOnes, 3);
  IS(heddle_module_apply(net, wrong, &y, NULL), HEDDLE_INVALID_ARGUMENT);
  const heddle_device other = {HEDDLE_CPU, 1}, none = {77, 0};
  OK(heddle_module_to(net, other, NULL));
  IS(heddle_module_apply(net, x, &y, NULL), HEDDLE_INVALID_ARGUMENT);  // x is on cpu(0)
  IS(heddle_module_to(net, none, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_module_to(net, (heddle_device){HEDDLE_CPU, 0}, NULL));
  OK(heddle_module_freeze(parts[0], 1, NULL));
  OK(heddle_module_arrays(net, HEDDLE_MODULE_PARAMETERS, NULL, 0, &count, NULL));
  CHECK(count == 2);
  OK(heddle_module_arrays(net, HEDDLE_MODULE_STATE, NULL, 0, &count, NULL));
  CHECK(count == 4);
  IS(heddle_module_arrays(net, 7, NULL, 0, &count, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_module_add_child(net, "x", parts[0], NULL), HEDDLE_INVALID_ARGUMENT);
  destroy_arrays(arrays, 4);
  OK(heddle_array_destroy(wrong));
  OK(heddle_array_destroy(loss));
  OK(heddle_array_destroy(y));
  OK(heddle_array_destroy(x));
  OK(heddle_trainer_destroy(trainer));
  OK(heddle_module_destroy(net));
  OK(heddle_module_destroy(parts[1]));
  OK(heddle_module_destroy(parts[0]));
}

struct block {
  heddle_module *self, *inner;  // self is borrowed: the module owns the block
  heddle_array *gain, *seen;
  int calls;
};

// The sum of the arguments times the gain, and the first argument's inner result. In training it counts in `seen`.
static heddle_status block_forward(void* ctx, heddle_array* const* arguments, size_t argument_count,
                                   heddle_array** results, size_t room, size_t* result_count,
                                   heddle_error** error) {
  struct block* block = ctx;
  ++block->calls;
  CHECK(room >= 2);
  int32_t training = 0;
  OK(heddle_module_training(block->self, &training, NULL));
  if (training) {
    heddle_array* more = apply("ones_like", block->seen, NULL);
    const heddle_value both[] = {of_array(block->seen), of_array(more)};
    OK(heddle_operator_call(op_named("add_"), both, 2, NULL, 0, NULL, NULL, 0, NULL));
    OK(heddle_array_destroy(more));
  }
  heddle_array* sum = NULL;
  const heddle_status status = heddle_module_apply(block->inner, arguments[0], &results[1], error);
  if (status != HEDDLE_OK) return status;
  OK(heddle_array_clone(arguments[0], &sum, NULL));
  for (size_t i = 1; i < argument_count; ++i) {
    heddle_array* more = apply("add", sum, arguments[i]);
    OK(heddle_array_destroy(sum));
    sum = more;
  }
  results[0] = apply("multiply", sum, block->gain);
  OK(heddle_array_destroy(sum));
  *result_count = 2;
  return HEDDLE_OK;
}

static void destroy_block(void* ctx) {
  struct block* block = ctx;
  OK(heddle_array_destroy(block->seen));
  OK(heddle_array_destroy(block->gain));
  OK(heddle_module_destroy(block->inner));
  block->self = NULL;
}

static void a_module_of_ones_own(heddle_engine* engine) {
  struct block block = {.inner = new_dense(engine, 2, 2),
                        .gain = new_vector(engine, kOnes, 2),
                        .seen = new_vector(engine, (const float[]){0, 0}, 2)};
  OK(heddle_module_create("Block", block_forward, &block, destroy_block, engine, &block.self, NULL));
  heddle_module* module = block.self;
  // the gain is no leaf yet
  IS(heddle_module_add_parameter(module, "gain", block.gain, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_set_requires_grad(block.gain, 1, NULL));

  const int64_t shape[] = {2, 2};
  heddle_array *x = new_array(engine, kOnes, shape, 2), *results[2] = {NULL, NULL};
  heddle_array* const both[] = {x, x};
  size_t count = 0;
  heddle_error* error = NULL;
  IS(heddle_module_call(module, both, 2, results, 2, &count, &error),
     HEDDLE_INVALID_ARGUMENT);  // nothing is registered in the module yet
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(strstr(info.message, "Block: forward()"));
  OK(heddle_error_destroy(error));

  OK(heddle_module_add_child(module, "inner", block.inner, NULL));
  OK(heddle_module_add_parameter(module, "gain", block.gain, NULL));
  OK(heddle_module_add_buffer(module, "seen", block.seen, 1, NULL));
  IS(heddle_module_add_buffer(module, "seen", block.seen, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_module_add_child(module, "me", module, NULL), HEDDLE_INVALID_ARGUMENT);
  is_text(module, "Block{\n  inner: Dense(2, 2)\n}");
  OK(heddle_module_call(module, both, 2, results, 2, &count, NULL));
  CHECK(count == 2);
  holds(results[0], ((const float[]){2, 2, 2, 2}), 4);
  heddle_array* loss = apply("sum", results[0], NULL);
  OK(heddle_backward(loss, NULL, 0, NULL));
  heddle_array* grad = NULL;
  OK(heddle_array_grad(block.gain, &grad, NULL));
  holds(grad, ((const float[]){4, 4}), 2);
  // there is room for one result only
  IS(heddle_module_call(module, both, 2, results, 1, &count, NULL), HEDDLE_INVALID_ARGUMENT);
  // the module has two results
  IS(heddle_module_apply(module, x, results, NULL), HEDDLE_INVALID_ARGUMENT);

  heddle_module* outer = NULL;  // a module that holds others, and is not called
  OK(heddle_module_create("Outer", NULL, NULL, NULL, engine, &outer, NULL));
  OK(heddle_module_add_child(outer, "block", module, NULL));
  IS(heddle_module_apply(outer, x, results, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_named_array arrays[4];
  OK(heddle_module_arrays(outer, HEDDLE_MODULE_STATE, arrays, 4, &count, NULL));
  CHECK(count == 4 && strcmp(arrays[0].name, "block.inner.weight") == 0 &&
        strcmp(arrays[3].name, "block.seen") == 0);
  holds(arrays[3].array, ((const float[]){4, 4}), 2);
  OK(heddle_module_train(outer, 0, NULL));
  const int calls = block.calls;
  heddle_array* wrong = new_vector(engine, kOnes, 1);
  // the inner module refuses the shape
  IS(heddle_module_call(module, &wrong, 1, results, 2, &count, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(block.calls == calls + 1);
  holds(arrays[3].array, ((const float[]){4, 4}), 2);
  destroy_arrays(arrays, 4);
  OK(heddle_array_destroy(wrong));
  OK(heddle_array_destroy(grad));
  OK(heddle_array_destroy(loss));
  OK(heddle_array_destroy(results[0]));
  OK(heddle_array_destroy(results[1]));
  OK(heddle_array_destroy(x));
  OK(heddle_module_destroy(module));
  CHECK(block.self);  // the outer module still holds the block
  OK(heddle_module_destroy(outer));
  CHECK(!block.self);
}

static heddle_status same(void* ctx, heddle_array* const* arguments, size_t argument_count,
                          heddle_array** results, size_t room, size_t* result_count, heddle_error** error) {
  (void)ctx, (void)argument_count, (void)room, (void)error;
  results[0] = arguments[0];
  *result_count = 1;
  return HEDDLE_OK;
}

static void a_result_that_is_an_argument_is_refused(heddle_engine* engine) {
  heddle_module* module = NULL;
  OK(heddle_module_create("Same", same, NULL, NULL, engine, &module, NULL));
  heddle_array *x = new_vector(engine, kOnes, 4), *y = NULL;
  IS(heddle_module_apply(module, x, &y, NULL), HEDDLE_INVALID_ARGUMENT);
  holds(x, kOnes, 4);
  OK(heddle_array_destroy(x));
  OK(heddle_module_destroy(module));
}

typedef struct told {
  int calls, destroyed;
  size_t arguments, results;
  heddle_status answer;
} told;
static heddle_status tell(void* ctx, heddle_array* const* arguments, size_t argument_count,
                          heddle_array* const* results, size_t result_count, heddle_error** error) {
  (void)error;
  told* of = ctx;
  ++of->calls;
  of->arguments = argument_count;
  of->results = result_count;
  CHECK(arguments[0] && (result_count == 0 || results[0]));
  return of->answer;
}
static void count_destroyed(void* ctx) { ++((told*)ctx)->destroyed; }

static void hooks_are_told_of_calls(heddle_engine* engine) {
  const int64_t shape[] = {1, 4};
  heddle_module* module = new_dense(engine, 4, 2);
  heddle_array *x = new_array(engine, kOnes, shape, 2), *y = NULL;
  told before = {0, 0, 0, 9, HEDDLE_OK}, after = {0, 0, 0, 0, HEDDLE_OK};
  heddle_module_hook *first = NULL, *second = NULL;
  OK(heddle_module_add_hook(module, 0, tell, &before, count_destroyed, &first, NULL));
  OK(heddle_module_add_hook(module, 1, tell, &after, count_destroyed, &second, NULL));
  OK(heddle_module_apply(module, x, &y, NULL));
  OK(heddle_array_destroy(y));
  CHECK(before.calls == 1 && before.arguments == 1 && before.results == 0);
  CHECK(after.calls == 1 && after.arguments == 1 && after.results == 1);
  OK(heddle_module_hook_remove(first));
  CHECK(before.destroyed == 1);
  OK(heddle_module_hook_keep(second));
  after.answer = HEDDLE_INVALID_ARGUMENT;
  IS(heddle_module_apply(module, x, &y, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(before.calls == 1 && after.calls == 2 && after.destroyed == 0);
  IS(heddle_module_add_hook(module, 1, NULL, &before, count_destroyed, &first, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(before.destroyed == 2);
  OK(heddle_module_hook_remove(NULL));
  OK(heddle_array_destroy(x));
  OK(heddle_module_destroy(module));
  CHECK(after.destroyed == 1);
}

void test_modules(void) {
  heddle_engine* engine = new_engine();
  layers_are_described(engine);
  a_network_is_trained(engine);
  a_module_of_ones_own(engine);
  a_result_that_is_an_argument_is_refused(engine);
  hooks_are_told_of_calls(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
