#include "http_server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <list>
#include <map>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <netinet/in.h>

#include "connection/socket.h"
#include "transport/address.h"

namespace heddle::tool {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using net_detail::Socket;

constexpr std::size_t kMostConnections = 64, kMostHead = 8192;
// A connection younger than this is not closed to make room for another one.
constexpr std::chrono::milliseconds kTimeToAsk{100};
// How much time a client has to send its request, then to read the answer, then to close the connection.
constexpr std::chrono::seconds kRequestLimit{5}, kAnswerLimit{30}, kEndLimit{1};
constexpr std::chrono::milliseconds kAcceptAgain{100};  // when accept() has failed, the time to the next try

struct Answer {
  int status = 200;
  const char* reason = "OK";
  std::string type, text;
};

constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kMetrics = "text/plain; version=0.0.4; charset=utf-8";

std::string wire_text(const Answer& answer, bool with_text) {
  return "HTTP/1.1 " + std::to_string(answer.status) + " " + answer.reason +
         "\r\nContent-Type: " + answer.type + "\r\nContent-Length: " + std::to_string(answer.text.size()) +
         "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n" + (with_text ? answer.text : "");
}

using PageMap = std::map<std::string, std::function<Answer()>>;

Answer page_at(const PageMap& pages, const std::string& path) {
  const auto page = pages.find(path);
  if (page == pages.end())
    return {404, "Not Found", kPlain, "there is /metrics, /healthz, /readyz and /livez\n"};
  try {
    return page->second();
  } catch (const std::exception& error) {
    return {500, "Internal Server Error", kPlain, std::string(error.what()) + "\n"};
  }
}

// The whole HTTP response to a request. `head` is the request up to its empty line.
std::string answer_for(const PageMap& pages, const std::string& head) {
  const std::string line = head.substr(0, head.find("\r\n"));
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string::npos || first == last || line.find("HTTP/1.", last) != last + 1)
    return wire_text({400, "Bad Request", kPlain, "not a request that is answered here\n"}, true);
  const std::string method = line.substr(0, first);
  if (method != "GET" && method != "HEAD")
    return wire_text({405, "Method Not Allowed", kPlain, "only GET and HEAD\n"}, true);
  const std::string target = line.substr(first + 1, last - first - 1);
  return wire_text(page_at(pages, target.substr(0, target.find('?'))), method == "GET");
}

// The bytes of the client's IP address.
std::string host_of(const sockaddr_storage& from) {
  if (from.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(from).sin_addr;
    return {reinterpret_cast<const char*>(&address), sizeof address};
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw std::runtime_error("cannot serve metrics at " + address + ": " + why);
}

Socket listen_at(const std::string& text) {
  const net_detail::Address address = net_detail::parse_address(text);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(address.port);
  if (const int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); error != 0)
    refuse(text, "'" + address.host +
                     "' is no host: " + (error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (socket) ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket && ::bind(socket.fd(), one->ai_addr, one->ai_addrlen) == 0 && ::listen(socket.fd(), 128) == 0)
      return socket;
    error = errno;
  }
  refuse(text, std::strerror(error));
}

struct Connection {
  Socket socket;
  std::string host;
  Clock::time_point since, deadline;
  std::string request{}, answer{};
  std::size_t sent = 0;
  // Whether the answer is sent. What the client still sends is then read until it closes the connection.
  bool ends = false;

  short events() const { return !answer.empty() && !ends ? POLLOUT : POLLIN; }
};

}  // namespace

// Serves all connections on one thread. At most kMostConnections exist; then a new one replaces an old one.
struct Pages::Impl {
  Impl(const std::string& at, PageMap map) : pages(std::move(map)), listener(listen_at(at)) {
    address = at.substr(0, at.rfind(':') + 1) + std::to_string(net_detail::port_of(listener));
    thread = std::thread([this] { serve(); });
  }
  ~Impl() {
    stopping = true;
    wake.signal();
    thread.join();
  }

