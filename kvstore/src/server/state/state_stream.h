// The whole state of a server's core as messages: for a snapshot on disk, and for a new backup.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/server_core.h"
#include "server/state/state_saver.h"
#include "wire/state_records.h"

namespace heddle::kv_detail {

// Hands out all messages of a StateSaver at once. The state lacks connections, requests that wait for an
// answer, and values that are being received, since workers send these again.
void save_state(const ServerCore& core, const StateSink& sink, std::uint16_t version = kStateVersion);

// Fills a core with a saved state, so that it continues as the saved core would. It has no connections, and
// all workers count as heard at `now`. It keeps the limits of its own options, whose server number has to be
// that of the saved core.
class StateLoader {
 public:
  // `empty` must have no jobs. It has none again if the loader is destroyed before complete() is true. The
  // current engine has to be a naive one, as in all calls of a core.
  explicit StateLoader(ServerCore& empty, Clock::time_point now = Clock::now());
  ~StateLoader();
  StateLoader(const StateLoader&) = delete;
  StateLoader& operator=(const StateLoader&) = delete;

  // Loads the next message. Throws OutOfMemory, and MalformedMessage for a message that save_state() would
  // not write here; then the loader is of no more use. Allocates no more than a small multiple of the bytes
  // that have come.
  void add(std::span<const std::byte> head, std::span<const std::byte> payload);
  bool complete() const { return stage_ == Stage::complete; }

 private:
  enum class Stage : std::uint8_t { begin, jobs, complete, failed };
  using Bytes = std::span<const std::byte>;
  void take(const StateBegin& begin, Bytes payload);
  void take(const StateJob& job, Bytes payload);
  void take(const StateWorker& worker, Bytes payload);
  void take(const StateCollective& collective, Bytes payload);
  void take(const StateKey& key, Bytes payload);
  void take(const StateArray& array, Bytes payload);
  void take(const StatePiece& piece, Bytes payload);
  void take(const StateEnd& end, Bytes payload);
  void fill(Bytes piece);
  void finish_array();
  void finish_push(NDArray value);
  void finish_key();
  JobState& whole_job();

  ServerCore& core_;
  const Clock::time_point now_;
  Stage stage_ = Stage::begin;
  std::uint64_t messages_ = 0;
  StateBegin begin_;
  JobState* job_ = nullptr;
  std::uint32_t workers_ = 0;       // number of workers of job_ that have been loaded
  std::optional<StoredKey> key_{};  // key whose arrays are being loaded
  std::uint32_t number_ = 0;        // number of key_
  bool in_array_ = false;           // whether pieces of array_ are still missing
  StateArray array_;
  NDArray memory_;  // bytes of array_ that have come; grows with each piece
  std::uint64_t filled_ = 0;
  std::map<std::string, NDArray> optimizer_;  // arrays of the optimizer's state of key_
};

}  // namespace heddle::kv_detail
