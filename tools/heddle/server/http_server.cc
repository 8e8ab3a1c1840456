#include "http_server.h"

#include <CivetServer.h>
#include <exception>
#include <future>
#include <stdexcept>
#include <utility>
#include <vector>

namespace heddle::tool {
namespace {

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

// One page; GET and HEAD.
class Page : public CivetHandler {
 public:
  Page(std::string path, std::function<Answer()> answer)
      : path_(std::move(path)), answer_(std::move(answer)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override { return respond(connection, true); }
  bool handleHead(CivetServer*, mg_connection* connection) override { return respond(connection, false); }

 private:
  bool respond(mg_connection* connection, bool with_text) const {
    // The library gives a handler what lies below its page, too.
    const mg_request_info* request = mg_get_request_info(connection);
    if (!request || !request->local_uri || path_ != request->local_uri) return false;
    send(connection, answered(), with_text);
    return true;
  }

  // On a thread of its own: those of the library have a stack of 100 KiB.
  Answer answered() const {
    try {
      return std::async(std::launch::async, answer_).get();
    } catch (const std::exception& error) {
      return {500, "Internal Server Error", kPlain, std::string(error.what()) + "\n"};
    }
  }

  const std::string path_;
  const std::function<Answer()> answer_;
};

// The library would write its log to stderr, between the lines of ours.
int be_silent(const mg_connection*, const char*) { return 1; }

CivetCallbacks callbacks() {
  CivetCallbacks result;
  result.log_message = &be_silent;
  return result;
}

std::unique_ptr<CivetServer> listen(const std::string& address) {
  const std::vector<std::string> options = {
      "listening_ports",   address, "num_threads",      "2",    "request_timeout_ms",       "10000",
      "enable_keep_alive", "no",    "max_request_size", "8192", "enable_directory_listing", "no"};
  const CivetCallbacks silent = callbacks();
  try {
    return std::make_unique<CivetServer>(options, &silent);
  } catch (const CivetException&) {
    throw std::runtime_error("cannot serve metrics at " + address +
                             ": it is in use, or no address of this host");
  }
}

}  // namespace

struct Pages::Impl {
  Page metrics, healthz, livez;
  std::unique_ptr<CivetServer> server;
  std::string address;

  explicit Impl(const PageHandlers& handlers)
      : metrics("/metrics",
                [text = handlers.metrics] {
                  return Answer{200, "OK", kMetrics, text()};
                }),
        healthz("/healthz",
                [ready = handlers.ready] {
                  return ready() ? Answer{200, "OK", kPlain, "ok\n"}
                                 : Answer{503, "Service Unavailable", kPlain, "draining\n"};
                }),
        livez("/livez", [ready = handlers.ready] {
          ready();
          return Answer{200, "OK", kPlain, "ok\n"};
        }) {}
};

Pages::Pages(const std::string& address, PageHandlers handlers) : impl_(std::make_unique<Impl>(handlers)) {
  impl_->server = listen(address);
  impl_->server->addHandler("/metrics", impl_->metrics);
  impl_->server->addHandler("/healthz", impl_->healthz);
  impl_->server->addHandler("/livez", impl_->livez);
  const std::vector<int> ports = impl_->server->getListeningPorts();
  impl_->address =
      address.substr(0, address.rfind(':') + 1) + std::to_string(ports.empty() ? 0 : ports.front());
}

Pages::~Pages() { impl_->server->close(); }

const std::string& Pages::address() const { return impl_->address; }

}  // namespace heddle::tool
