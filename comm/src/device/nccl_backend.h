// The back end 'nccl', for ranks with a GPU each: arrays on the GPU go over NCCL. Other arrays, barriers, the detection
// of failures and shrinking are those of the back end 'tcp'.
#pragma once

#include "device/device_ranks.h"
#include "tcp/tcp_backend.h"

namespace heddle::comm_detail {

// Replaces NCCL in tests without a GPU; null: NCCL itself. Returns the previous replacement.
DeviceLibrary* replace_nccl(DeviceLibrary* library);

// NCCL or its replacement; null if there is neither.
DeviceLibrary* device_library();

}  // namespace heddle::comm_detail
