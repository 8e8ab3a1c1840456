#include "kvstore/kv_subjects.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <ifaddrs.h>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

#include <arpa/inet.h>
#include <net/if.h>

#include <heddle/comm_keys.h>

#include "kvstore/kv_server.h"
#include "kvstore/kv_user.h"
#include "support/support.h"

namespace heddle::bench {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char *layer, *transport;
};
constexpr Kind kKinds[] = {
    {"store", "shm"},    {"store", "unix"}, {"store", "tls"},    {"store", "zmq"},     {"lists", "shm"},
    {"lists", "unix"},   {"lists", "tls"},  {"lists", "zmq"},    {"calls", "shm"},     {"calls", "unix"},
    {"calls", "tls"},    {"calls", "zmq"},  {"together", "shm"}, {"together", "unix"}, {"together", "tls"},
    {"together", "zmq"}, {"bare", "shm"},   {"bare", "unix"},    {"bare", "tls"},      {"bare", "zmq"},
    {"tcp", ""},         {"redis", ""}};

// An IPv4 address of this host that is not loopback. Heddle's transport encrypts only connections to such
// addresses.
std::string outer_address() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::string found;
  for (const ifaddrs* one = all; one && found.empty(); one = one->ifa_next) {
    const bool usable =
        one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) != 0;
    if (!usable || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN]{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
    found = text;
  }
  freeifaddrs(all);
  return found;
}

