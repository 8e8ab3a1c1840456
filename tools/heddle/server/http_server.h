// The server's HTTP pages: metrics for Prometheus, and health checks.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace heddle::tool {

struct PageHandlers {
  // Returns the text of /metrics. All handlers run on the thread of the Pages; an exception gives status 500.
  std::function<std::string()> metrics;
  // Returns whether the server accepts workers: if so, /healthz answers 200 "ok", else 503 "draining". /livez
  // calls this function too, but answers 200 in either case: a draining server must not be restarted.
  std::function<bool()> ready;
  // Returns why a rolling update must not go on to the next server, which /readyz answers with 503; empty
  // text: /readyz answers 200 "ok". If the function is null, /readyz is like /healthz.
  std::function<std::string()> not_ready{};
};

class Pages {
 public:
  // Listens at `address`, HOST:PORT; port 0: any free port. Throws std::runtime_error if that fails.
  Pages(const std::string& address, PageHandlers handlers);
  ~Pages();  // blocks until running handlers have returned
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  const std::string& address() const;  // HOST:PORT with the port that is used, also if port 0 was asked for

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::tool
