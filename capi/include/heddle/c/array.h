// n-dimensional arrays whose values the engine computes. Calls on arrays push ops and return at once.
#pragma once

#include <heddle/c/core.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on an array. Handles and views of one array share storage, var and values.
typedef struct heddle_array heddle_array;

#define HEDDLE_F32 ((int32_t)0)
#define HEDDLE_F64 ((int32_t)1)
#define HEDDLE_I32 ((int32_t)2)
#define HEDDLE_I64 ((int32_t)3)
#define HEDDLE_U8 ((int32_t)4)
#define HEDDLE_BOOL ((int32_t)5)  // a byte, 0 or 1; no other byte is allowed in memory passed to a call
#define HEDDLE_F16 ((int32_t)6)
#define HEDDLE_BF16 ((int32_t)7)
#define HEDDLE_I8 ((int32_t)8)
#define HEDDLE_I16 ((int32_t)9)
#define HEDDLE_U16 ((int32_t)10)
#define HEDDLE_U32 ((int32_t)11)
#define HEDDLE_U64 ((int32_t)12)

#define HEDDLE_CPU ((int32_t)0)         // cpu(0), cpu(1) ... are separate devices in the same memory
#define HEDDLE_CUDA ((int32_t)1)        // a GPU
#define HEDDLE_CPU_PINNED ((int32_t)2)  // page-locked memory of the CPU

typedef struct heddle_device {
  int32_t kind;  // HEDDLE_CPU ...
  int32_t index;
} heddle_device;

#define HEDDLE_MAX_DIMS 8

// heddle_dtype_name gives the name of a dtype, such as "f32", as static text. heddle_dtype_from_name gives
// the dtype of a name.
HEDDLE_API heddle_status heddle_dtype_name(int32_t dtype, const char** name, heddle_error** error);
HEDDLE_API heddle_status heddle_dtype_from_name(const char* name, int32_t* dtype, heddle_error** error);
// The size of an array element of that dtype, in bytes.
HEDDLE_API heddle_status heddle_dtype_size(int32_t dtype, size_t* bytes, heddle_error** error);

// The engine, dtype and device of a new array. Members that are zero, or null options, mean f32 on cpu(0) of
// the default engine.
typedef struct heddle_array_options {
  size_t struct_size;     // sizeof(heddle_array_options)
  heddle_engine* engine;  // null: the default engine
  int32_t dtype;          // HEDDLE_F32 ...
  heddle_device device;
} heddle_array_options;

// Makes an array with undetermined values: write them before an op reads them. `shape` has ndim numbers, none
// negative; ndim is at most HEDDLE_MAX_DIMS, and 0 for an array of one number.
HEDDLE_API heddle_status heddle_array_create(const heddle_array_options* options, const int64_t* shape,
                                             int32_t ndim, heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_array_zeros(const heddle_array_options* options, const int64_t* shape,
                                            int32_t ndim, heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_array_ones(const heddle_array_options* options, const int64_t* shape,
                                           int32_t ndim, heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_array_full(const heddle_array_options* options, const int64_t* shape,
                                           int32_t ndim, double value, heddle_array** array,
                                           heddle_error** error);
// Makes an array with a copy of the values at `data`, which are row-major and are copied during the call.
// `bytes` must be the size that the shape and dtype need; bools are 0 or 1.
HEDDLE_API heddle_status heddle_array_from_memory(const heddle_array_options* options, const int64_t* shape,
                                                  int32_t ndim, const void* data, size_t bytes,
                                                  heddle_array** array, heddle_error** error);
// Makes an array on the caller's memory, which is on the options' device, row-major and aligned for the
// dtype; bools are 0 or 1. Memory that is not of the GPU that the options name, or not page-locked for HEDDLE_CPU_PINNED, is
// HEDDLE_INVALID_ARGUMENT. Ops do not wait for work of other streams on it: heddle_array_order_after(). destroy(ctx) is called exactly once, on any thread: after the last handle, view
// and op that use the memory are gone, or in this call if it fails. `destroy` may be null.
HEDDLE_API heddle_status heddle_array_lend(const heddle_array_options* options, const int64_t* shape,
                                           int32_t ndim, void* data, size_t bytes, void* ctx,
                                           heddle_destroy_fn destroy, heddle_array** array,
                                           heddle_error** error);
// Makes a second handle on the same array.
HEDDLE_API heddle_status heddle_array_copy(const heddle_array* array, heddle_array** copy,
                                           heddle_error** error);
// Destroys the handle. Ops on the array are not affected.
HEDDLE_API heddle_status heddle_array_destroy(heddle_array* array);

typedef struct heddle_array_info {
  size_t struct_size;  // sizeof(heddle_array_info), set by the caller
  int32_t dtype;
  int32_t ndim;
  int64_t shape[HEDDLE_MAX_DIMS];
  int64_t strides[HEDDLE_MAX_DIMS];  // strides in elements
  int64_t offset;                    // position of the first element in the storage, in elements
  int64_t size;                      // number of elements
  heddle_device device;
  int32_t contiguous;  // 1: row-major without gaps
  int32_t item_size;   // bytes per element
} heddle_array_info;

HEDDLE_API heddle_status heddle_array_describe(const heddle_array* array, heddle_array_info* info,
                                               heddle_error** error);
// A handle on the array's var, for the program's own ops that read or mutate the array (heddle_push). Arrays
// that share storage have the same var.
HEDDLE_API heddle_status heddle_array_var(const heddle_array* array, heddle_var** var, heddle_error** error);

// The address of the first element. Call it only inside an op that declared the var as mutated, or after a
// wait. The strides are those of heddle_array_describe. The pointer is valid as long as the array.
HEDDLE_API heddle_status heddle_array_data(const heddle_array* array, void** data, heddle_error** error);
// As heddle_array_data, but the memory may only be read, and it is enough that the op declared the var as
// read.
HEDDLE_API heddle_status heddle_array_read_data(const heddle_array* array, const void** data,
                                                heddle_error** error);

// Blocks until every op pushed so far that changes the array is done. Errors are as for heddle_wait.
HEDDLE_API heddle_status heddle_array_wait(const heddle_array* array, heddle_error** error);
// Waits for the array and copies its values to `data`, row-major. `bytes` must be size * item_size. The array
// may be on any device.
HEDDLE_API heddle_status heddle_array_read(const heddle_array* array, void* data, size_t bytes,
                                           heddle_error** error);
// Waits for the array and formats its values as NumPy prints them. The caller frees *text with
// heddle_text_destroy.
HEDDLE_API heddle_status heddle_array_to_text(const heddle_array* array, char** text, heddle_error** error);

// Sets the call site that is named by the ops and errors of the calling thread's later calls; null: no call
// site. `site` and its texts must outlive these ops and errors: let them be static, or intern the texts
// (heddle_intern). `previous` may be null.
HEDDLE_API heddle_status heddle_site_set(const heddle_site* site, const heddle_site** previous);

#ifdef __cplusplus
}
#endif
