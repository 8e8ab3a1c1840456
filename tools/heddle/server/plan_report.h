// What `heddle server plan` prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/placement.h"

namespace heddle::tool {

struct ServerPlan {
  std::string file{}, placement{}, optimizer{};
  int servers = 1, workers = 1;
  std::vector<kv_detail::KeySize> keys{};
};

// Names and sizes of the arrays in a safetensors file, by name. Reads its header only. Throws std::runtime_error for a file
// that is none.
std::vector<kv_detail::KeySize> safetensors_keys(const std::string& path);

// Throws std::runtime_error for another optimizer than sgd, momentum, adam and adamw.
std::string plan_text(const ServerPlan& plan);

}  // namespace heddle::tool