  void serve() {
    while (!stopping) {
      std::vector<pollfd> polled{{wake.fd(), POLLIN, 0}};
      const auto now = Clock::now();
      polled.push_back({now >= accept_from ? listener.fd() : -1, POLLIN, 0});
      for (const Connection& one : connections) polled.push_back({one.socket.fd(), one.events(), 0});
      if (::poll(polled.data(), polled.size(), wait_for(now)) < 0) continue;
      std::size_t i = 2;
      for (auto one = connections.begin(); one != connections.end() && !stopping; ++i) {
        const bool stays = polled[i].revents == 0 || go_on(*one);
        one = stays && Clock::now() < one->deadline ? std::next(one) : connections.erase(one);
      }
      if (polled[1].revents != 0) accept_all();
    }
  }

  int wait_for(Clock::time_point now) const {
    auto next = now >= accept_from ? now + 1h : accept_from;
    for (const Connection& one : connections) next = std::min(next, one.deadline);
    return static_cast<int>(
        std::chrono::ceil<std::chrono::milliseconds>(std::max(next - now, Clock::duration(0))).count());
  }

  // Accepts new connections. If the process has no descriptors left, gives up `spare` and uses its
  // descriptor, so that health probes are still answered.
  void accept_all() {
    for (std::size_t i = 0; i < kMostConnections && make_room(); ++i) {
      sockaddr_storage from{};
      socklen_t bytes = sizeof from;
      Socket socket(
          ::accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket && (errno == EMFILE || errno == ENFILE) && spare) {
        spare.close();
        continue;
      }
      if (!socket) {
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
          accept_from = Clock::now() + kAcceptAgain;
        break;
      }
      connections.push_back({std::move(socket), host_of(from), Clock::now(), Clock::now() + kRequestLimit});
    }
    if (!spare) spare = Socket(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }

  // Makes room for a new connection: if there are kMostConnections, closes the oldest connection of the
  // client host that has the most. Returns false if that connection is too young to be closed.
  bool make_room() {
    if (connections.size() < kMostConnections) return true;
    std::map<std::string, std::size_t> count;
    for (const Connection& one : connections) ++count[one.host];
    const auto most = std::max_element(count.begin(), count.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto oldest = std::find_if(connections.begin(), connections.end(),
                                     [&](const Connection& one) { return one.host == most->first; });
    accept_from = oldest->since + kTimeToAsk;
    if (Clock::now() < accept_from) return false;
    connections.erase(oldest);
    return true;
  }

  // Reads or writes on a connection whose socket is ready. Returns false if the connection has ended.
  bool go_on(Connection& one) {
    if (one.ends) return drain(one);
    if (one.answer.empty() && !read(one)) return false;
    return one.answer.empty() || write(one);
  }

  bool read(Connection& one) {
    char part[4096];
    const ssize_t count = ::recv(one.socket.fd(), part, sizeof part, 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    one.request.append(part, static_cast<std::size_t>(count));
    const auto end = one.request.find("\r\n\r\n");
    if (end != std::string::npos)
      one.answer = answer_for(pages, one.request.substr(0, end));
    else if (one.request.size() >= kMostHead)
      one.answer =
          wire_text({431, "Request Header Fields Too Large", kPlain, "the request is too long\n"}, true);
    if (!one.answer.empty()) one.deadline = Clock::now() + kAnswerLimit;
    return true;
  }

  bool write(Connection& one) {
    const ssize_t count =
        ::send(one.socket.fd(), one.answer.data() + one.sent, one.answer.size() - one.sent, MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    one.sent += static_cast<std::size_t>(count);
    if (one.sent < one.answer.size()) return true;
    one.ends = true;
    one.deadline = Clock::now() + kEndLimit;
    ::shutdown(one.socket.fd(), SHUT_WR);
    return drain(one);
  }

  static bool drain(const Connection& one) {
    char part[4096];
    const ssize_t count = ::recv(one.socket.fd(), part, sizeof part, 0);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  const PageMap pages;
  const Socket listener;
  net_detail::EventFd wake;
  Socket spare{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  std::atomic<bool> stopping = false;
  std::list<Connection> connections;  // in the order of their beginning, the oldest first
  Clock::time_point accept_from{};
  std::string address;
  std::thread thread;  // declared last, since it uses the other members
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
  PageMap pages{{"/metrics", metrics}, {"/healthz", healthz}, {"/livez", livez}, {"/readyz", healthz}};
  if (handlers.not_ready) pages["/readyz"] = readyz;
  impl_ = std::make_unique<Impl>(address, std::move(pages));
}

Pages::~Pages() = default;

const std::string& Pages::address() const { return impl_->address; }

}  // namespace heddle::tool
