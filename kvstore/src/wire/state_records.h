// Heads of the messages that carry the whole state of a server, to its disk or to its backup. Their order:
// begin; for each job the job, its workers by rank, its incomplete collectives, its keys by number; end. A
// key is followed by its arrays. An array's payload is its first piece, and the other pieces follow it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <heddle/dtype.h>

#include "wire/messages.h"

namespace heddle::kv_detail {

// Version 2 added StateJob::weights and StateWorker::state_set. Version 3 added StateJob::settings and
// collectives, StateWorker::passed and lost_settings, and StateKey::failures.
constexpr std::uint16_t kStateVersion = 3, kOldestStateVersion = 1;

struct StateBegin {
  std::uint16_t version = kStateVersion;
  std::uint32_t number = 0, servers = 1;  // number of this server, and count of servers
  std::uint64_t incarnation = 0, jobs_begun = 0;
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0, worst_staleness = 0;
};

struct StateJob {
  std::string name, consistency;
  std::string rule;  // update rule, as update_rule_text writes it; empty: none
  std::uint64_t incarnation = 0;
  std::uint32_t workers = 1, servers = 1;
  std::string restored{};       // time of the snapshot that the job was restored from; empty: it was not
  std::uint8_t generation = 0;  // how often the job was restored, modulo 256
  std::uint64_t weights = 0;    // Request::clock of the last set_optimizer; from version 2 on
  std::uint64_t settings = 0, collectives = 1;  // see Job; from version 3 on
};

struct StateWorker {
  bool greeted = false, left = false, dropped = false, rejoined = false;
  std::uint64_t incarnation = 0;
  std::uint64_t collective_done = 0;
  std::string collective_failure{};
  std::uint64_t pushes = 0, pulls = 0, bytes_received = 0, bytes_sent = 0;
  std::int64_t clock = 0;
  std::uint64_t state_set = 0;                  // number of the latest set_state; from version 2 on
  std::uint64_t passed = 0, lost_settings = 0;  // see JobWorker; from version 3 on
};

// A barrier or set_optimizer that this worker has sent and other workers have not sent yet.
struct StateCollective {
  std::uint32_t rank = 0;
  Request request{};
};

// A key. The payload has the workers' clocks by rank, then WorkerPushes::missed by rank.
struct StateKey {
  struct Failure {
    std::uint32_t rank = 0;
    std::string why{};
  };
  static constexpr std::uint32_t kNoIndex = ~0u;
  std::string name;
  DType dtype = DType::f32;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0, rounds = 0;
  std::uint64_t whole_bytes = 0;  // size of the value on all servers; 0: not known
  std::uint32_t whole_rows = 0;   // first dimension of the whole value; 0: the value has none
  std::string failure{};
  // Keys of the job that were initialised before this one, if its servers depend on them.
  std::uint32_t place = kNoIndex;
  // Errors of pushes, by rank, that these workers have not cleared; from version 3 on.
  std::vector<Failure> failures{};
};

struct StateArray {
  enum class Role : std::uint8_t { value, push, optimizer };
  Role role = Role::value;
  bool overwrite = false;
  bool has_value = true;  // false: an overwriting push of a rank other than 0, which has no value
  DType dtype = DType::f32;
  std::uint32_t rank = 0;       // push: the worker's rank
  std::uint64_t bytes = 0;      // size of all pieces
  std::uint64_t row_bytes = 0;  // push of rows: bytes of a row, see wire/rows.h; 0: a whole value
  double lr = 0, scale = 1;     // push: the options
  std::string name{};           // optimizer: name of the array, "velocity" and so on
};

struct StatePiece {};

struct StateEnd {
  std::uint64_t messages = 0;  // number of messages before this one
};

using StateRecord = std::variant<StateBegin, StateJob, StateWorker, StateCollective, StateKey, StateArray,
                                 StatePiece, StateEnd>;

std::vector<std::byte> encode(const StateRecord& record, std::uint16_t version = kStateVersion);
// Throws MalformedMessage for a field that no server can have; the caller checks how records fit together.
// `version`: that of the StateBegin before it.
StateRecord decode_state_record(std::span<const std::byte> head, std::uint16_t version = kStateVersion);

std::vector<std::byte> encode_clocks(const std::vector<std::uint64_t>& clocks,
                                     const std::vector<std::uint64_t>& missed);
struct Clocks {
  std::vector<std::uint64_t> clocks, missed;  // both are indexed by rank
};
// Throws MalformedMessage for another number of workers.
Clocks decode_clocks(std::span<const std::byte> payload, std::size_t workers);

}  // namespace heddle::kv_detail
