// What a shard needs of the server that it is part of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/server.h>

#include "server/latencies.h"
#include "transport/transport.h"

namespace heddle::kv_detail {

using namespace net_detail;

class ShardOwner {
 public:
  virtual ~ShardOwner() = default;
  virtual Transport& transport() = 0;
  virtual Latencies& latencies() = 0;
  virtual const ServerOptions& options() const = 0;
  virtual std::uint64_t incarnation() const = 0;                          // incarnation of this process
  virtual const std::shared_ptr<std::uint64_t>& memory_used() const = 0;  // bytes used by all cores
  virtual std::uint64_t secret() const = 0;  // the scheduler's secret for servers; 0: not known yet
  // Connects to a shard's backup. The shard gets the events of the connection.
  virtual Peer connect_to_backup(std::uint32_t shard, const std::string& address) = 0;
  virtual void close(Peer peer) = 0;
  // Called when the backup's copy has all that the primary has. From now on it gets all changes before
  // workers are answered.
  virtual void synced(std::uint32_t shard, std::uint64_t epoch) = 0;
  // Called when the copy has lost what it had confirmed, and the scheduler has to begin it anew.
  virtual void backup_lost(std::uint32_t shard, std::uint64_t epoch) = 0;
  virtual void log(ServerEvent::Level level, const char* name,
                   std::vector<std::pair<std::string, std::string>> fields) = 0;
};

// Options of the core of one shard: for workers it is the server with the shard's number.
inline ServerOptions core_options(const ShardOwner& owner, std::uint32_t shard) {
  ServerOptions options = owner.options();
  options.number = static_cast<int>(shard);
  return options;
}

// kLease: how long a primary may answer after its backup has confirmed it, and how long a backup then does
// not take over, so that no two primaries answer at one time. kBeat: between two confirmations.
constexpr std::chrono::milliseconds kLease{250}, kBeat{50};

}  // namespace heddle::kv_detail
