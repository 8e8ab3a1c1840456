// What a scheduler has decided, on disk: whoever has heard of it must find it again after the scheduler was started anew.
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
  std::uint64_t cluster = 0;  // a random number: whose history of views this is
  std::uint64_t secret = 0;   // a random number that servers are told, and nobody else; 0: none yet
  std::uint32_t servers = 1, replicas = 1;
  Views views{};
  std::vector<std::uint64_t> synced{};  // by shard: the latest epoch whose backup has all state; 0: none
  bool operator==(const SchedulerState&) const = default;
};

// With a version and a checksum; the version before can be read, too. Decoding throws MalformedMessage, which says what is wrong.
std::vector<std::byte> encode(const SchedulerState& state);
SchedulerState decode_scheduler_state(std::span<const std::byte> bytes);

// The file, locked as long as this lives: two schedulers with one file would decide twice.
class StateFile {
 public:
  // Throws Error with the path if the file belongs to a running scheduler or cannot be made.
  explicit StateFile(std::string path);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Empty: there is no such file. Throws Error with the path and what is wrong.
  std::optional<SchedulerState> read() const;
  // Returns once it is on disk. A crash leaves the former state or this one. Throws Error.
  void write(const SchedulerState& state) const;

 private:
  const std::string path_;
  int lock_;
};

}  // namespace heddle::kv_detail
