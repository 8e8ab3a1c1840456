// Which server process keeps which part of the keys: what the scheduler decides, and all others are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wire/bytes.h"

namespace heddle::kv_detail {

// Views of so many servers, with addresses of that length, fit into the head of one message.
constexpr std::size_t kMostServers = 256, kMaxAddress = 128;

// A server process. A process that is started anew has the same number and another incarnation.
struct ServerInfo {
  std::uint32_t number = 0;
  std::uint64_t incarnation = 0;  // random; not 0
  std::string address{};          // HOST:PORT
  std::uint16_t protocol = 1;     // the newest that it speaks
  bool operator==(const ServerInfo&) const = default;
};

// The servers that keep one shard. With each change the epoch grows; a process that has seen a larger one ignores all smaller ones.
struct ShardView {
  std::uint64_t epoch = 0;    // 0: there is no view yet
  std::uint64_t primary = 0;  // the incarnation of the process that answers workers; 0: none
  std::uint64_t backup = 0;   // the incarnation of the process that has, or gets, a copy; 0: none
  // The primary begins the shard in this epoch: empty, or from its own snapshot. What was before is lost.
  bool fresh = false;
  // The two have changed places. Workers are told nothing in this epoch before the backup has all, so the backup, which was
  // the primary and keeps its state until then, may become it again.
  bool handover = false;
  // The number of the backup's copy, of which the two speak with each other; 0: the epoch. Each copy of a shard has another number,
  // and no epoch that follows has it.
  std::uint64_t copy = 0;
  // The incarnation of a process that gets a copy while the backup still has its own; 0: none. A learner takes part in no
  // decision before its copy is complete. It may come and go within an epoch.
  std::uint64_t learner = 0;
  std::uint64_t learner_copy = 0;  // the number of its copy, or of the last learner's
  bool operator==(const ShardView&) const = default;
};

struct Views {
  std::uint64_t version = 0;          // grows with each change of anything below; 0: there are no views yet
  std::vector<ServerInfo> servers{};  // the latest process of each number
  std::vector<ShardView> shards{};    // shard i at i
  bool operator==(const Views&) const = default;
};

inline std::uint64_t copy_of(const ShardView& view) { return view.copy != 0 ? view.copy : view.epoch; }

std::uint64_t new_incarnation();  // random; not 0

// The process of that incarnation; null: another one has taken its number.
const ServerInfo* find_server(const Views& views, std::uint64_t incarnation);

void put(Writer& writer, const Views& views);
Views views_from(Reader& reader);  // throws MalformedMessage
// What servers speak, which version 1 does not know.
void put_protocols(Writer& writer, const Views& views);
void protocols_from(Reader& reader, Views& views);  // throws MalformedMessage
// Numbers of copies and learners, which versions before 3 do not know.
void put_learners(Writer& writer, const Views& views);
void learners_from(Reader& reader, Views& views);  // throws MalformedMessage

}  // namespace heddle::kv_detail
