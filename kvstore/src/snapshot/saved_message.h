// One message of a server's state.
#pragma once

#include <cstddef>
#include <vector>

#include "transport/transport.h"

namespace heddle::kv_detail {

using namespace net_detail;

struct SavedMessage {
  std::vector<std::byte> head;
  Payload payload;
};

}  // namespace heddle::kv_detail
