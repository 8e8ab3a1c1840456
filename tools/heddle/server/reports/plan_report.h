// The output of `heddle server plan`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/placement.h"

namespace heddle::tool {

struct ServerPlan {
  std::string file{}, placement{}, optimizer{};
  std::string write{};  // path of a file to which placement_lines() are written; empty: no file
  int servers = 1, workers = 1;
  std::vector<kv_detail::KeySize> keys{};
};

// Names and sizes of the arrays in a safetensors file, by name. Reads only the header. Throws
// std::runtime_error for an invalid file.
std::vector<kv_detail::KeySize> safetensors_keys(const std::string& path);

// What ServerPlan::optimizer may be: optimizers that servers take, with their defaults, and "momentum", which is sgd
// with one.
std::vector<std::string> optimizers_of_servers();

// The plan as text for people. Throws std::runtime_error for another optimizer.
std::string plan_text(const ServerPlan& plan);

// A line KEY=SERVER for each key that is wholly on one server, in the format of an explicit placement. Throws
// InvalidArgument if a name is no valid key.
std::string placement_lines(const ServerPlan& plan);

// What is wrong with the name of a placement; "" if it is valid.
std::string problem_with_placement(const std::string& text);

}  // namespace heddle::tool
