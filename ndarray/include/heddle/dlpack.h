// Exchanges arrays with other libraries without a copy, by DLPack (dmlc.github.io/dlpack).
//
// The engine orders what its ops do with such memory, not what others do. So lend memory when nobody else
// writes it, and wait for ops on it before another library reads what they have written. On GPUs order_before()
// and order_after() put the other library's stream in order instead of a wait.
#pragma once

#include <heddle/c/dlpack.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

// Lends the array's memory, also through views, until the receiver calls the deleter, on any thread. Blocks
// until all ops pushed so far that touch the array have ended, so that the receiver may read and write at
// once. The memory of a GPU is given back behind the work that the legacy default stream has when the deleter is called. Inside an op that has declared the array it does not block, and lends it for as long as the op runs,
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
// Ops on the memory of a GPU run after the work that the legacy default stream has now. Does not block. Throws
// InvalidArgument, and does not own the tensor then: for a null pointer, an unsupported version, device, dtype or rank,
// misaligned memory, and memory that is read-only.
NDArray from_dlpack(heddle_dl_managed_tensor_versioned* tensor, bool copy = false,
                    Where where = Where::current());
NDArray from_dlpack(heddle_dl_managed_tensor* tensor, bool copy = false, Where where = Where::current());

// Whether to_dlpack of this library made the struct. Then its deleter is a function of this library, and
// whoever passed the struct on is not needed for calling it.
bool is_own_loan(const heddle_dl_managed_tensor_versioned& tensor);
bool is_own_loan(const heddle_dl_managed_tensor& tensor);

// A cudaStream_t of another library on the GPU of an array. 1: the legacy default stream, 2: that of the calling thread.
struct DLPackStream {
  void* native = nullptr;
};
// For to_dlpack: the receiver puts its work in order itself, by order_before(), and gives the memory back when it has run.
inline const DLPackStream kNoOrder{reinterpret_cast<void*>(-1)};

// For arrays on a GPU; another one is InvalidArgument. order_before(): work that the stream gets from now on runs after all ops
// pushed so far that touch the array. The call waits until they are issued, not until they have run; it rethrows the error that
// poisons the array. order_after(): ops pushed from now on that touch the array run after the work that the stream has now.
void order_before(const NDArray& array, DLPackStream stream, Where where = Where::current());
void order_after(const NDArray& array, DLPackStream stream, Where where = Where::current());
// The compute stream of the array's GPU, on which all ops pushed so far that touch the array come before what it gets from now
// on: a stream to tell another library. Waits until they are issued.
DLPackStream ordered_stream(const NDArray& array, Where where = Where::current());

// to_dlpack for a receiver that uses the memory on this stream: order_before() in place of a wait. The deleter may be called
// while that work waits or runs: the memory is given back behind what the stream has then. The stream lives until then.
heddle_dl_managed_tensor_versioned* to_dlpack(const NDArray& array, DLPackStream stream, bool copy = false,
                                              Where where = Where::current());
heddle_dl_managed_tensor* to_dlpack_unversioned(const NDArray& array, DLPackStream stream, bool copy = false,
                                                Where where = Where::current());
// from_dlpack of memory that its owner's work on this stream, or before it, has written; the copy comes after it too.
NDArray from_dlpack(heddle_dl_managed_tensor_versioned* tensor, DLPackStream stream, bool copy = false,
                    Where where = Where::current());
NDArray from_dlpack(heddle_dl_managed_tensor* tensor, DLPackStream stream, bool copy = false,
                    Where where = Where::current());

// The device of an array's memory, which a receiver asks for first (__dlpack_device__).
heddle_dl_device dlpack_device(const NDArray& array);

}  // namespace heddle
