// GPUs through the C ABI. Without a GPU only the refusals are tested; the tests on the emulated GPU run all.
#include "support.h"

static const float kValues[] = {1, 2, 3};
static const heddle_device kGpu = {HEDDLE_CUDA, 0}, kPinned = {HEDDLE_CPU_PINNED, 0};

static void devices_are_checked(int32_t count) {
  const heddle_device here = {HEDDLE_CPU, 0}, none = {HEDDLE_CUDA, count}, wrong = {7, 0};
  heddle_gpu_memory memory = {.struct_size = sizeof memory};
  IS(heddle_gpu_count(NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_gpu_memory_stats(here, &memory, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_gpu_memory_stats(none, &memory, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_gpu_memory_stats(wrong, &memory, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_gpu_memory_stats(kGpu, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_gpu_memory_trim(here, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_gpu_memory_trim(none, NULL), HEDDLE_INVALID_ARGUMENT);
}

// Memory that is lent for a device has to be there.
static void lent_memory_is_checked(heddle_engine* engine) {
  static float memory[3];
  const int64_t shape = 3;
  atomic_int given_back = 0;
  heddle_array* array = NULL;
  heddle_array_options options = {.struct_size = sizeof options, .engine = engine, .device = kGpu};
  IS(heddle_array_lend(&options, &shape, 1, memory, sizeof memory, &given_back, give_back, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  options.device = kPinned;
  IS(heddle_array_lend(&options, &shape, 1, memory, sizeof memory, &given_back, give_back, &array, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(atomic_load(&given_back) == 2);
}

static void addresses_of_the_cpu(heddle_engine* engine) {
  heddle_array *array = new_vector(engine, kValues, 3), *part = NULL, *empty = NULL;
  void *data = NULL, *of_device = NULL;
  const void* read = NULL;
  OK(heddle_array_slice(array, 0, 1, 3, 1, &part, NULL));
  OK(heddle_array_data(part, &data, NULL));
  OK(heddle_array_device_data(part, &of_device, NULL));
  OK(heddle_array_read_device_data(part, &read, NULL));
  CHECK(data == of_device && data == read);
  IS(heddle_array_device_data(part, NULL, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_read_device_data(NULL, &read, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_slice(array, 0, 3, 3, 1, &empty, NULL));
  OK(heddle_array_device_data(empty, &of_device, NULL));
  CHECK(!of_device);
  OK(heddle_array_destroy(empty));
  OK(heddle_array_destroy(part));
  OK(heddle_array_destroy(array));
}

// The memory of one array, which is lent as another runtime would lend its own.
static void lent_memory_of_a_gpu(heddle_engine* engine, int32_t count) {
  void* const stream = (void*)1;
  const int64_t shape = 3;
  atomic_int given_back = 0;
  heddle_array *here = new_vector(engine, kValues, 3), *owner = NULL, *lent = NULL;
  OK(heddle_array_to_device(here, kGpu, &owner, NULL));
  void* data = NULL;
  IS(heddle_array_data(owner, &data, NULL), HEDDLE_FAILED);
  OK(heddle_array_order_before(owner, stream, NULL));
  OK(heddle_array_device_data(owner, &data, NULL));
  heddle_array_options options = {.struct_size = sizeof options, .engine = engine, .device = kGpu};
  OK(heddle_array_lend(&options, &shape, 1, data, 12, &given_back, give_back, &lent, NULL));
  OK(heddle_array_order_after(lent, stream, NULL));
  holds(lent, kValues, 3);
  OK(heddle_array_destroy(lent));
  OK(heddle_wait_all(engine, NULL));
  CHECK(atomic_load(&given_back) == 1);
  if (count > 1) {
    options.device.index = 1;
    IS(heddle_array_lend(&options, &shape, 1, data, 12, &given_back, give_back, &lent, NULL),
       HEDDLE_INVALID_ARGUMENT);
    CHECK(atomic_load(&given_back) == 2);
  }
  OK(heddle_array_destroy(owner));
  OK(heddle_array_destroy(here));
}

// The function of docs/embedding_arrays.md.
static heddle_status relu_on(void* stream, float* x, float* y, int64_t n, heddle_error** error) {
  const heddle_array_options options = {.struct_size = sizeof options, .device = {HEDDLE_CUDA, 0}};
  const size_t bytes = (size_t)n * sizeof *x;
  const heddle_operator* relu = NULL;
  heddle_array *in = NULL, *out = NULL;
  heddle_status status = heddle_operator_find("relu", &relu, error);
  if (!status) status = heddle_array_lend(&options, &n, 1, x, bytes, NULL, NULL, &in, error);
  if (!status) status = heddle_array_lend(&options, &n, 1, y, bytes, NULL, NULL, &out, error);
  if (!status) status = heddle_array_order_after(in, stream, error);   // x is written
  if (!status) status = heddle_array_order_after(out, stream, error);  // y is not in use any more
  const heddle_value argument = {.kind = HEDDLE_VALUE_ARRAY, .as.array = in};
  if (!status) status = heddle_operator_apply_into(relu, &argument, 1, NULL, 0, out, error);
  if (!status) status = heddle_array_order_before(out, stream, error);  // what the stream gets next sees y
  heddle_array_destroy(in);
  heddle_array_destroy(out);
  return status;
}

static void an_operator_in_the_middle_of_a_stream(heddle_engine* engine) {
  static const float kMixed[] = {-1, 2, -3}, kPositive[] = {0, 2, 0};
  void *const stream = (void*)1, *x = NULL, *y = NULL;
  heddle_array *here = new_vector(engine, kMixed, 3), *in = NULL, *out = NULL;
  OK(heddle_array_to_device(here, kGpu, &in, NULL));
  OK(heddle_array_to_device(here, kGpu, &out, NULL));
  OK(heddle_array_order_before(in, stream, NULL));
  OK(heddle_array_order_before(out, stream, NULL));
  OK(heddle_array_device_data(in, &x, NULL));
  OK(heddle_array_device_data(out, &y, NULL));
  OK(relu_on(stream, x, y, 3, NULL));
  OK(heddle_array_order_after(out, stream, NULL));
  holds(out, kPositive, 3);
  OK(heddle_array_destroy(out));
  OK(heddle_array_destroy(in));
  OK(heddle_array_destroy(here));
}

static void memory_is_told(heddle_engine* engine) {
  heddle_array *here = new_vector(engine, kValues, 3), *there = NULL;
  OK(heddle_array_to_device(here, kGpu, &there, NULL));
  OK(heddle_array_wait(there, NULL));
  heddle_gpu_memory with = {.struct_size = sizeof with}, without = with, pinned = with;
  OK(heddle_gpu_memory_stats(kGpu, &with, NULL));
  OK(heddle_array_destroy(there));
  OK(heddle_wait_all(engine, NULL));
  OK(heddle_gpu_memory_stats(kGpu, &without, NULL));
  CHECK(with.struct_size == sizeof with && with.free > 0 && with.in_use == without.in_use + 12);
  OK(heddle_gpu_memory_stats(kPinned, &pinned, NULL));
  CHECK(pinned.cached > 0);  // the copy's
  OK(heddle_gpu_memory_trim(kPinned, NULL));
  OK(heddle_gpu_memory_trim(kGpu, NULL));
  OK(heddle_gpu_memory_stats(kPinned, &pinned, NULL));
  CHECK(pinned.cached == 0);
  OK(heddle_array_destroy(here));
}

static void tensors_come_with_their_stream(heddle_engine* engine) {
  void* const stream = (void*)1;
  heddle_array *here = new_vector(engine, kValues, 3), *there = NULL, *again = NULL;
  heddle_dl_managed_tensor_versioned* tensor = NULL;
  OK(heddle_array_to_device(here, kGpu, &there, NULL));
  for (int32_t copy = 0; copy < 2; ++copy) {
    OK(heddle_array_to_dlpack_on(there, 0, copy ? stream : (void*)-1, &tensor, NULL));
    OK(heddle_array_from_dlpack_on(engine, tensor, copy, stream, &again, NULL));
    holds(again, kValues, 3);
    OK(heddle_array_destroy(again));
  }
  OK(heddle_array_destroy(there));
  OK(heddle_array_destroy(here));
}

void test_gpu(void) {
  int32_t count = -1;
  OK(heddle_gpu_count(&count, NULL));
  CHECK(count >= 0);
  heddle_engine* engine = new_engine();
  devices_are_checked(count);
  lent_memory_is_checked(engine);
  addresses_of_the_cpu(engine);
  if (count > 0) {
    lent_memory_of_a_gpu(engine, count);
    an_operator_in_the_middle_of_a_stream(engine);
    memory_is_told(engine);
    tensors_come_with_their_stream(engine);
  }
  OK(heddle_engine_destroy(engine, NULL));
}
