// Makes dist stores from environment variables.
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include <heddle/launch_environment.h>

#include "client/dist_store.h"
#include "wire/consistency.h"

namespace heddle {
namespace {

constexpr const char* kPrefix = "dist_";

std::string variable(const char* name, const std::string& otherwise = {}) {
  const char* const value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::vector<std::string> servers_in(const std::string& text) {
  std::vector<std::string> servers;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    if (one.find(':') == std::string::npos)
      throw InvalidArgument("HEDDLE_SERVERS is '" + text + "': '" + one + "' is not HOST:PORT");
    servers.push_back(one);
  }
  return servers;
}

// HOST:PORT of the scheduler that the variables of DMLC's launchers name; empty: they name none.
std::string dmlc_scheduler() {
  const std::string host = variable("DMLC_PS_ROOT_URI"), port = variable("DMLC_PS_ROOT_PORT");
  if (variable("DMLC_ROLE") != "worker" || host.empty()) return "";
  if (port.empty()) throw InvalidArgument("DMLC_PS_ROOT_PORT is not set, but DMLC_PS_ROOT_URI is");
  return host + ":" + port;
}

int workers_of_dmlc() {
  const std::string text = variable("DMLC_NUM_WORKER", "0");
  int workers = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), workers);
  if (error != std::errc{} || end != text.data() + text.size() || workers < 0)
    throw InvalidArgument("DMLC_NUM_WORKER: got '" + text + "', want a number of workers");
  return workers;
}

// Sets rank and number of workers as the launcher gives them. Without a launcher, the scheduler chooses the
// rank.
void find_rank(kv_detail::ClientOptions& options) {
  const bool numbered = !variable("DMLC_WORKER_ID", variable("DMLC_TASK_ID")).empty();
  const bool with_dmlc = !options.is_scheduled() || variable("DMLC_ROLE").empty() || numbered;
  const LaunchEnvironment job =
      LaunchEnvironment::from_environment([&](std::string_view name) -> const char* {
        // Workers meet at servers, so a missing rendezvous of ranks is no error.
        if (name == "HEDDLE_RENDEZVOUS") return "tcp:unused:1";
        return name.starts_with("DMLC_") && !with_dmlc ? "" : nullptr;
      });
  const bool any = options.is_scheduled() && job.source == "alone";
  options.rank = any ? -1 : job.rank;
  options.workers = any ? workers_of_dmlc() : job.size;
}

EtcdOptions etcd_of_environment() {
  EtcdOptions etcd;
  etcd.urls = variable("HEDDLE_STORE_ETCD");
  etcd.prefix = variable("HEDDLE_STORE_ETCD_PREFIX", etcd.prefix);
  etcd.ca = variable("HEDDLE_STORE_ETCD_CA");
  etcd.certificate = variable("HEDDLE_STORE_ETCD_CERT");
  etcd.key = variable("HEDDLE_STORE_ETCD_KEY");
  return etcd;
}

// Sets the scheduler's address, or how to find it in etcd, or else the servers' addresses.
void find_addresses(kv_detail::ClientOptions& options, const std::string& type) {
  options.scheduler = variable("HEDDLE_STORE_SCHEDULER");
  if (!options.scheduler.empty()) return;
  options.etcd = etcd_of_environment();
  if (!options.etcd.urls.empty()) return;
  options.servers = servers_in(variable("HEDDLE_SERVERS"));
  if (!options.servers.empty()) return;
  options.scheduler = dmlc_scheduler();
  if (!options.scheduler.empty()) return;
  throw InvalidArgument("KVStore::create: a " + type +
                        " store needs servers: HEDDLE_STORE_SCHEDULER=HOST:PORT names their scheduler, "
                        "HEDDLE_STORE_ETCD=URL,... says where to look for it, or "
                        "HEDDLE_SERVERS=HOST:PORT,... names them, and `heddle launch --servers` starts both");
}

}  // namespace

std::unique_ptr<KVStore> make_dist_store(const std::string& type, const KVStoreOptions& given) {
  const std::string pull = given.pull_compression.empty() ? variable("HEDDLE_STORE_PULL_COMPRESSION", "none")
                                                          : given.pull_compression;
  DistStore::Codecs codecs{make_codec(compression_setting(given.compression)), make_codec(pull)};
  kv_detail::ClientOptions options;
  options.consistency = type.substr(std::string(kPrefix).size());
  kv_detail::parse_consistency(options.consistency);
  find_addresses(options, type);
  find_rank(options);
  options.job = variable("HEDDLE_JOB", options.job);
  options.placement = kv_detail::placement_from(
      given.placement.empty() ? variable("HEDDLE_STORE_PLACEMENT", "hash") : given.placement);
  options.transport.kind = variable("HEDDLE_STORE_TRANSPORT", options.transport.kind);
  return std::make_unique<DistStore>(type, options, std::move(codecs));
}

}  // namespace heddle

extern "C" heddle::KVStore* make_heddle_dist_store(const std::string& type,
                                                   const heddle::KVStoreOptions& options) {
  return heddle::make_dist_store(type, options).release();
}
