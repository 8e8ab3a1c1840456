// The device of the stream on which the calling thread issues an op.
#pragma once

#include <optional>

#include <heddle/device.h>

namespace heddle {

// The device of the stream on which the op that this thread issues enqueues its work; none outside of such an op.
std::optional<Device> issuing_device();

}  // namespace heddle
