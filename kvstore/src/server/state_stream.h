// The whole state of a server's core as messages: for a snapshot on disk, and for a new backup.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/server_core.h"
#include "server/state_saver.h"
#include "wire/state_records.h"

namespace heddle::kv_detail {

// All messages of a StateSaver at once. What is not in the state: connections, requests that wait for an answer and pieces of
// values, all of which workers send again.
void save_state(const ServerCore& core, const StateSink& sink, std::uint16_t version = kStateVersion);

// Makes a core that answers as the saved one would from then on. Nobody is connected to it, and it has heard of all
// workers at `now`. The core's options hold: limits, and the server's number, which has to be that of the stream.
class StateLoader {
 public:
  // The core has no jobs, and has none again after a loader that was given up before complete(). An engine of the kind
  // `naive` is current, as for all that a core does.
  explicit StateLoader(ServerCore& empty, Clock::time_point now = Clock::now());
  ~StateLoader();
  StateLoader(const StateLoader&) = delete;
  StateLoader& operator=(const StateLoader&) = delete;

  // The next message. Throws MalformedMessage for one that save_state would not have written now, and OutOfMemory; the
  // loader is of no more use then. Allocates no more than a small multiple of what has come.
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
  Job& whole_job();

  ServerCore& core_;
  const Clock::time_point now_;
  Stage stage_ = Stage::begin;
  std::uint64_t messages_ = 0;
  StateBegin begin_;
  Job* job_ = nullptr;
  std::size_t workers_ = 0;   // of the job, that have come
  StoredKey* key_ = nullptr;  // whose arrays come
  bool in_array_ = false;     // of which pieces are missing
  StateArray array_;
  NDArray memory_;  // of the array; it grows with the pieces
  std::uint64_t filled_ = 0;
  std::map<std::string, NDArray> optimizer_;  // of the key
};

}  // namespace heddle::kv_detail
