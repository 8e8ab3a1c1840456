// GPUs, their memory, and the memory of arrays for work on streams. docs/embedding_arrays.md has an example.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// How many GPUs this process may use; 0 in a build without CUDA.
HEDDLE_API heddle_status heddle_gpu_count(int32_t* count, heddle_error** error);

typedef struct heddle_gpu_memory {
  size_t struct_size;  // sizeof(heddle_gpu_memory), set by the caller
  uint64_t in_use;     // bytes that arrays have
  uint64_t cached;     // bytes that are kept for reuse
  uint64_t free;       // bytes that the device has left; 0 for page-locked memory, where that is not known
} heddle_gpu_memory;

// The memory of a GPU, or page-locked memory (HEDDLE_CPU_PINNED). Another device, or one that is not there, is
// HEDDLE_INVALID_ARGUMENT.
HEDDLE_API heddle_status heddle_gpu_memory_stats(heddle_device device, heddle_gpu_memory* stats,
                                                 heddle_error** error);
// Returns what is kept for reuse to the device, so that other libraries in the process can have it; page-locked memory to the
// system. Devices are those of heddle_gpu_memory_stats.
HEDDLE_API heddle_status heddle_gpu_memory_trim(heddle_device device, heddle_error** error);

// The address of the first element, for work on a stream of the array's device. It is no address for the CPU. The strides are
// those of heddle_array_describe. Call it
// - inside an op that declared the var as mutated (heddle_push_on), for work on the op's stream; or
// - after heddle_array_order_before(array, stream), for work on that stream. Call heddle_array_order_after(array, stream) when
//   the work is enqueued, before other calls on the array.
// The address is valid as long as the array; keep a handle until the work is enqueued.
HEDDLE_API heddle_status heddle_array_device_data(const heddle_array* array, void** data,
                                                  heddle_error** error);
// As heddle_array_device_data, but the memory may only be read, and it is enough that the op declared the var as read.
HEDDLE_API heddle_status heddle_array_read_device_data(const heddle_array* array, const void** data,
                                                       heddle_error** error);

#ifdef __cplusplus
}
#endif
