// Arrays: creation, inspection, views, changes, lent memory.
#include "support.h"

static const float kSix[] = {1, 2, 3, 4, 5, 6};
static const int64_t kTwoByThree[] = {2, 3};

static void described(heddle_engine* engine) {
  heddle_array* array = new_array(engine, kSix, kTwoByThree, 2);
  heddle_array_info info = {.struct_size = sizeof info};
  OK(heddle_array_describe(array, &info, NULL));
  CHECK(info.dtype == HEDDLE_F32 && info.ndim == 2 && info.shape[0] == 2 && info.shape[1] == 3);
  CHECK(info.strides[0] == 3 && info.strides[1] == 1 && info.offset == 0 && info.size == 6);
  CHECK(info.contiguous == 1 && info.item_size == 4 && info.device.kind == HEDDLE_CPU);
  info.struct_size = 8;
  IS(heddle_array_describe(array, &info, NULL), HEDDLE_INVALID_ARGUMENT);
  holds(array, kSix, 6);
  char* text = NULL;
  OK(heddle_array_to_text(array, &text, NULL));
  CHECK(strcmp(text, "[[1. 2. 3.]\n [4. 5. 6.]]") == 0);
  OK(heddle_text_destroy(text));
  OK(heddle_array_destroy(array));
  OK(heddle_array_destroy(NULL));
}

