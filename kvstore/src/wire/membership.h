// Messages between the scheduler and the processes that register with it.
//
// A process sends Registration, and the scheduler answers with Registered or Refused. From then on the
// process sends heartbeats, each of which is answered with a Status, and the scheduler sends Views whenever
// they change. A process that has lost its connection registers again under its number. All messages are
// idempotent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transport/bytes.h"
#include "wire/protocol.h"
#include "wire/views.h"

namespace heddle::kv_detail {

using namespace net_detail;

// The first byte of a message. It differs from those of messages.h, to recognise messages to a wrong process.
enum class MembershipKind : std::uint8_t {
  registration = 128,
  heartbeat,
  unregister,
  registered,
  refused,
  views,
  status,
  backup_lost,  // from protocol version 2 on, like views_of_speakers
  views_of_speakers,
  views_with_learners  // from protocol version 3 on
};

enum class Role : std::uint8_t { server = 1, worker };

constexpr std::uint32_t kAnyNumber = ~0u;  // Registration::number: the scheduler is to choose the number
constexpr std::uint32_t kMostCopies = 2;
constexpr std::size_t kMaxReason = 16 << 10;  // most bytes of Refused::text and of Status::text

// The registration of a process.
struct Registration {
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  Role role = Role::worker;
  std::uint32_t number = kAnyNumber;       // number of the server, or rank of the worker
  std::uint32_t servers = 0, workers = 0;  // numbers of servers and workers that it expects; 0: not known
  std::uint32_t replicas = 0;              // servers: copies of each shard, 1 or 2; 0: as the scheduler says
  std::uint64_t incarnation = 0;           // random number of the process; not 0
  std::uint64_t cluster = 0, version = 0;  // ids of the newest views that the process has seen; 0: none
  std::string job{};                       // workers: name of the job
  std::string address{};                   // servers: HOST:PORT that workers connect to
  std::string process{};                   // name for log messages: "host, process 123"

  static void fields(auto& archive, auto& self) {
    archive(self.oldest, self.newest, self.role, self.number, self.servers, self.workers, self.replicas,
            self.incarnation, self.cluster, self.version);
    archive.text(self.job, kMaxJobName);
    archive.text(self.address, kMaxAddress);
    archive.cut_text(self.process, kMaxName);
    archive.open_end(self.newest > kProtocol);
  }
  void check() const;
};

// A primary's report that its backup or learner has all state of the shard.
struct Synced {
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0;  // epoch of the shard, or number of the copy if ShardView::copy is not 0
  static void fields(auto& archive, auto& self) { archive(self.shard, self.epoch); }
};

struct Heartbeat {
  std::uint64_t version = 0;     // version of the newest views that the process has
  std::vector<Synced> synced{};  // from a server: its shards whose backup or learner has all state
  bool leaving = false;          // from a server: it asks to hand its shards to other servers
  static void fields(auto& archive, auto& self) {
    archive(self.version);
    archive.list(self.synced, kMostServers, "reports about ", " shards");
    archive(self.leaving);
  }
};

// The copy with this number, or the backup of this epoch, has lost state that it had confirmed, so the copy
// is made anew. A server repeats the message with each heartbeat until the epoch changes.
struct BackupLost {
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0;
  static void fields(auto& archive, auto& self) { archive(self.shard, self.epoch); }
};

// Says that the sender ends, or stops serving: no other process has to wait for it.
struct Unregister {
  static void fields(auto&, auto&) {}
};

struct Registered {
  std::uint16_t protocol = kProtocol;  // protocol version of all later messages of both sides
  std::uint32_t number = 0;
  std::uint32_t servers = 0, workers = 0;
  std::uint32_t heartbeat = 0;  // milliseconds between two heartbeats
  // Random id of the scheduler's history of views. Epochs of different histories cannot be compared.
  std::uint64_t cluster = 0;
  std::uint64_t secret = 0;  // to servers, from version 2 on: a secret that only servers are told

  static void fields(auto& archive, auto& self) {
    archive(self.protocol, self.number, self.servers, self.workers, self.heartbeat, self.cluster);
    if (self.protocol >= kProven) archive(self.secret);
  }
  void check() const;
};

struct Refused {
  std::uint32_t retry = 0;  // milliseconds for which a retry may succeed; 0: the refusal is final
  std::string text{};

  static void fields(auto& archive, auto& self) {
    archive(self.retry);
    archive.cut_text(self.text, kMaxReason);
  }
};

struct Status {
  bool over = false;   // whether all workers have left, so that servers may end
  std::string text{};  // what the scheduler waits for before it publishes the first views

  static void fields(auto& archive, auto& self) {
    archive(self.over);
    archive.cut_text(self.text, kMaxReason);
  }
};

std::vector<std::byte> encode(const Registration& registration);
std::vector<std::byte> encode(const Heartbeat& heartbeat);
std::vector<std::byte> encode(const BackupLost& lost);
std::vector<std::byte> encode(const Unregister& unregister);
std::vector<std::byte> encode(const Registered& registered);
std::vector<std::byte> encode(const Refused& refused);
std::vector<std::byte> encode(const Views& views, std::uint16_t protocol = kProtocol);
std::vector<std::byte> encode(const Status& status);

// FromMember: messages to the scheduler. FromScheduler: its messages. The decoders throw MalformedMessage.
using FromMember = std::variant<Registration, Heartbeat, BackupLost, Unregister>;
FromMember decode_from_member(std::span<const std::byte> head);
using FromScheduler = std::variant<Registered, Refused, Views, Status>;
FromScheduler decode_from_scheduler(std::span<const std::byte> head);

}  // namespace heddle::kv_detail
