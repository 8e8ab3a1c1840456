// Operators, looked up by name.
#include "support.h"

static const float kValues[] = {1, 2, 3, 4};
static const int64_t kTwoByTwo[] = {2, 2};

static void every_operator_is_described(void) {
  size_t count = 0, choices = 0, defaults = 0;
  OK(heddle_operator_count(&count));
  CHECK(count >= 80);
  for (size_t i = 0; i < count; ++i) {
    const heddle_operator *op = NULL, *same = NULL;
    heddle_operator_info info = {.struct_size = sizeof info};
    OK(heddle_operator_at(i, &op, NULL));
    OK(heddle_operator_describe(op, &info, NULL));
    OK(heddle_operator_find(info.name, &same, NULL));
    CHECK(same == op && strlen(info.documentation) > 0 && strlen(info.family) > 0);
    CHECK(strncmp(info.signature, info.name, strlen(info.name)) == 0);
    CHECK(info.in_place == (info.name[strlen(info.name) - 1] == '_'));
    CHECK((info.result_count == 0) == (info.in_place == 1));
    for (size_t a = 0; a < info.argument_count; ++a) {
      heddle_argument_info argument = {.struct_size = sizeof argument};
      OK(heddle_operator_argument(op, a, &argument, NULL));
      CHECK(argument.kind >= HEDDLE_ARGUMENT_ARRAY && argument.kind <= HEDDLE_ARGUMENT_GENERATOR);
      CHECK(strstr(info.signature, argument.name) != NULL);
      CHECK((strlen(argument.default_text) == 0) == (argument.required == 1));
      CHECK(argument.takes_none == (!argument.required && argument.default_value.kind == HEDDLE_VALUE_NONE));
      defaults += argument.default_value.kind != HEDDLE_VALUE_NONE;
      for (size_t c = 0; c < argument.choice_count; ++c) choices += strlen(argument.choices[c]) > 0;
    }
    heddle_argument_info beyond = {.struct_size = sizeof beyond};
    IS(heddle_operator_argument(op, info.argument_count, &beyond, NULL), HEDDLE_INVALID_ARGUMENT);
  }
  CHECK(choices > 0 && defaults > 20);
  const heddle_operator* op = NULL;
  IS(heddle_operator_at(count, &op, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_find("telepathy", &op, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_operator_info info = {.struct_size = sizeof info};
  IS(heddle_operator_describe((const heddle_operator*)&info, &info, NULL), HEDDLE_BAD_HANDLE);
  IS(heddle_operator_describe(NULL, &info, NULL), HEDDLE_INVALID_ARGUMENT);
}

static void calls_compute(heddle_engine* engine) {
  heddle_array* a = new_array(engine, kValues, kTwoByTwo, 2);
  heddle_array* product = apply("matmul", a, a);
  const float products[] = {7, 10, 15, 22}, sums[] = {3, 7}, more[] = {1.5F, 2.5F, 3.5F, 4.5F};
  holds(product, products, 4);
  const heddle_value value = of_array(a);
  const heddle_named_value axis = {"axis", {.kind = HEDDLE_VALUE_INTEGER, .as.integer = 1}};
  heddle_array* sum = NULL;
  OK(heddle_operator_apply(op_named("sum"), &value, 1, &axis, 1, NULL, &sum, NULL));
  holds(sum, sums, 2);
  const heddle_value in_place[] = {value, {.kind = HEDDLE_VALUE_REAL, .as.real = 0.5}};
  OK(heddle_operator_call(op_named("add_"), in_place, 2, NULL, 0, NULL, NULL, 0, NULL));
  holds(a, more, 4);
  heddle_array* const both[] = {sum, sum};
  const heddle_value list = {.kind = HEDDLE_VALUE_ARRAYS, .count = 2, .as.arrays = both};
  heddle_array* joined = NULL;
  OK(heddle_operator_apply(op_named("concat"), &list, 1, NULL, 0, NULL, &joined, NULL));
  const float twice[] = {3, 7, 3, 7};
  holds(joined, twice, 4);
  OK(heddle_array_destroy(joined));
  OK(heddle_array_destroy(sum));
  OK(heddle_array_destroy(product));
  OK(heddle_array_destroy(a));
}

static void results_are_written_into_arrays(heddle_engine* engine) {
  heddle_array *a = new_array(engine, kValues, kTwoByTwo, 2), *out = new_array(engine, kValues, kTwoByTwo, 2);
  heddle_array* flat = new_array(engine, kValues, kTwoByTwo, 1);
  const heddle_value values[] = {of_array(a), {.kind = HEDDLE_VALUE_REAL, .as.real = 10}};
  OK(heddle_operator_apply_into(op_named("multiply"), values, 2, NULL, 0, out, NULL));
  const float tens[] = {10, 20, 30, 40};
  holds(out, tens, 4);
  OK(heddle_operator_apply_into(op_named("multiply"), values, 2, NULL, 0, a, NULL));
  holds(a, tens, 4);
  IS(heddle_operator_apply_into(op_named("multiply"), values, 2, NULL, 0, flat, NULL),
     HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply_into(op_named("multiply"), values, 1, NULL, 0, out, NULL),
     HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply_into(op_named("multiply"), values, 2, NULL, 0, NULL, NULL),
     HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply_into(op_named("add_"), values, 2, NULL, 0, out, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply_into(NULL, values, 2, NULL, 0, out, NULL), HEDDLE_INVALID_ARGUMENT);
  holds(flat, kValues, 2);
  OK(heddle_array_destroy(flat));
  OK(heddle_array_destroy(out));
  OK(heddle_array_destroy(a));
}

static void new_arrays_belong_to_the_engine(heddle_engine* engine) {
  const heddle_value full[] = {{.kind = HEDDLE_VALUE_INTEGERS, .count = 2, .as.integers = kTwoByTwo},
                               {.kind = HEDDLE_VALUE_REAL, .as.real = 2}};
  const heddle_named_value dtype = {"dtype", {.kind = HEDDLE_VALUE_TEXT, .as.text = "f32"}};
  heddle_array *array = NULL, *other = new_array(engine, kValues, kTwoByTwo, 2);
  OK(heddle_operator_apply(op_named("full"), full, 2, &dtype, 1, engine, &array, NULL));
  heddle_array* sum = apply("add", array, other);  // refused if the arrays had different engines
  const float sums[] = {3, 4, 5, 6};
  holds(sum, sums, 4);
  OK(heddle_array_destroy(sum));
  OK(heddle_array_destroy(other));
  OK(heddle_array_destroy(array));
}

static void generators_repeat(heddle_engine* engine) {
  heddle_generator *first = NULL, *second = NULL;
  OK(heddle_generator_create(7, &first, NULL));
  OK(heddle_generator_create(7, &second, NULL));
  const heddle_value shape = {.kind = HEDDLE_VALUE_INTEGERS, .count = 2, .as.integers = kTwoByTwo};
  heddle_array* arrays[3] = {NULL};
  float values[3][4];
  for (int i = 0; i < 3; ++i) {
    const heddle_named_value from = {
        "generator", {.kind = HEDDLE_VALUE_GENERATOR, .as.generator = i == 1 ? second : first}};
    OK(heddle_operator_apply(op_named("uniform"), &shape, 1, &from, 1, engine, &arrays[i], NULL));
    OK(heddle_array_read(arrays[i], values[i], sizeof values[i], NULL));
    OK(heddle_array_destroy(arrays[i]));
  }
  CHECK(memcmp(values[0], values[1], sizeof values[0]) == 0);
  CHECK(memcmp(values[0], values[2], sizeof values[0]) != 0);
  uint64_t seed = 0, position = 0;
  OK(heddle_generator_position(second, &seed, &position, NULL));
  CHECK(seed == 7 && position > 0);
  OK(heddle_generator_set_position(second, 0, NULL));
  OK(heddle_generator_position(second, &seed, &position, NULL));
  CHECK(position == 0);
  heddle_generator *parts[3] = {NULL}, *jumped = NULL;
  OK(heddle_generator_split(second, 3, parts, NULL));
  uint64_t seeds[3];
  for (int i = 0; i < 3; ++i) {
    OK(heddle_generator_position(parts[i], &seeds[i], &position, NULL));
    CHECK(position == 0 && seeds[i] != 7);
    OK(heddle_generator_destroy(parts[i]));
  }
  CHECK(seeds[0] != seeds[1] && seeds[1] != seeds[2]);
  OK(heddle_generator_jumped(second, 2, &jumped, NULL));
  OK(heddle_generator_position(jumped, &seed, &position, NULL));
  CHECK(seed == 7 && position == 1 + ((uint64_t)2 << 40));
  OK(heddle_generator_destroy(jumped));
  IS(heddle_generator_split(second, 0, parts, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_generator_split(second, 1, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_generator_jumped(second, -1, &jumped, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_seed(3, NULL));
  OK(heddle_generator_destroy(first));
  OK(heddle_generator_destroy(second));
}

static void rows_are_results_too(heddle_engine* engine) {
  const int64_t indices[] = {3, 1}, count = 2, shape[] = {5, 2};
  const heddle_array_options whole = {.struct_size = sizeof whole, .engine = engine, .dtype = HEDDLE_I64};
  heddle_array *rows = NULL, *values = new_array(engine, kValues, kTwoByTwo, 2);
  OK(heddle_array_from_memory(&whole, &count, 1, indices, sizeof indices, &rows, NULL));
  const heddle_value arguments[] = {
      of_array(rows), of_array(values), {.kind = HEDDLE_VALUE_INTEGERS, .count = 2, .as.integers = shape}};
  heddle_value result = {0};
  heddle_array* none = NULL;
  OK(heddle_operator_call(op_named("row_sparse"), arguments, 3, NULL, 0, NULL, &result, 1, NULL));
  CHECK(result.kind == HEDDLE_VALUE_ROW_SPARSE);
  IS(heddle_operator_apply(op_named("row_sparse"), arguments, 3, NULL, 0, NULL, &none, NULL),
     HEDDLE_INVALID_ARGUMENT);
  heddle_array* dense = NULL;
  OK(heddle_operator_apply(op_named("to_dense"), &result, 1, NULL, 0, NULL, &dense, NULL));
  const float expected[] = {0, 0, 3, 4, 0, 0, 1, 2, 0, 0};
  holds(dense, expected, 10);
  int64_t got[HEDDLE_MAX_DIMS] = {0};
  int32_t ndim = 0;
  OK(heddle_row_sparse_shape(result.as.row_sparse, got, &ndim, NULL));
  CHECK(ndim == 2 && got[0] == 5 && got[1] == 2);
  heddle_array* parts[3] = {NULL};
  heddle_row_sparse* again = NULL;
  OK(heddle_row_sparse_parts(result.as.row_sparse, &parts[0], &parts[1], &parts[2], NULL));
  OK(heddle_row_sparse_create(shape, 2, parts[0], parts[1], parts[2], &again, NULL));
  OK(heddle_array_read(parts[2], got, sizeof *got, NULL));
  CHECK(got[0] == 2);
  for (int i = 0; i < 3; ++i) OK(heddle_array_destroy(parts[i]));
  OK(heddle_row_sparse_destroy(again));
  OK(heddle_row_sparse_destroy(result.as.row_sparse));
  OK(heddle_array_destroy(dense));
  OK(heddle_array_destroy(rows));
  OK(heddle_array_destroy(values));
}

static void lists_are_results_too(heddle_engine* engine) {
  heddle_array* a = new_array(engine, kValues, kTwoByTwo, 2);
  const heddle_value halves[] = {of_array(a), {.kind = HEDDLE_VALUE_INTEGER, .as.integer = 2}};
  heddle_operator_info info = {.struct_size = sizeof info};
  OK(heddle_operator_describe(op_named("split"), &info, NULL));
  CHECK(info.result_count == 1 && info.results[0] == HEDDLE_VALUE_ARRAYS);
  heddle_value parts = {0};
  heddle_array* none = NULL;
  OK(heddle_operator_call(op_named("split"), halves, 2, NULL, 0, NULL, &parts, 1, NULL));
  CHECK(parts.kind == HEDDLE_VALUE_ARRAYS && parts.count == 2);
  holds(parts.as.arrays[0], kValues, 2);
  holds(parts.as.arrays[1], kValues + 2, 2);
  heddle_array* joined = NULL;
  OK(heddle_operator_apply(op_named("concat"), &parts, 1, NULL, 0, NULL, &joined, NULL));
  holds(joined, kValues, 4);
  IS(heddle_operator_apply(op_named("split"), halves, 2, NULL, 0, NULL, &none, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(!none);
  for (uint32_t i = 0; i < parts.count; ++i) OK(heddle_array_destroy(parts.as.arrays[i]));
  OK(heddle_array_list_destroy(parts.as.arrays));
  OK(heddle_array_list_destroy(NULL));
  OK(heddle_array_destroy(joined));
  OK(heddle_array_destroy(a));
}

static void bad_calls_are_refused(heddle_engine* engine) {
  heddle_array *a = new_array(engine, kValues, kTwoByTwo, 2), *result = NULL;
  const heddle_operator* softmax = op_named("softmax");
  heddle_value values[] = {of_array(a), {.kind = 99}, of_array(NULL), of_array(a)};
  const heddle_named_value unknown = {"telepathy", {.kind = HEDDLE_VALUE_INTEGER, .as.integer = 1}};
  const heddle_named_value nameless = {NULL, {.kind = HEDDLE_VALUE_INTEGER, .as.integer = 1}};
  IS(heddle_operator_apply(softmax, values, 0, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values, 2, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values + 2, 1, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values, 4, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values, SIZE_MAX, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, NULL, 1, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values, 1, &unknown, 1, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values, 1, &nameless, 1, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(softmax, values, 1, NULL, 0, NULL, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_apply(NULL, values, 1, NULL, 0, NULL, &result, NULL), HEDDLE_INVALID_ARGUMENT);
  heddle_value results[1];
  IS(heddle_operator_call(softmax, values, 1, NULL, 0, NULL, results, 0, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_operator_call(softmax, values, 1, NULL, 0, NULL, NULL, 1, NULL), HEDDLE_INVALID_ARGUMENT);
  const int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const heddle_value reshape[] = {of_array(a),
                                  {.kind = HEDDLE_VALUE_INTEGERS, .count = 9, .as.integers = many}};
  IS(heddle_operator_apply(op_named("reshape"), reshape, 2, NULL, 0, NULL, &result, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(!result);
  OK(heddle_array_destroy(a));
}

void test_operators(void) {
  heddle_engine* engine = new_engine();
  every_operator_is_described();
  calls_compute(engine);
  results_are_written_into_arrays(engine);
  new_arrays_belong_to_the_engine(engine);
  generators_repeat(engine);
  rows_are_results_too(engine);
  lists_are_results_too(engine);
  bad_calls_are_refused(engine);
  OK(heddle_engine_destroy(engine, NULL));
}
