// The heads of the messages that carry the whole state of a server, to its disk or to its backup. They come in this order:
// begin; of each job: job, its workers by rank, its collectives, its keys by number; end. A key is followed by its arrays,
// and an array, whose payload is its first piece, by the other pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <heddle/dtype.h>

#include "wire/messages.h"

namespace heddle::kv_detail {

// 2: what workers have set of optimizers' state counts once; a job knows what its weights are. 3: calls that workers may have
// had answers to are counted; a key has failures of workers.
constexpr std::uint16_t kStateVersion = 3, kOldestStateVersion = 1;

struct StateBegin {
  std::uint16_t version = kStateVersion;
  std::uint32_t number = 0, servers = 1;  // of the server
  std::uint64_t incarnation = 0, jobs_begun = 0;
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0, worst_staleness = 0;
};

struct StateJob {
  std::string name, consistency;
  std::string rule;  // as update_rule_text writes it; empty: none
  std::uint64_t incarnation = 0;
  std::uint32_t workers = 1, servers = 1;
  std::string restored{};  // when the snapshot was taken that the job was restored from; empty: it was not
  std::uint8_t generation = 0;                  // how often it was restored, modulo 256
  std::uint64_t weights = 0;                    // Request::clock of the last set_optimizer; from version 2 on
  std::uint64_t settings = 0, collectives = 1;  // as in Job; from version 3 on
};

struct StateWorker {
  bool greeted = false, left = false, dropped = false, rejoined = false;
  std::uint64_t incarnation = 0;
  std::uint64_t collective_done = 0;
  std::string collective_failure{};
  std::uint64_t pushes = 0, pulls = 0, bytes_received = 0, bytes_sent = 0;
  std::int64_t clock = 0;
  std::uint64_t state_set = 0;                  // the latest request that has set a state; from version 2 on
  std::uint64_t passed = 0, lost_settings = 0;  // as in JobWorker; from version 3 on
};

// A worker that has come to a collective which others have not come to yet.
struct StateCollective {
  std::uint32_t rank = 0;
  Request request{};
};

// Its payload: the clocks of all workers by rank, then the pushes that nobody waits for.
struct StateKey {
  struct Failure {
    std::uint32_t rank = 0;
    std::string why{};
  };
  static constexpr std::uint32_t kNoPlace = ~0u;
  std::string name;
  DType dtype = DType::f32;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0, rounds = 0;
  std::uint64_t whole_bytes = 0;  // of the value on all servers; 0: it is not known
  std::uint32_t whole_rows = 0;   // its first dimension; 0: it has none
  std::string failure{};
  std::uint32_t place =
      kNoPlace;  // keys of the job that were initialised before it, if its servers depend on them
  std::vector<Failure>
      failures{};  // of pushes, by rank, which these workers have not cleared; from version 3 on
};

struct StateArray {
  enum class Role : std::uint8_t { value, push, optimizer };
  Role role = Role::value;
  bool overwrite = false;
  bool has_value = true;  // false: a push that overwrites, of another rank than 0
  DType dtype = DType::f32;
  std::uint32_t rank = 0;       // push
  std::uint64_t bytes = 0;      // of all pieces
  std::uint64_t row_bytes = 0;  // push: of rows, as the payload of a request has them; 0: of a whole value
  double lr = 0, scale = 1;     // push
  std::string name{};           // optimizer: "velocity" and so on
};

struct StatePiece {};

struct StateEnd {
  std::uint64_t messages = 0;  // that came before this one
};

using StateRecord = std::variant<StateBegin, StateJob, StateWorker, StateCollective, StateKey, StateArray,
                                 StatePiece, StateEnd>;

std::vector<std::byte> encode(const StateRecord& record, std::uint16_t version = kStateVersion);
// Throws MalformedMessage. Each field is one that a server can have; how they fit together is for the reader to check.
// `version`: of the StateBegin that came before it.
StateRecord decode_state_record(std::span<const std::byte> head, std::uint16_t version = kStateVersion);

std::vector<std::byte> encode_clocks(const std::vector<std::uint64_t>& clocks,
                                     const std::vector<std::uint64_t>& missed);
struct Clocks {
  std::vector<std::uint64_t> clocks, missed;  // by rank
};
// Throws MalformedMessage for another number of workers.
Clocks decode_clocks(std::span<const std::byte> payload, std::size_t workers);

}  // namespace heddle::kv_detail
