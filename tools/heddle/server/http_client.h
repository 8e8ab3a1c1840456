// Gets a page by HTTP.
#pragma once

#include <chrono>
#include <string>

namespace heddle::tool {

struct HttpAnswer {
  int status = 0;
  std::string text;
};

// Sends a GET request. `address` is HOST:PORT, to which `path` is added, or an http:// or https:// URL. Uses
// no proxy, follows no redirection and accepts at most 16 MiB. Throws std::runtime_error if there is no
// answer within the timeout.
HttpAnswer http_get(const std::string& address, const std::string& path, std::chrono::milliseconds timeout);

}  // namespace heddle::tool
