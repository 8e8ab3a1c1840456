// Exchanges arrays with other libraries without a copy, by DLPack (dmlc.github.io/dlpack).
//
// The engine orders what its ops do with such memory, not what others do. So lend memory when nobody else
// writes it, and wait for ops on it before another library reads what they have written.
#pragma once

#include <heddle/c/dlpack.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

// Lends the array's memory, also through views, until the receiver calls the deleter, on any thread. Blocks
// until all ops pushed so far that touch the array have ended, so that the receiver may read and write at
// once. Inside an op that has declared the array it does not block, and lends it for as long as the op runs,
// read-only if the op only reads it. With `copy` the memory is the receiver's own. Outside any tape. Rethrows
// the error that poisons the array.
heddle_dl_managed_tensor_versioned* to_dlpack(const NDArray& array, bool copy = false,
                                              Where where = Where::current());
// As to_dlpack, with the struct without version and flags, for receivers from before DLPack 1.
heddle_dl_managed_tensor* to_dlpack_unversioned(const NDArray& array, bool copy = false,
                                                Where where = Where::current());

// An array on memory that another library lends: its deleter is called when the last array and the last op
// that use the memory are gone, on the thread that releases them. With `copy` it is called when the copy is
// made, and read-only memory is accepted. Memory lent by to_dlpack keeps its var if the engine is the same.
// Does not block. Throws InvalidArgument, and does not own the tensor then: for a null pointer, an
// unsupported version, device, dtype or rank, misaligned memory, and memory that is read-only.
NDArray from_dlpack(heddle_dl_managed_tensor_versioned* tensor, bool copy = false,
                    Where where = Where::current());
NDArray from_dlpack(heddle_dl_managed_tensor* tensor, bool copy = false, Where where = Where::current());

// Whether to_dlpack of this library made the struct. Then its deleter is a function of this library, and
// whoever passed the struct on is not needed for calling it.
bool is_own_loan(const heddle_dl_managed_tensor_versioned& tensor);
bool is_own_loan(const heddle_dl_managed_tensor& tensor);

// The device of an array's memory, which a receiver asks for first (__dlpack_device__).
heddle_dl_device dlpack_device(const NDArray& array);

}  // namespace heddle
