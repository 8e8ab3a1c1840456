// Order between ops on an array of a GPU and the stream of another library.
#pragma once

#include <memory>

#include <heddle/dlpack.h>

namespace heddle::ndarray_detail {

// The legacy default stream, which a library that names no stream works on. It waits for all streams but non-blocking ones,
// and they wait for it.
inline const DLPackStream kLegacyStream{reinterpret_cast<void*>(1)};
// The default stream of the calling thread.
inline const DLPackStream kThreadStream{reinterpret_cast<void*>(2)};

// What a receiver has of an array of a GPU: memory on a device. Both are as they were when the loan began, whatever memory the array
// has now, if its network was moved.
struct LentMemory {
  NDArray array;
  Device device;
  std::shared_ptr<const void> memory;  // by hold_memory()
};

// Ends a loan, on any thread: its memory is freed, and later ops on the array run, if it still has that memory, behind the work that
// the receiver's stream has now. A stream that cannot tell, since it is being captured or was destroyed, is taken for the
// legacy default one.
void end_behind(LentMemory lent, DLPackStream stream) noexcept;

// Throws InvalidArgument, naming the call, for an array that is not on a GPU.
void check_on_gpu(const char* call, const NDArray& array);

}  // namespace heddle::ndarray_detail
