// The buffers of a module: what forward() changes, such as running statistics; and the device that a module computes on.
#pragma once

#include <optional>
#include <vector>

#include <heddle/module.h>

namespace heddle {

// The saved buffers of a module and of those inside, by the names that they have in Module::state(). Throws InvalidArgument for
// a layer that has no sizes before its first call.
std::vector<Parameter> buffers_of(const Module& module);

// The device of the first parameter that has a size, else of the first such buffer. None: the module has no arrays yet.
std::optional<Device> device_of(const Module& module);

}  // namespace heddle
