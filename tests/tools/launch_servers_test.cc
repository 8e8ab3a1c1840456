// What a job's servers and scheduler are told, and the port that is reserved for the scheduler until it
// starts.
#include <algorithm>
#include <cerrno>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <doctest/doctest.h>
#include <netinet/in.h>

#include "launch/store_servers.h"

using namespace heddle::tool;

namespace {

struct Listening {
  Descriptor socket;
  int error;  // the errno of the failure; 0 if the socket listens
};

// Listens on a port of the loopback address; `reuse`: with SO_REUSEADDR, as Heddle's servers do.
Listening listen_at(int port, bool reuse) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool good = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                    ::listen(socket.get(), 1) == 0;
  return {std::move(socket), good ? 0 : errno};
}

}  // namespace

TEST_CASE("launch: each server is told how many share the memory of its host") {
  const auto told = [](const StoreServers& servers) {
    std::string text;
    for (const RankPlan& plan : servers.plan()) {
      const std::vector<std::string> words = servers.program(plan).words;
      const auto flag = std::find(words.begin(), words.end(), "--servers-on-host");
      if (flag != words.end()) text += *(flag + 1) + " ";
    }
    return text;
  };
  CHECK(told(StoreServers({.servers = 3, .directory = "."})) == "3 3 3 ");
  CHECK(told(StoreServers({.servers = 3, .directory = ".", .hosts = {{"127.0.0.1", 1}, {"127.0.0.2", 1}}})) ==
        "2 1 2 ");
}

TEST_CASE("launch: servers and the scheduler do not write the traces of ranks") {
  const StoreServers servers({.servers = 2, .directory = "."});
  for (const RankPlan& plan : servers.plan()) {
    const Environment environment = servers.program(plan).environment;
    REQUIRE(environment.contains("HEDDLE_TRACE"));
    CHECK(environment.at("HEDDLE_TRACE").empty());  // keeps the launcher's value from being inherited
  }
}

TEST_CASE("launch: the scheduler's port is kept for it, whenever it is started") {
  const StoreServers servers({.servers = 1, .directory = "."});
  const std::string address = servers.address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  CHECK(listen_at(port, false).error == EADDRINUSE);  // another program cannot take this port
  for (int start = 0; start < 3; ++start) {
    CHECK(listen_at(port, true).error == 0);  // the scheduler can take it; this socket is closed at once
    CHECK(listen_at(port, false).error == EADDRINUSE);
  }
}
