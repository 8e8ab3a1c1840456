// One page by HTTP.
#pragma once

#include <chrono>
#include <string>

namespace heddle::tool {

struct HttpAnswer {
  int status = 0;
  std::string text;
};

// GET. `address` is HOST:PORT, to which `path` is added, or an http:// or https:// address, which is taken as it is. No
// proxy, no redirection, 16 MiB at most. Throws std::runtime_error if there is no answer within the timeout.
HttpAnswer http_get(const std::string& address, const std::string& path, std::chrono::milliseconds timeout);

}  // namespace heddle::tool
