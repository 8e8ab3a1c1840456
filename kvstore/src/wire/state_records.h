// Heads of the messages that carry the whole state of a server to its disk or to its backup. Their order is
// StateBegin; for each job StateJob, its StateWorkers by rank, its StateCollectives, its StateKeys by number;
// StateEnd. A StateKey is followed by its StateArrays. The payload of a StateArray is the first piece of the
// array; StatePieces with the other pieces follow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <heddle/dtype.h>

#include "wire/messages.h"
#include "wire/state_job.h"

namespace heddle::kv_detail {

// Version 2 added StateJob::weights and StateWorker::state_set. Version 3 added StateJob::settings and
// collectives, StateWorker::passed and lost_settings, and StateKey::failures.
constexpr std::uint16_t kStateVersion = 3, kOldestStateVersion = 1;

struct StateBegin {
  std::uint16_t version = kStateVersion;
  std::uint32_t number = 0, servers = 1;  // number of this server, and count of servers
  std::uint64_t incarnation = 0, jobs_begun = 0;
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0, worst_staleness = 0;

  static void fields(auto& archive, auto& self) {
    archive(self.version, self.number, self.servers, self.incarnation, self.jobs_begun, self.pushes,
            self.pulls, self.duplicates, self.refused, self.rounds, self.worst_staleness);
  }
  void check() const;
};

// A key. The payload of the message has the clocks of all workers by rank, and then their
// WorkerPushes::missed.
struct StateKey {
  struct Failure {
    std::uint32_t rank = 0;
    std::string why{};

    static void fields(auto& archive, auto& self) {
      archive(self.rank);
      archive.cut_text(self.why, kMaxText);
    }
  };
  static constexpr std::uint32_t kNoIndex = ~0u;
  std::string name;
  DType dtype = DType::f32;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0, rounds = 0;
  std::uint64_t whole_bytes = 0;  // size of the value on all servers; 0: not known
  std::uint32_t whole_rows = 0;   // first dimension of the value on all servers; 0: the value has no rows
  std::string failure{};
  // Number of keys of the job that were initialised before this one. kNoIndex: the placement does not depend
  // on it.
  std::uint32_t place = kNoIndex;
  // Errors of workers' pushes that these workers have not cleared yet; from state version 3 on.
  std::vector<Failure> failures{};

  static void fields(auto& archive, auto& self) {
    archive.text(self.name, kMaxKeyText);
    archive(self.dtype, self.number, self.bytes, self.rounds, self.whole_bytes, self.whole_rows);
    archive.cut_text(self.failure, kMaxText);
    const bool has_failures = archive.version() >= 3;
    if (has_failures || archive.more(self.place != kNoIndex)) archive(self.place);
    if (has_failures) archive.list(self.failures, kMostWorkers, "failures of ", " workers");
  }
  void check() const;
};

constexpr std::size_t kMaxArrayName = 64;

struct StateArray {
  enum class Role : std::uint8_t { value, push, optimizer };
  Role role = Role::value;
  bool overwrite = false;
  bool has_value = true;  // false: an overwriting push of a rank other than 0, which has no value
  DType dtype = DType::f32;
  std::uint32_t rank = 0;       // push: the worker's rank
  std::uint64_t bytes = 0;      // size of the whole array
  std::uint64_t row_bytes = 0;  // push of rows: bytes of a row, see wire/rows.h; 0: a whole value
  double lr = 0, scale = 1;     // push: learning rate and grad_scale
  std::string name{};           // optimizer: name of the array, "velocity" and so on

  static void fields(auto& archive, auto& self) {
    archive(self.role, self.overwrite, self.has_value, self.dtype, self.rank, self.bytes, self.row_bytes,
            self.lr, self.scale);
    archive.text(self.name, kMaxArrayName);
  }
  void check() const;
};

struct StatePiece {
  static void fields(auto&, auto&) {}
};

struct StateEnd {
  std::uint64_t messages = 0;  // number of messages before this one

  static void fields(auto& archive, auto& self) { archive(self.messages); }
};

using StateRecord = std::variant<StateBegin, StateJob, StateWorker, StateCollective, StateKey, StateArray,
                                 StatePiece, StateEnd>;

std::vector<std::byte> encode(const StateRecord& record, std::uint16_t version = kStateVersion);
// Throws MalformedMessage for a field that no server can have; the caller checks how records fit together.
// `version`: StateBegin::version of the state that the record belongs to.
StateRecord decode_state_record(std::span<const std::byte> head, std::uint16_t version = kStateVersion);

std::vector<std::byte> encode_clocks(const std::vector<std::uint64_t>& clocks,
                                     const std::vector<std::uint64_t>& missed);
struct Clocks {
  std::vector<std::uint64_t> clocks, missed;  // clock and WorkerPushes::missed of each worker, by rank
};
// Throws MalformedMessage if the payload is not for this number of workers.
Clocks decode_clocks(std::span<const std::byte> payload, std::size_t workers);

}  // namespace heddle::kv_detail
