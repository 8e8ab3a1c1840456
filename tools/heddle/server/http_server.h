// The server's pages over HTTP: what Prometheus scrapes and what says whether it is well.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace heddle::tool {

struct PageHandlers {
  // The text of /metrics. Called on the one thread of the pages, as the others are; what it throws is answered with 500.
  std::function<std::string()> metrics;
  // Whether the server takes workers: /healthz says 200 "ok", else 503 "draining". /livez says 200 in both cases, once
  // this function has returned: a server that drains is well, and nobody should start it again.
  std::function<bool()> ready;
  // Why no other server is to be exchanged for a new one now: /readyz says 503 and this; empty: 200 "ok". Null: as /healthz.
  std::function<std::string()> not_ready{};
};

class Pages {
 public:
  // Listens at HOST:PORT; port 0: any. Throws std::runtime_error if it cannot.
  Pages(const std::string& address, PageHandlers handlers);
  ~Pages();  // blocks until handlers have returned
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  const std::string& address() const;  // with the port that was chosen

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::tool
