#include "store_servers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <netinet/in.h>

namespace heddle::tool {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

struct ReservedPort {
  Descriptor socket;
  int number;
};

// Reserves a port of this host: no other process gets it as long as the socket is open. The scheduler can
// listen at it, also after a restart, because the socket itself does not listen and has SO_REUSEADDR.
ReservedPort reserve_port(bool loopback) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t length = sizeof address;
  const bool good = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (!good) throw std::runtime_error("no port is free for a scheduler");
  return {std::move(socket), ntohs(address.sin_port)};
}

// Whether the name means this host and is of no use on other hosts.
bool is_loopback(const Host& host) { return host.name.empty() || host.name.starts_with("127."); }

// HOST of a text USER@HOST or HOST.
std::string address_of(const std::string& host) { return host.substr(host.find('@') + 1); }

// Environment variables with the launcher's defaults for a job's servers and scheduler, except those that the
// user has set. HEDDLE_TRACE is emptied: a server would overwrite the trace file of rank 0.
Environment usual_settings(ProcessKind kind) {
  const std::string prefix = kind == ProcessKind::scheduler ? "HEDDLE_SCHEDULER_" : "HEDDLE_SERVER_";
  Environment result{{"HEDDLE_TRACE", ""}};
  for (const auto& [setting, usual] : {std::pair("METRICS", "off"), std::pair("LOG_LEVEL", "warning")}) {
    const char* const set = std::getenv((prefix + setting).c_str());
    if (!set || !*set) result[prefix + setting] = usual;
  }
  return result;
}

}  // namespace

std::string this_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

StoreServers::StoreServers(Settings settings) : settings_(std::move(settings)) {
  if (settings_.servers == 0) return;
  const bool loopback = std::all_of(settings_.hosts.begin(), settings_.hosts.end(), is_loopback);
  ReservedPort port = reserve_port(loopback);
  reserved_ = std::move(port.socket);
  scheduler_ = (loopback ? kLoopback : this_host()) + ":" + std::to_string(port.number);
}

std::vector<RankPlan> StoreServers::plan() const {
  std::vector<RankPlan> all;
  if (settings_.servers > 0) all.push_back({.kind = ProcessKind::scheduler});
  for (int i = 0; i < settings_.servers; ++i) {
    RankPlan one{.rank = i, .kind = ProcessKind::server};
    if (!settings_.hosts.empty())
      one.host = settings_.hosts[static_cast<std::size_t>(i) % settings_.hosts.size()].name;
    all.push_back(std::move(one));
  }
  return all;
}

int StoreServers::servers_beside(const RankPlan& plan) const {
  const std::vector<RankPlan> all = this->plan();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const RankPlan& one) {
    return one.kind == ProcessKind::server && one.host == plan.host;
  }));
}

RankProgram StoreServers::program(const RankPlan& plan) const {
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string()};
  const auto add = [&words](std::initializer_list<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (plan.kind == ProcessKind::scheduler) {
    add({"scheduler", "--listen", scheduler_, "--state", settings_.directory + "/" + kSchedulerState});
  } else {
    const std::string scheduler = scheduler_.substr(0, scheduler_.rfind(':'));
    const std::string host = plan.host.empty() ? scheduler : address_of(plan.host);
    add({"server", "--listen", host + ":0", "--scheduler", scheduler_, "--number", std::to_string(plan.rank),
         "--replicas", std::to_string(settings_.replicas), "--servers-on-host",
         std::to_string(servers_beside(plan))});
  }
  add({"--servers", std::to_string(settings_.servers)});
  return {plan, words, usual_settings(plan.kind), {}};
}

}  // namespace heddle::tool
