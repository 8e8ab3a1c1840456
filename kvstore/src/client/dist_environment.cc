// Dist stores as environment variables describe them.
#include <cstdlib>
#include <sstream>

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

}  // namespace

bool is_dist_type(const std::string& type) { return type.starts_with(kPrefix); }

std::unique_ptr<KVStore> make_dist_store(const std::string& type) {
  kv_detail::ClientOptions options;
  options.consistency = type.substr(std::string(kPrefix).size());
  kv_detail::parse_consistency(options.consistency);
  options.servers = servers_in(variable("HEDDLE_SERVERS"));
  if (options.servers.empty()) {
    throw InvalidArgument(
        "KVStore::create: a " + type +
        " store needs servers: HEDDLE_SERVERS=HOST:PORT,... names them, and `heddle launch --servers` "
        "starts them");
  }
  const LaunchEnvironment job = LaunchEnvironment::from_environment();
  options.rank = job.rank;
  options.workers = job.size;
  options.job = variable("HEDDLE_JOB", options.job);
  options.transport.kind = variable("HEDDLE_STORE_TRANSPORT", options.transport.kind);
  return std::make_unique<DistStore>(type, options);
}

}  // namespace heddle
