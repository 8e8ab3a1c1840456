// Decides which payloads a job receives, keeps memory for them, and tells workers what is refused.
//
// A worker may send from its memory until a request is answered. So a value of which only the first piece has
// come is refused at its last piece.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "server/job/job_state.h"
#include "server/job/waiting_requests.h"

namespace heddle::kv_detail {

// True if an init's part is of a value of another size.
inline bool is_other_whole(const Request& init, const StoredKey& key) {
  return init.whole.bytes != 0 && key.whole.bytes != 0 && init.whole.bytes != key.whole.bytes;
}

class Admission {
 public:
  Admission(JobState& job, WaitingRequests& waiting) : job_(job), waiting_(waiting) {}

  // Memory for a payload; empty: it is discarded. Throws MalformedMessage.
  std::span<std::byte> memory_for(std::uint32_t rank, const Request& request, std::size_t bytes);
  // The key of an init, the last piece of which may have come. Null: it is refused.
  JobKey* key_of_init(std::uint32_t rank, const Request& init, std::size_t payload);
  // Begins to receive a value. False: it is refused, and the worker is told, or it was received before.
  bool begin(std::uint32_t rank, const Request& request, JobKey& key, std::size_t payload);
  // A piece of a value has been received. The complete value; null: pieces are missing, or it was refused.
  Incoming* arrived(std::uint32_t rank, const Request& request, JobKey& key, std::size_t payload);
  // True: the value was refused at its first piece, and this is its last.
  bool fail_refused(std::uint32_t rank, const Request& request, const JobKey& key, std::size_t payload);
  // The rows of a pull. Null: more pieces follow, or the pull is refused, and the worker has been told.
  RowList rows_of_pull(std::uint32_t rank, const Request& request, std::size_t payload);
  // Makes room for the state that a complete push will add: for its rows, and for a whole value beyond what
  // the key has. False: there is none, and the push is refused.
  bool make_room_for_state(std::uint32_t rank, const Request& push, JobKey& key, const Incoming& value,
                           std::uint64_t& of_rows, std::uint64_t& of_whole);
  // Why the request cannot be accepted; empty: it can.
  std::string problem_with(std::uint32_t rank, const Request& request, const StoredKey& key) const;
  void forget_refused(std::uint32_t rank);

 private:
  std::span<std::byte> memory_for_value(std::uint32_t rank, const Request& request, std::size_t bytes);
  std::span<std::byte> memory_for_rows(std::uint32_t rank, const Request& request, std::size_t bytes);
  std::span<std::byte> memory_for_state(std::uint32_t rank, const Request& request, std::size_t bytes);
  void begin_state(std::uint32_t rank, const Request& request, const StoredKey& key);
  bool allocate(std::uint32_t rank, const Request& request, JobKey& key, std::uint64_t state);
  std::uint64_t state_needed(const Request& request, const StoredKey& key);
  void refuse(std::uint32_t rank, const Request& request, JobKey& key, const std::string& room, bool last);
  void tell(std::uint32_t rank, const Request& request, JobKey& key, const std::string& why, bool last);

  JobState& job_;
  WaitingRequests& waiting_;
  // Errors of refused values whose last piece has not come.
  std::map<std::pair<std::uint32_t, const JobKey*>, std::string> refused_{};
};

}  // namespace heddle::kv_detail
