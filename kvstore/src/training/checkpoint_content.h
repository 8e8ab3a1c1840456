// What a checkpoint's file holds.
#pragma once

#include <string>

#include <heddle/checkpoint.h>
#include <heddle/safetensors.h>

namespace heddle {

// The arrays are the live ones. Throws what save_checkpoint() does; `call` is the function that errors name.
Safetensors checkpoint_content(const char* call, const Checkpoint& checkpoint);

}  // namespace heddle
