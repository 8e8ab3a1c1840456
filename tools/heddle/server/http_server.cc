#include "http_server.h"

#include <CivetServer.h>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "server/http_client.h"
#include "server/listen_problem.h"

namespace heddle::tool {
namespace {

using namespace std::chrono_literals;

struct Answer {
  int status = 200;
  const char* reason = "OK";
  std::string type, text;
};

constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kMetrics = "text/plain; version=0.0.4; charset=utf-8";

void send(mg_connection* connection, const Answer& answer, bool with_text) {
  const std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " + answer.reason +
                           "\r\nContent-Type: " + answer.type +
                           "\r\nContent-Length: " + std::to_string(answer.text.size()) +
                           "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
  mg_write(connection, head.data(), head.size());
  if (with_text) mg_write(connection, answer.text.data(), answer.text.size());
}

// The library would answer other methods, and errors, by functions that need more stack than its threads have. So this one is
// asked first, also while the server is being made.
class AllPages {
 public:
  explicit AllPages(std::map<std::string, std::function<Answer()>> pages) : pages_(std::move(pages)) {}

  void respond(mg_connection* connection) const {
    const mg_request_info* request = mg_get_request_info(connection);
    const std::string method = request && request->request_method ? request->request_method : "";
    if (method != "GET" && method != "HEAD")
      return send(connection, {405, "Method Not Allowed", kPlain, "only GET and HEAD\n"}, true);
    send(connection, answered(request->local_uri ? request->local_uri : ""), method == "GET");
  }

 private:
  // On a thread of its own, for the same reason.
  Answer answered(const std::string& path) const {
    const auto page = pages_.find(path);
    if (page == pages_.end())
      return {404, "Not Found", kPlain, "there is /metrics, /healthz, /readyz and /livez\n"};
    try {
      return std::async(std::launch::async, page->second).get();
    } catch (const std::exception& error) {
      return {500, "Internal Server Error", kPlain, std::string(error.what()) + "\n"};
    }
  }

  const std::map<std::string, std::function<Answer()>> pages_;
};

int respond(mg_connection* connection) {
  const auto* const server = static_cast<const CivetServer*>(mg_get_user_data(mg_get_context(connection)));
  static_cast<const AllPages*>(server->getUserContext())->respond(connection);
  return 200;  // any number but 0: the request has been answered
}

int refuse(mg_connection* connection, int status, const char*) {
  send(connection, {status, "Error", kPlain, "not a request that is answered here\n"}, true);
  return 0;  // the error has been told
}

// The library would write its log to stderr, between the lines of ours.
int be_silent(const mg_connection*, const char*) { return 1; }

CivetCallbacks callbacks() {
  CivetCallbacks result;
  result.log_message = &be_silent;
  result.begin_request = &respond;
  result.http_error = &refuse;
  return result;
}

std::unique_ptr<CivetServer> listen(const std::string& address, const AllPages& pages) {
  const std::vector<std::string> options = {
      "listening_ports",   address, "num_threads",      "2",    "request_timeout_ms",       "10000",
      "enable_keep_alive", "no",    "max_request_size", "8192", "enable_directory_listing", "no"};
  const CivetCallbacks ours = callbacks();
  try {
    return std::make_unique<CivetServer>(options, &ours, &pages);
  } catch (const CivetException&) {
    throw std::runtime_error("cannot serve metrics at " + address + ": " + listen_problem(address));
  }
}

}  // namespace

struct Pages::Impl {
  AllPages pages;
  std::unique_ptr<CivetServer> server;
  std::string address;
};

Pages::Pages(const std::string& address, PageHandlers handlers) {
  const auto metrics = [text = handlers.metrics] { return Answer{200, "OK", kMetrics, text()}; };
  const auto healthz = [ready = handlers.ready] {
    return ready() ? Answer{200, "OK", kPlain, "ok\n"}
                   : Answer{503, "Service Unavailable", kPlain, "draining\n"};
  };
  const auto readyz = [why = handlers.not_ready] {
    const std::string text = why();
    return text.empty() ? Answer{200, "OK", kPlain, "ok\n"}
                        : Answer{503, "Service Unavailable", kPlain, text + "\n"};
  };
  const auto livez = [ready = handlers.ready] {
    ready();
    return Answer{200, "OK", kPlain, "ok\n"};
  };
  std::map<std::string, std::function<Answer()>> pages{
      {"/metrics", metrics}, {"/healthz", healthz}, {"/livez", livez}, {"/readyz", healthz}};
  if (handlers.not_ready) pages["/readyz"] = readyz;
  impl_.reset(new Impl{AllPages(std::move(pages)), {}, {}});
  impl_->server = listen(address, impl_->pages);
  const std::vector<int> ports = impl_->server->getListeningPorts();
  impl_->address =
      address.substr(0, address.rfind(':') + 1) + std::to_string(ports.empty() ? 0 : ports.front());
}

// Without a connection the library finds out only after two seconds that it shall end.
Pages::~Pages() {
  std::future<void> closed = std::async(std::launch::async, [this] { impl_->server->close(); });
  while (closed.wait_for(10ms) != std::future_status::ready) {
    try {
      http_get(impl_->address, "/", 100ms);
    } catch (const std::exception&) {  // there is nobody left to answer
    }
  }
}

const std::string& Pages::address() const { return impl_->address; }

}  // namespace heddle::tool