static void printed_and_counted(heddle_engine* engine) {
  heddle_print_options options = {.struct_size = sizeof options};
  OK(heddle_print_options_get(&options, NULL));
  CHECK(options.precision == 8 && options.threshold == 1000 && options.edgeitems == 3 &&
        options.linewidth == 75);
  const heddle_print_options usual = options;
  options.threshold = 2;
  options.edgeitems = 1;
  OK(heddle_print_options_set(&options, NULL));
  OK(heddle_memory_track(1, NULL));
  heddle_array* array = new_array(engine, kSix, kTwoByThree, 2);
  char* text = NULL;
  OK(heddle_array_to_text(array, &text, NULL));
  CHECK(strcmp(text, "[[1. ... 3.]\n [4. ... 6.]]") == 0);
  OK(heddle_text_destroy(text));
  OK(heddle_memory_report(&text, NULL));
  CHECK(strstr(text, "at peak") != NULL);
  OK(heddle_text_destroy(text));
  OK(heddle_memory_track(0, NULL));
  IS(heddle_memory_report(NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  options.edgeitems = 0;
  IS(heddle_print_options_set(&options, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_print_options_set(&usual, NULL));
  options.struct_size = 4;
  IS(heddle_print_options_get(&options, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(array));
}

static void made(heddle_engine* engine) {
  heddle_array_options options = {.struct_size = sizeof options, .engine = engine, .dtype = HEDDLE_I64};
  heddle_array* array = NULL;
  OK(heddle_array_full(&options, kTwoByThree, 2, 7, &array, NULL));
  int64_t values[6];
  OK(heddle_array_read(array, values, sizeof values, NULL));
  for (int i = 0; i < 6; ++i) CHECK(values[i] == 7);
  // a double cannot represent this number
  OK(heddle_array_fill_integer(array, INT64_C(9007199254740993), NULL));
  OK(heddle_array_read(array, values, sizeof values, NULL));
  CHECK(values[5] == INT64_C(9007199254740993));
  OK(heddle_array_destroy(array));
  OK(heddle_array_ones(NULL, NULL, 0, &array, NULL));  // a scalar, on the default engine
  const float one = 1, zeros[6] = {0};
  holds(array, &one, 1);
  OK(heddle_array_fill(array, 2.5, NULL));
  const float filled = 2.5F;
  holds(array, &filled, 1);
  OK(heddle_array_destroy(array));
  options.dtype = HEDDLE_F32;
  OK(heddle_array_zeros(&options, kTwoByThree, 2, &array, NULL));
  holds(array, zeros, 6);
  OK(heddle_array_destroy(array));
  OK(heddle_array_create(&options, kTwoByThree, 2, &array, NULL));
  OK(heddle_array_destroy(array));
}

static void refused(heddle_engine* engine) {
  heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  heddle_array* array = NULL;
  heddle_error* error = NULL;
  const int64_t negative[] = {2, -3}, huge[] = {INT64_MAX, 2}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  IS(heddle_array_zeros(&options, negative, 2, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_zeros(&options, huge, 2, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_zeros(&options, many, 9, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_zeros(&options, many, -1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_zeros(&options, NULL, 1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_zeros(&options, many, 1, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  options.dtype = 13;
  IS(heddle_array_zeros(&options, many, 1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  options.dtype = -1;
  IS(heddle_array_zeros(&options, many, 1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  options.dtype = HEDDLE_F32;
  options.device.kind = 3;
  IS(heddle_array_zeros(&options, many, 1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  options.device.kind = HEDDLE_CPU;
  options.device.index = -1;
  IS(heddle_array_zeros(&options, many, 1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  options.device.index = 0;
  options.struct_size = 3;
  IS(heddle_array_zeros(&options, many, 1, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  options.struct_size = sizeof options;
  IS(heddle_array_from_memory(&options, kTwoByThree, 2, kSix, 23, &array, &error), HEDDLE_INVALID_ARGUMENT);
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(strcmp(info.message, "heddle_array_from_memory: 23 bytes for an array of f32 (2, 3)") == 0);
  OK(heddle_error_destroy(error));
  CHECK(!array);

  heddle_var* var = NULL;
  OK(heddle_var_create(engine, &var, NULL));
  IS(heddle_array_wait((heddle_array*)var, &error), HEDDLE_BAD_HANDLE);
  OK(heddle_error_describe(error, &info));
  CHECK(strcmp(info.message, "heddle_array_wait: got heddle_var, want heddle_array") == 0);
  OK(heddle_error_destroy(error));
  OK(heddle_var_destroy(var));
  array = new_array(engine, kSix, kTwoByThree, 2);
  // the engine knows all handle types
  IS(heddle_wait(engine, (heddle_var*)array, &error), HEDDLE_BAD_HANDLE);
  OK(heddle_error_describe(error, &info));
  CHECK(strcmp(info.message, "heddle_wait: got heddle_array, want heddle_var") == 0 || is_checked());
  OK(heddle_error_destroy(error));
  float few[2];
  IS(heddle_array_read(array, few, sizeof few, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_read(array, NULL, 24, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(array));
  if (is_checked()) {
    IS(heddle_array_wait(array, NULL), HEDDLE_BAD_HANDLE);
    IS(heddle_array_destroy(array), HEDDLE_BAD_HANDLE);
  }
}

static void viewed(heddle_engine* engine) {
  heddle_array *array = new_array(engine, kSix, kTwoByThree, 2), *view = NULL, *other = NULL;
  const float columns[] = {1, 3, 4, 6}, turned[] = {1, 4, 2, 5, 3, 6}, last[] = {4, 5, 6};
  OK(heddle_array_slice(array, -1, HEDDLE_END, HEDDLE_END, 2, &view, NULL));
  holds(view, columns, 4);
  heddle_array_info info = {.struct_size = sizeof info};
  OK(heddle_array_describe(view, &info, NULL));
  CHECK(info.contiguous == 0 && info.strides[1] == 2);
  OK(heddle_array_contiguous(view, &other, NULL));
  holds(other, columns, 4);
  OK(heddle_array_destroy(other));
  OK(heddle_array_destroy(view));
  OK(heddle_array_transpose(array, NULL, 0, &view, NULL));
  holds(view, turned, 6);
  OK(heddle_array_destroy(view));
  const int32_t same[] = {0, 1}, wrong[] = {0, 0};
  OK(heddle_array_transpose(array, same, 2, &view, NULL));
  holds(view, kSix, 6);
  OK(heddle_array_destroy(view));
  IS(heddle_array_transpose(array, wrong, 2, &view, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_index(array, -1, &view, NULL));
  holds(view, last, 3);
  const int64_t twice[] = {2, 3}, flat[] = {-1}, bad[] = {4};
  OK(heddle_array_broadcast(view, twice, 2, &other, NULL));
  const float rows[] = {4, 5, 6, 4, 5, 6};
  holds(other, rows, 6);
  IS(heddle_array_fill(other, 1, NULL), HEDDLE_INVALID_ARGUMENT);  // a broadcast view
  OK(heddle_array_destroy(other));
  OK(heddle_array_assign(array, view, NULL));  // the source overlaps the destination, and is broadcast
  holds(array, rows, 6);
  OK(heddle_array_destroy(view));
  OK(heddle_array_reshape(array, flat, 1, &view, NULL));
  OK(heddle_array_fill(view, 3, NULL));
  const float threes[] = {3, 3, 3, 3, 3, 3};
  holds(array, threes, 6);
  IS(heddle_array_reshape(array, bad, 1, &other, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_index(array, 2, &other, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(view));
  OK(heddle_array_destroy(array));
}

static void converted(heddle_engine* engine) {
  heddle_array *array = new_array(engine, kSix, kTwoByThree, 2), *other = NULL, *again = NULL;
  OK(heddle_array_astype(array, HEDDLE_I32, &other, NULL));
  int32_t whole[6];
  OK(heddle_array_read(other, whole, sizeof whole, NULL));
  CHECK(whole[0] == 1 && whole[5] == 6);
  OK(heddle_array_destroy(other));
  OK(heddle_array_clone(array, &other, NULL));
  OK(heddle_array_copy(array, &again, NULL));
  OK(heddle_array_fill(array, 0, NULL));
  const float zeros[6] = {0};
  holds(other, kSix, 6);
  holds(again, zeros, 6);
  OK(heddle_array_destroy(other));
  const heddle_device second = {HEDDLE_CPU, 1};
  OK(heddle_array_to_device(array, second, &other, NULL));
  heddle_array_info info = {.struct_size = sizeof info};
  OK(heddle_array_describe(other, &info, NULL));
  CHECK(info.device.index == 1);
  OK(heddle_array_destroy(other));
  OK(heddle_array_destroy(again));
  OK(heddle_array_destroy(array));
  const char* name = NULL;
  int32_t dtype = 0;
  size_t bytes = 0;
  OK(heddle_dtype_name(HEDDLE_BF16, &name, NULL));
  OK(heddle_dtype_from_name("bool", &dtype, NULL));
  OK(heddle_dtype_size(HEDDLE_F64, &bytes, NULL));
  CHECK(strcmp(name, "bf16") == 0 && dtype == HEDDLE_BOOL && bytes == 8);
  IS(heddle_dtype_from_name("f8", &dtype, NULL), HEDDLE_INVALID_ARGUMENT);
}

static void lent(void) {
  heddle_engine* engine = new_engine();
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  atomic_int owner = 0;
  float memory[7] = {1, 2, 3, 4, 5, 6, 7};
  heddle_array *array = NULL, *view = NULL;
  OK(heddle_array_lend(&options, kTwoByThree, 2, memory, 24, &owner, give_back, &array, NULL));
  OK(heddle_array_index(array, 1, &view, NULL));
  OK(heddle_array_destroy(array));
  OK(heddle_array_fill(view, 9, NULL));
  OK(heddle_array_wait(view, NULL));
  CHECK(memory[2] == 3 && memory[3] == 9 && memory[5] == 9 && memory[6] == 7 && owner == 0);
  OK(heddle_array_destroy(view));
  OK(heddle_engine_destroy(engine, NULL));  // waits for the last op, which holds the lent memory
  CHECK(owner == 1);
  IS(heddle_array_lend(NULL, kTwoByThree, 2, memory, 20, &owner, give_back, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(owner == 2);
  IS(heddle_array_lend(NULL, kTwoByThree, 2, (char*)memory + 1, 24, &owner, give_back, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_lend(NULL, kTwoByThree, 2, NULL, 24, &owner, give_back, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(owner == 4);
}

static void bools(void) {
  const heddle_array_options options = {.struct_size = sizeof options, .dtype = HEDDLE_BOOL};
  const int64_t count = 3;
  unsigned char right[3] = {0, 1, 1}, wrong[3] = {0, 1, 255};
  atomic_int owner = 0;
  heddle_array* array = NULL;
  OK(heddle_array_from_memory(&options, &count, 1, right, sizeof right, &array, NULL));
  OK(heddle_array_destroy(array));
  array = NULL;
  IS(heddle_array_from_memory(&options, &count, 1, wrong, sizeof wrong, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_lend(&options, &count, 1, wrong, sizeof wrong, &owner, give_back, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(!array && owner == 1);
}

void test_arrays(void) {
  heddle_engine* engine = new_engine();
  described(engine);
  printed_and_counted(engine);
  made(engine);
  refused(engine);
  viewed(engine);
  converted(engine);
  OK(heddle_engine_destroy(engine, NULL));
  lent();
  bools();
}
