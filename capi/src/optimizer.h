// Converts C structs to C++: keys, optimizers' parameters and options of updates.
#pragma once

#include <heddle/c/optimizer.h>
#include <heddle/optimizer.h>

namespace heddle::c {

Key key_of(const heddle_key& key);
OptimizerParams params_of(const heddle_parameter* parameters, std::size_t count, const char* call);
UpdateOptions update_options_of(const heddle_update_options* options, const char* call);

}  // namespace heddle::c
