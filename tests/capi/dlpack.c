// DLPack: arrays passed to and taken from another library.
#include "support.h"

static const float kValues[] = {1, 2, 3};

static void memory_is_shared(heddle_engine* engine) {
  heddle_array *array = new_vector(engine, kValues, 3), *again = NULL;
  heddle_dl_managed_tensor_versioned* tensor = NULL;
  OK(heddle_array_to_dlpack(array, 0, &tensor, NULL));
  CHECK(tensor->tensor.ndim == 1 && tensor->tensor.shape[0] == 3);
  const void* data = NULL;
  OK(heddle_array_read_data(array, &data, NULL));
  CHECK((const char*)tensor->tensor.data + tensor->tensor.byte_offset == data);
  OK(heddle_array_destroy(array));  // the tensor keeps the memory alive
  OK(heddle_array_from_dlpack(engine, tensor, 0, &again, NULL));
  holds(again, kValues, 3);
  heddle_dl_device device = {0, 0};
  OK(heddle_array_dlpack_device(again, &device, NULL));
  CHECK(device.type == HEDDLE_DL_CPU && device.index == 0);
  heddle_dl_managed_tensor* old = NULL;
  OK(heddle_array_to_dlpack_unversioned(again, 1, &old, NULL));
  OK(heddle_array_fill(again, 0, NULL));
  OK(heddle_array_destroy(again));
  OK(heddle_array_from_dlpack_unversioned(engine, old, 0, &again, NULL));
  holds(again, kValues, 3);  // the unversioned tensor was a copy
  OK(heddle_array_destroy(again));
}

// Streams are for arrays of a GPU. On one, the legacy default stream takes part.
static void streams_are_ordered(heddle_engine* engine) {
  heddle_array *here = new_vector(engine, kValues, 3), *there = NULL, *again = NULL;
  heddle_dl_managed_tensor_versioned* tensor = NULL;
  void* const stream = (void*)1;
  IS(heddle_array_order_before(here, stream, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_order_after(here, stream, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_to_dlpack_on(here, 0, stream, &tensor, NULL), HEDDLE_INVALID_ARGUMENT);
  const heddle_device gpu = {HEDDLE_CUDA, 0};
  if (heddle_array_to_device(here, gpu, &there, NULL) == HEDDLE_OK) {
    OK(heddle_array_to_dlpack_on(there, 0, stream, &tensor, NULL));
    CHECK(tensor->tensor.device.type == HEDDLE_DL_CUDA);
    OK(heddle_array_from_dlpack(engine, tensor, 0, &again, NULL));
    OK(heddle_array_order_after(again, stream, NULL));
    OK(heddle_array_order_before(again, stream, NULL));
    holds(again, kValues, 3);
    OK(heddle_array_destroy(again));
    OK(heddle_array_destroy(there));
  }
  OK(heddle_array_destroy(here));
}

struct lender {
  heddle_dl_managed_tensor_versioned tensor;
  float values[3];
  int64_t shape;
  int returned;
};

static void take_back(heddle_dl_managed_tensor_versioned* self) {
  ++((struct lender*)self->manager_ctx)->returned;
}

static void lent_memory_is_given_back(void) {
  heddle_engine* engine = new_engine();
  struct lender lender = {.values = {4, 5, 6}, .shape = 3};
  lender.tensor = (heddle_dl_managed_tensor_versioned){.version = {1, 0},
                                                       .manager_ctx = &lender,
                                                       .deleter = take_back,
                                                       .tensor = {.data = lender.values,
                                                                  .device = {HEDDLE_DL_CPU, 0},
                                                                  .ndim = 1,
                                                                  .dtype = {HEDDLE_DL_FLOAT, 32, 1},
                                                                  .shape = &lender.shape}};
  heddle_array* array = NULL;
  lender.tensor.flags = HEDDLE_DL_READ_ONLY;
  IS(heddle_array_from_dlpack(engine, &lender.tensor, 0, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_array_from_dlpack(engine, NULL, 0, &array, NULL), HEDDLE_INVALID_ARGUMENT);
  CHECK(lender.returned == 0 && !array);
  lender.tensor.flags = 0;
  OK(heddle_array_from_dlpack(engine, &lender.tensor, 0, &array, NULL));
  OK(heddle_array_fill(array, 7, NULL));
  OK(heddle_array_wait(array, NULL));
  CHECK(lender.values[2] == 7 && lender.returned == 0);
  OK(heddle_array_destroy(array));
  OK(heddle_engine_destroy(engine, NULL));
  CHECK(lender.returned == 1);
}

void test_dlpack(void) {
  heddle_engine* engine = new_engine();
  memory_is_shared(engine);
  streams_are_ordered(engine);
  OK(heddle_engine_destroy(engine, NULL));
  lent_memory_is_given_back();
}
