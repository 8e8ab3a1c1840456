// Recordings of CUDA streams: CUDA graphs.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>
#include <memory>

#include "stream/recorded_work.h"

namespace heddle::detail {

// Records what the calling thread enqueues for `stream`. Throws Error if CUDA cannot.
std::shared_ptr<WorkRecorder> record_cuda(Stream& stream);
void launch_recorded(RecordedWork& work, cudaStream_t stream, Device device);

// Memory for the recording that this thread makes, which allocations for its stream take. Null without memory. Throws Error.
std::byte* allocate_recorded(std::size_t bytes);
bool records_on(const Stream& stream);           // whether `stream` is that of this thread's recorder
bool free_recorded(std::byte* memory) noexcept;  // false: it is not the recording's memory

}  // namespace heddle::detail
