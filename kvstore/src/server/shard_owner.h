// What a shard asks of the server that it is part of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/server.h>

#include "transport/transport.h"

namespace heddle::kv_detail {

class ShardOwner {
 public:
  virtual ~ShardOwner() = default;
  virtual Transport& transport() = 0;
  virtual const ServerOptions& options() const = 0;
  virtual std::uint64_t incarnation() const = 0;                          // of this process
  virtual const std::shared_ptr<std::uint64_t>& memory_used() const = 0;  // bytes, of all cores
  virtual std::uint64_t secret() const = 0;  // that the scheduler has told servers; 0: it has not
  // Connects to a shard's backup; what comes from there is handed to the shard.
  virtual Peer connect_to_backup(std::uint32_t shard, const std::string& address) = 0;
  virtual void close(Peer peer) = 0;
  // The backup of this epoch has all that the primary has, and from now on whatever workers are told.
  virtual void synced(std::uint32_t shard, std::uint64_t epoch) = 0;
  // It has not what it had confirmed: the scheduler is to begin the copy anew.
  virtual void backup_lost(std::uint32_t shard, std::uint64_t epoch) = 0;
  virtual void log(ServerEvent::Level level, const char* name,
                   std::vector<std::pair<std::string, std::string>> fields) = 0;
};

// Of the core of one shard, to which workers speak as to a server of that number.
inline ServerOptions core_options(const ShardOwner& owner, std::uint32_t shard) {
  ServerOptions options = owner.options();
  options.number = static_cast<int>(shard);
  return options;
}

// How long a primary may answer after its backup has last confirmed it, and for how long a backup that has confirmed a
// primary does not take its place. So no primary answers when another one does.
constexpr std::chrono::milliseconds kLease{250}, kBeat{50};

}  // namespace heddle::kv_detail
