#include "http_server.h"

#include <CivetServer.h>
#include <exception>
#include <functional>
#include <future>
#include <map>
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

// All pages. The library would answer for other paths and methods too, but has little stack for it.
class AllPages : public CivetHandler {
 public:
  explicit AllPages(std::map<std::string, std::function<Answer()>> pages) : pages_(std::move(pages)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override { return respond(connection, true); }
  bool handleHead(CivetServer*, mg_connection* connection) override { return respond(connection, false); }
  bool handlePost(CivetServer*, mg_connection* connection) override { return refuse(connection); }
  bool handlePut(CivetServer*, mg_connection* connection) override { return refuse(connection); }
  bool handleDelete(CivetServer*, mg_connection* connection) override { return refuse(connection); }
  bool handleOptions(CivetServer*, mg_connection* connection) override { return refuse(connection); }
  bool handlePatch(CivetServer*, mg_connection* connection) override { return refuse(connection); }

 private:
  bool respond(mg_connection* connection, bool with_text) const {
    const mg_request_info* request = mg_get_request_info(connection);
    send(connection, answered(request && request->local_uri ? request->local_uri : ""), with_text);
    return true;
  }

  static bool refuse(mg_connection* connection) {
    send(connection, {405, "Method Not Allowed", kPlain, "only GET and HEAD\n"}, true);
    return true;
  }

  // On a thread of its own: those of the library have a stack of 100 KiB.
  Answer answered(const std::string& path) const {
    const auto page = pages_.find(path);
    if (page == pages_.end()) return {404, "Not Found", kPlain, "there is /metrics, /healthz and /livez\n"};
    try {
      return std::async(std::launch::async, page->second).get();
    } catch (const std::exception& error) {
      return {500, "Internal Server Error", kPlain, std::string(error.what()) + "\n"};
    }
  }

  const std::map<std::string, std::function<Answer()>> pages_;
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
  const auto livez = [ready = handlers.ready] {
    ready();
    return Answer{200, "OK", kPlain, "ok\n"};
  };
  impl_.reset(new Impl{AllPages({{"/metrics", metrics}, {"/healthz", healthz}, {"/livez", livez}}), {}, {}});
  impl_->server = listen(address);
  impl_->server->addHandler("**", impl_->pages);
  const std::vector<int> ports = impl_->server->getListeningPorts();
  impl_->address =
      address.substr(0, address.rfind(':') + 1) + std::to_string(ports.empty() ? 0 : ports.front());
}

Pages::~Pages() { impl_->server->close(); }

const std::string& Pages::address() const { return impl_->address; }

}  // namespace heddle::tool
