// Views say which server process keeps which shard (part of the keys). The scheduler decides and sends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/bytes.h"
#include "wire/protocol.h"

namespace heddle::kv_detail {

using namespace net_detail;

// Most servers of a cluster, and most bytes of a server's address. Views within these limits fit into the
// head of one message.
constexpr std::size_t kMostServers = 256, kMaxAddress = 128;

// A server process. A restarted process has the same number and another incarnation.
struct ServerInfo {
  std::uint32_t number = 0;
  std::uint64_t incarnation = 0;  // random; not 0
  std::string address{};          // HOST:PORT
  std::uint16_t protocol = 1;     // newest protocol version that the process speaks
  bool operator==(const ServerInfo&) const = default;

  static void fields(auto& archive, auto& self) {
    archive(self.number, self.incarnation);
    archive.text(self.address, kMaxAddress);
  }
  void check() const;
};

// The servers that keep one shard. The epoch grows with each change. A process ignores views of a shard whose
// epoch is older than the one that it has.
struct ShardView {
  std::uint64_t epoch = 0;    // 0: there is no view yet
  std::uint64_t primary = 0;  // incarnation of the process that answers workers; 0: none
  std::uint64_t backup = 0;   // incarnation of the process that has, or gets, a copy; 0: none
  // Whether the primary begins the shard in this epoch, empty or from its own snapshot. The shard's state of
  // earlier epochs is lost.
  bool fresh = false;
  // Whether primary and backup have exchanged roles with this epoch. In such an epoch workers get no answers
  // before the backup has all state. Until then the backup keeps its state as the former primary, so it may
  // become the primary again.
  bool handover = false;
  // Number of the backup's copy in messages between primary and backup; 0: the epoch is the number. Each copy
  // of a shard has another number, and no later epoch is equal to it.
  std::uint64_t copy = 0;
  // Incarnation of the learner, a process that gets a copy while the backup keeps its own; 0: none. A learner
  // decides nothing before its copy is complete. It may be added and removed within an epoch.
  std::uint64_t learner = 0;
  // Number of the copy of the learner, or of the last learner if there is none.
  std::uint64_t learner_copy = 0;
  bool operator==(const ShardView&) const = default;

  static void fields(auto& archive, auto& self) {
    archive(self.epoch, self.primary, self.backup, self.fresh, self.handover);
  }
};

struct Views {
  std::uint64_t version = 0;          // grows with each change of `servers` or `shards`; 0: no views yet
  std::vector<ServerInfo> servers{};  // the latest process of each server number
  std::vector<ShardView> shards{};    // indexed by shard
  bool operator==(const Views&) const = default;

  // The fields of protocol version 1. Later versions have the fields of later_fields(), too, which a message
  // may have at another place.
  static void fields(auto& archive, auto& self) {
    archive(self.version);
    archive.list(self.servers, kMostServers, "views of ", " servers");
    archive.list(self.shards, kMostServers, "views of ", " servers");
  }
  static void later_fields(auto& archive, auto& self, std::uint16_t protocol) {
    if (protocol >= kProven)
      for (auto& one : self.servers) archive(one.protocol);
    if (protocol >= kLearners)
      for (auto& one : self.shards) archive(one.copy, one.learner, one.learner_copy);
  }
};

inline std::uint64_t copy_of(const ShardView& view) { return view.copy != 0 ? view.copy : view.epoch; }

std::uint64_t new_incarnation();  // random; not 0

// The server process with this incarnation; null: it is not, or no longer, the latest process of its number.
const ServerInfo* find_server(const Views& views, std::uint64_t incarnation);

}  // namespace heddle::kv_detail
