// A scheduler's decisions, in the form in which they are saved. A restarted scheduler must know everything
// that processes were told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/views.h"

namespace heddle::kv_detail {

struct SchedulerState {
  std::uint64_t cluster = 0;  // random id of this history of views
  std::uint64_t secret = 0;   // a random number that only servers are told; 0: none yet
  std::uint32_t servers = 1, replicas = 1;
  Views views{};
  std::vector<std::uint64_t> synced{};  // each shard's epoch if its backup has all state, else 0
  bool operator==(const SchedulerState&) const = default;
};

// The encoded state has a version and a checksum. States of former versions can be decoded. Decoding throws
// MalformedMessage, which says what is wrong.
std::vector<std::byte> encode(const SchedulerState& state);
SchedulerState decode_scheduler_state(std::span<const std::byte> bytes);

// The state file. It is locked as long as this object lives, because two schedulers with one file could make
// decisions that contradict each other.
class StateFile {
 public:
  // Throws Error with the path if the file belongs to a running scheduler or cannot be made.
  explicit StateFile(std::string path);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Reads the state; empty: there is no file. Throws Error with the path and what is wrong.
  std::optional<SchedulerState> read() const;
  // Returns once the state is on the disk. After a crash the file has the former state or the new one. Throws
  // Error.
  void write(const SchedulerState& state) const;

 private:
  const std::string path_;
  int lock_;
};

}  // namespace heddle::kv_detail
