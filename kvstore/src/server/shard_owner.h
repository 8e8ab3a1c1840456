// The interface through which a shard uses the server that it is part of.
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
  virtual const std::shared_ptr<std::uint64_t>& memory_used() const = 0;  // bytes that all cores use together
  virtual std::uint64_t secret() const = 0;  // the scheduler's secret for servers; 0: not known yet
  // Connects to a shard's backup. The shard gets the events of the connection.
  virtual Peer connect_to_backup(std::uint32_t shard, const std::string& address) = 0;
  virtual void close(Peer peer) = 0;
  // Called when the copy of the backup or learner has all state of the primary. From then on the primary
  // answers workers only when this copy has the changes. `epoch`: number of the copy.
  virtual void synced(std::uint32_t shard, std::uint64_t epoch) = 0;
  // Called when a copy has lost state that it had confirmed. The scheduler then has to begin the copy anew.
  // `epoch`: number of the copy.
  virtual void backup_lost(std::uint32_t shard, std::uint64_t epoch) = 0;
  virtual void log(ServerEvent::Level level, const char* name,
                   std::vector<std::pair<std::string, std::string>> fields) = 0;
};

// Options of the ServerCore of one shard. Its server number is that of the shard, by which workers address
// it.
inline ServerOptions core_options(const ShardOwner& owner, std::uint32_t shard) {
  ServerOptions options = owner.options();
  options.number = static_cast<int>(shard);
  return options;
}

// kLease: time for which a primary may answer after its backup has answered a beat. The backup does not take
// over within this time, so that no two primaries answer at one time. kBeat: time between two beats.
constexpr std::chrono::milliseconds kLease{250}, kBeat{50};

}  // namespace heddle::kv_detail
