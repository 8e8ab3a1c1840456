// The messages between the scheduler and the processes that register with it.
//
// A process registers, and the scheduler answers with registered or refused. From then on the process sends heartbeats, each
// of which is answered with a status, and the scheduler sends views whenever they change. A process that has lost its
// connection registers again with what it was told. All of this may be repeated without harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wire/bytes.h"
#include "wire/protocol.h"
#include "wire/views.h"

namespace heddle::kv_detail {

// No number of messages.h: a message to the wrong process is recognised.
enum class MembershipKind : std::uint8_t {
  enlist = 128,
  heartbeat,
  depart,
  registered,
  refused,
  views,
  status,
  backup_lost,  // from version 2 on, as the next
  views_of_speakers,
  views_with_learners  // from version 3 on
};

enum class Role : std::uint8_t { server = 1, worker };

constexpr std::uint32_t kAnyNumber = ~0u;  // the scheduler chooses one
constexpr std::uint32_t kMostCopies = 2;

struct Enlist {
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  Role role = Role::worker;
  std::uint32_t number = kAnyNumber;       // a server's number, a worker's rank
  std::uint32_t servers = 0, workers = 0;  // how many the process knows of; 0: it does not know
  std::uint32_t replicas = 0;              // servers: copies of each shard, 1 or 2; 0: as the scheduler says
  std::uint64_t incarnation = 0;           // a random number; not 0
  std::uint64_t cluster = 0, version = 0;  // the newest views that the process has seen; 0: none
  std::string job{};                       // workers: ranks are those of the job
  std::string address{};                   // servers: HOST:PORT where they serve
  std::string process{};                   // for people: "host, process 123"
};

struct Synced {
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0;  // or the number of a copy
};

struct Heartbeat {
  std::uint64_t version = 0;     // of the newest views that the process has
  std::vector<Synced> synced{};  // servers: of which shards, and in which epoch, their backup has all state
  bool leaving = false;          // servers: another one shall have what this one has
};

// The backup of this epoch, or the copy of this number, has not the state that it had confirmed: its copy is to begin anew. Servers say it with each
// heartbeat until there is another epoch.
struct BackupLost {
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0;
};

// The process ends, or serves no more: nobody need wait for it.
struct Depart {};

struct Registered {
  std::uint16_t protocol = kProtocol;  // that both speak from now on
  std::uint32_t number = 0;
  std::uint32_t servers = 0, workers = 0;
  std::uint32_t heartbeat = 0;  // milliseconds between two
  // Stands for the history of views that the scheduler keeps. Epochs of another one cannot be compared.
  std::uint64_t cluster = 0;
  std::uint64_t secret = 0;  // servers, from version 2 on: shared by all of them, and told to nobody else
};

struct Refused {
  std::uint32_t retry = 0;  // for so many milliseconds it is worth another try; 0: for good
  std::string text{};
};

struct Status {
  bool over = false;   // all workers have left: servers may end
  std::string text{};  // what the scheduler waits for before it gives out the first views
};

std::vector<std::byte> encode(const Enlist& enlist);
std::vector<std::byte> encode(const Heartbeat& heartbeat);
std::vector<std::byte> encode(const BackupLost& lost);
std::vector<std::byte> encode(const Depart& depart);
std::vector<std::byte> encode(const Registered& registered);
std::vector<std::byte> encode(const Refused& refused);
std::vector<std::byte> encode(const Views& views, std::uint16_t protocol = kProtocol);
std::vector<std::byte> encode(const Status& status);

// What a process may send, and the scheduler. Both throw MalformedMessage.
using FromMember = std::variant<Enlist, Heartbeat, BackupLost, Depart>;
FromMember decode_from_member(std::span<const std::byte> head);
using FromScheduler = std::variant<Registered, Refused, Views, Status>;
FromScheduler decode_from_scheduler(std::span<const std::byte> head);

}  // namespace heddle::kv_detail
