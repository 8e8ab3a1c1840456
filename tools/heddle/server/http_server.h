// The server's HTTP pages: metrics for Prometheus, and health checks.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace heddle::tool {

struct PageHandlers {
  // Returns the text of /metrics. All handlers run on the pages' thread; an exception gives status 500.
  std::function<std::string()> metrics;
  // Whether the server accepts workers: /healthz says 200 "ok", else 503 "draining". /livez says 200 in both
  // cases, once this function has returned, since a draining server is healthy and must not be restarted.
  std::function<bool()> ready;
  // Why a rolling update has to wait before other servers: /readyz says 503 and this; empty: 200 "ok".
  // Null: as /healthz.
  std::function<std::string()> not_ready{};
};

class Pages {
 public:
  // Listens at HOST:PORT; port 0: any free one. Throws std::runtime_error if it cannot.
  Pages(const std::string& address, PageHandlers handlers);
  ~Pages();  // blocks until handlers have returned
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  const std::string& address() const;  // HOST:PORT with the actual port

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::tool
