// What a checkpoint's file holds.
#pragma once

#include <map>
#include <string>

#include <heddle/checkpoint.h>
#include <heddle/safetensors.h>

namespace heddle {

// The arrays are the live ones. Throws what save_checkpoint() does; `call` is the function that errors name.
Safetensors checkpoint_content(const char* call, const Checkpoint& checkpoint);

// Whether a file with these metadata is a checkpoint of a run of fit().
bool is_checkpoint_of_fit(const std::map<std::string, std::string>& metadata);

}  // namespace heddle
