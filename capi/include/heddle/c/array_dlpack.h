// Arrays that other libraries use without a copy, and theirs that we use, by DLPack. What <heddle/dlpack.h> says holds here:
// the engine orders what its ops do with such memory, not what others do.
#pragma once

#include <heddle/c/array.h>
#include <heddle/c/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

// The array's memory, on loan until the receiver calls the deleter, on any thread. Blocks until all ops pushed so far that
// touch the array have ended. copy: 1: memory of the receiver's own.
HEDDLE_API heddle_status heddle_array_to_dlpack(const heddle_array* array, int32_t copy,
                                                heddle_dl_managed_tensor_versioned** tensor,
                                                heddle_error** error);
// The struct without a version and flags, for receivers from before DLPack 1.
HEDDLE_API heddle_status heddle_array_to_dlpack_unversioned(const heddle_array* array, int32_t copy,
                                                            heddle_dl_managed_tensor** tensor,
                                                            heddle_error** error);

// An array of this engine (null: the default engine) on memory that another library lends. The tensor is taken over if the
// call succeeds: its deleter is called when the last handle, view and op that use the memory are gone. copy: 1: it is
// called when the copy is made, and read-only memory is accepted. Does not block.
HEDDLE_API heddle_status heddle_array_from_dlpack(heddle_engine* engine,
                                                  heddle_dl_managed_tensor_versioned* tensor, int32_t copy,
                                                  heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_array_from_dlpack_unversioned(heddle_engine* engine,
                                                              heddle_dl_managed_tensor* tensor, int32_t copy,
                                                              heddle_array** array, heddle_error** error);
// What a receiver is told of an array's memory before it asks for it.
HEDDLE_API heddle_status heddle_array_dlpack_device(const heddle_array* array, heddle_dl_device* device,
                                                    heddle_error** error);

#ifdef __cplusplus
}
#endif
