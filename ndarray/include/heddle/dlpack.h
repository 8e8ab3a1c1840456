// Arrays that other libraries use without a copy, and theirs that we use, by DLPack (dmlc.github.io/dlpack).
//
// The engine orders what its ops do with such memory, not what others do. So give memory away when nobody else writes it,
// and wait for ops on it before another library reads what they have written.
#pragma once

#include <heddle/c/dlpack.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

// The array's memory and its views, on loan until the receiver calls the deleter, on any thread. Blocks until all ops pushed
// so far that touch the array have ended, so that the receiver may read and write at once; but not inside an op that has
// declared the array, which lends it for as long as it runs, read-only if it only reads it. With `copy` it is memory of the
// receiver's own. Outside any tape. Rethrows the error that poisons the array.
heddle_dl_managed_tensor_versioned* to_dlpack(const NDArray& array, bool copy = false,
                                              Where where = Where::current());
// The struct without a version and flags, for receivers from before DLPack 1.
heddle_dl_managed_tensor* to_dlpack_unversioned(const NDArray& array, bool copy = false,
                                                Where where = Where::current());

// An array on memory that another library lends: its deleter is called when the last array and the last op that use the
// memory are gone, on the thread that lets go. With `copy` it is called when the copy is made, and read-only memory is
// accepted. What to_dlpack lent comes back with its var where the engine is the same. Does not block. Throws
// InvalidArgument, and has not taken the tensor over then: for a null pointer, a version, device, dtype or rank that we do
// not have, memory out of alignment, and memory that is read-only.
NDArray from_dlpack(heddle_dl_managed_tensor_versioned* tensor, bool copy = false,
                    Where where = Where::current());
NDArray from_dlpack(heddle_dl_managed_tensor* tensor, bool copy = false, Where where = Where::current());

// Whether to_dlpack of this library made the struct: its deleter needs nothing of whoever passed it on.
bool is_own_loan(const heddle_dl_managed_tensor_versioned& tensor);
bool is_own_loan(const heddle_dl_managed_tensor& tensor);

// What a receiver is told of an array's memory before it asks for it (__dlpack_device__).
heddle_dl_device dlpack_device(const NDArray& array);

}  // namespace heddle