std::vector<std::string> program(const std::vector<std::string>& words) {
  std::vector<std::string> all{fs::read_symlink("/proc/self/exe").string()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::unique_ptr<PeerProcess> start(const std::vector<std::string>& words, bool pin, int core) {
  std::optional<CoreLimit> limit;
  if (pin) limit.emplace(core, 1);
  return std::make_unique<PeerProcess>(program(words), std::vector<std::pair<std::string, std::string>>{});
}

std::string role_of_server(const std::string& layer) {
  if (layer == "bare") return "echo";
  if (layer == "tcp") return "tcp_echo";
  return layer == "redis" ? "redis_server" : "server";
}

bool is_wanted(const KvSetting& setting, const Kind& kind) {
  if (setting.subjects.empty()) return true;
  const std::string name = std::string(kind.layer) + (*kind.transport ? "_" : "") + kind.transport;
  return std::any_of(setting.subjects.begin(), setting.subjects.end(), [&](const std::string& one) {
    return one == name || one == kind.layer || one == kind.transport;
  });
}

std::string command_of(const std::string& what, std::size_t keys, std::size_t bytes, long rounds) {
  std::ostringstream command;
  command << what << ' ' << keys << ' ' << bytes << ' ' << rounds;
  return command.str();
}

KvSample sample_in(const std::string& answer, const std::string& who) {
  std::istringstream words(answer);
  std::string status;
  KvSample sample;
  if (!(words >> status >> sample.seconds >> sample.wrong) || status != "ok")
    throw std::runtime_error(who + ": " + answer);
  return sample;
}

// The reason why this machine cannot run the kind of subject; empty if it can.
std::string missing_for(const Kind& kind) {
  if (std::string(kind.transport) == "tls" && outer_address().empty())
    return "this host has no address but loopback, where net does not encrypt";
  if (std::string(kind.layer) == "redis" && !has_redis()) return "built without hiredis";
  return {};
}

}  // namespace

KeyDirectory::KeyDirectory() {
  std::string name = (fs::temp_directory_path() / "kvstore_bench.XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a directory in " + name);
  path_ = name;
  make_comm_key(path_, false);
}

KeyDirectory::~KeyDirectory() {
  std::error_code error;
  fs::remove_all(path_, error);
}

ServerProcess::ServerProcess(const std::string& role, const std::string& transport, const std::string& keys,
                             bool pin, const std::vector<std::string>& more) {
  const std::string host = transport == "tls" ? outer_address() : "127.0.0.1";
  std::vector<std::string> words_of{"--role",    role, "--transport", transport,
                                    "--address", host, "--keys",      keys};
  words_of.insert(words_of.end(), more.begin(), more.end());
  process_ = start(words_of, pin, 0);
  std::istringstream words(process_->ask("address"));
  if (!(words >> pid_ >> address_)) throw std::runtime_error("the " + role + " has not started");
}

double ServerProcess::cpu() const {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0)
    throw std::runtime_error("a server has ended");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double ServerProcess::rss() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  long pages = 0, resident = 0;
  if (!(file >> pages >> resident)) throw std::runtime_error("a server has ended");
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

KvSubject::KvSubject(std::string layer, std::string transport, std::shared_ptr<const ServerProcess> server,
                     const std::string& keys, bool pin)
    : layer_(std::move(layer)),
      transport_(std::move(transport)),
      server_(std::move(server)),
      process_(start(
          {"--role", layer_, "--transport", transport_, "--address", server_->address(), "--keys", keys}, pin,
          1)) {}

KvSample KvSubject::run(const std::string& what, std::size_t keys, std::size_t bytes, long rounds) {
  const double before = server_->cpu();
  KvSample sample = sample_in(process_->ask(command_of(what, keys, bytes, rounds)), name());
  const double used = server_->cpu() - before;
  const double count = static_cast<double>(std::max(rounds, 1l));
  sample.seconds /= count;
  sample.server_cpu = used / count;
  return sample;
}

KvCluster::KvCluster(const std::string& transport, int copies, const KeyDirectory& keys, bool pin)
    : scheduler_(std::make_unique<ServerProcess>("scheduler", transport, keys.path(), pin)) {
  const std::vector<std::string> more{"--scheduler", scheduler_->address(), "--copies",
                                      std::to_string(copies)};
  for (int i = 0; i < kClusterServers; ++i)
    servers_.push_back(std::make_unique<ServerProcess>("server", transport, keys.path(), pin, more));
  for (int i = 0; i < kClusterWorkers; ++i)
    workers_.push_back(start({"--role", "cluster", "--transport", transport, "--address",
                              scheduler_->address(), "--keys", keys.path()},
                             pin, 1));
}

KvSample KvCluster::run(const std::string& what, std::size_t keys, std::size_t bytes, long rounds) {
  const auto cpu = [this] {
    double all = 0;
    for (const auto& one : servers_) all += one->cpu();
    return all;
  };
  const double before = cpu();
  std::vector<std::future<std::string>> answers;
  for (const auto& worker : workers_)
    answers.push_back(
        std::async(std::launch::async, [&] { return worker->ask(command_of(what, keys, bytes, rounds)); }));
  KvSample all;
  for (auto& answer : answers) {
    const KvSample one = sample_in(answer.get(), "a worker of a cluster");
    all.seconds = std::max(all.seconds, one.seconds);
    all.wrong += one.wrong;
  }
  const double count = static_cast<double>(std::max(rounds, 1l));
  all.server_cpu = (cpu() - before) / count;
  all.seconds /= count;
  return all;
}

bool has_transport(const std::string& transport) { return transport != "tls" || !outer_address().empty(); }

std::unique_ptr<KvSubject> start_subject(const std::string& layer, const std::string& transport,
                                         const KeyDirectory& keys, bool pin) {
  const auto server =
      std::make_shared<const ServerProcess>(role_of_server(layer), transport, keys.path(), pin);
  return std::make_unique<KvSubject>(layer, transport, server, keys.path(), pin);
}

std::vector<std::unique_ptr<KvSubject>> start_kv_subjects(const KvSetting& setting,
                                                          const KeyDirectory& keys) {
  std::vector<std::unique_ptr<KvSubject>> subjects;
  for (const Kind& kind : kKinds) {
    if (!is_wanted(setting, kind)) continue;
    if (const std::string why = missing_for(kind); !why.empty()) {
      std::printf("# without %s %s: %s\n", kind.layer, kind.transport, why.c_str());
      continue;
    }
    try {
      subjects.push_back(start_subject(kind.layer, kind.transport, keys, setting.pin));
    } catch (const std::exception& error) {
      if (std::string(kind.layer) != "redis") throw;
      std::printf("# without redis: %s; is redis-server installed?\n", error.what());
    }
  }
  return subjects;
}

}  // namespace heddle::bench
