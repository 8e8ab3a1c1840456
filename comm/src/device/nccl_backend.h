// The backend of ranks with a GPU each: NCCL for arrays that lie there. Everything else is tcp's: other arrays, barriers,
// how ranks hear of each other, and what survivors of a fault say.
#pragma once

#include "device/device_ranks.h"
#include "tcp/tcp_backend.h"

namespace heddle::comm_detail {

// Blocks until all ranks of the rendezvous have come. Throws CommError on all of them if one has no device of its own.
std::unique_ptr<Backend> make_nccl_backend(Rendezvous& rendezvous, const BackendOptions& options);

// What takes NCCL's place, for tests that have no GPU; null: nothing. Returns what did so before.
DeviceLibrary* replace_nccl(DeviceLibrary* library);

// NCCL or what takes its place; null if there is neither.
DeviceLibrary* device_library();

}  // namespace heddle::comm_detail
