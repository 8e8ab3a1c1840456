// Exchange of arrays with other libraries without a copy, by DLPack. As <heddle/dlpack.h> says, the engine
// orders its own ops on such memory, not the other library's accesses.
#pragma once

#include <heddle/c/array.h>
#include <heddle/c/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

// Lends the array's memory until the receiver calls the deleter, on any thread. Blocks until all ops pushed
// so far that read or mutate the array have ended. `copy` 1: the receiver gets a copy. Memory of a GPU is given back behind the
// work that the legacy default stream has when the deleter is called.
HEDDLE_API heddle_status heddle_array_to_dlpack(const heddle_array* array, int32_t copy,
                                                heddle_dl_managed_tensor_versioned** tensor,
                                                heddle_error** error);
// As heddle_array_to_dlpack, but makes the DLPack struct without version and flags, which receivers older
// than DLPack 1 need.
HEDDLE_API heddle_status heddle_array_to_dlpack_unversioned(const heddle_array* array, int32_t copy,
                                                            heddle_dl_managed_tensor** tensor,
                                                            heddle_error** error);

// Makes an array of this engine (null: the default engine) on memory that another library lends. If the call
// succeeds, the array owns the tensor: the deleter is called when the last handle, view and op that use the
// memory are gone. `copy` 1: the array has a copy of the values, the deleter is called after copying, and
// read-only memory is accepted. Ops on memory of a GPU run after the work that the legacy default stream has now. Does not
// block.
HEDDLE_API heddle_status heddle_array_from_dlpack(heddle_engine* engine,
                                                  heddle_dl_managed_tensor_versioned* tensor, int32_t copy,
                                                  heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_array_from_dlpack_unversioned(heddle_engine* engine,
                                                              heddle_dl_managed_tensor* tensor, int32_t copy,
                                                              heddle_array** array, heddle_error** error);
// For arrays of a GPU; others are HEDDLE_INVALID_ARGUMENT. `stream`: a cudaStream_t of that GPU, 1: the legacy default stream, 2: that
// of the calling thread. heddle_array_order_before(): work that the stream gets from now on runs after all ops pushed so far that read
// or mutate the array. heddle_array_order_after(): ops pushed from now on run after the work that the stream has now.
// heddle_array_order_before() waits until the ops are issued; no function waits until they have run.
HEDDLE_API heddle_status heddle_array_order_before(const heddle_array* array, void* stream,
                                                   heddle_error** error);
HEDDLE_API heddle_status heddle_array_order_after(const heddle_array* array, void* stream,
                                                  heddle_error** error);
// heddle_array_to_dlpack for a receiver that uses the memory on this stream: ordered as by heddle_array_order_before(). When the
// deleter is called, the memory is given back behind the work that the stream has then; the stream lives until then.
// `stream` (void*)-1: the receiver orders its own work, and calls the deleter when that has run.
HEDDLE_API heddle_status heddle_array_to_dlpack_on(const heddle_array* array, int32_t copy, void* stream,
                                                   heddle_dl_managed_tensor_versioned** tensor,
                                                   heddle_error** error);
// heddle_array_from_dlpack for memory that the work of this stream, or work before it, has written: ops on the array, and the
// copy, run after the work that the stream has now.
HEDDLE_API heddle_status heddle_array_from_dlpack_on(heddle_engine* engine,
                                                     heddle_dl_managed_tensor_versioned* tensor, int32_t copy,
                                                     void* stream, heddle_array** array,
                                                     heddle_error** error);

// The device of the array's memory, which a receiver asks for before the tensor.
HEDDLE_API heddle_status heddle_array_dlpack_device(const heddle_array* array, heddle_dl_device* device,
                                                    heddle_error** error);

#ifdef __cplusplus
}
#endif
