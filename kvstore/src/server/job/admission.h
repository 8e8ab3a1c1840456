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

// True if the init is for a value whose size on all servers differs from that of the key.
inline bool is_other_whole(const Request& init, const StoredKey& key) {
  return init.whole.bytes != 0 && key.whole.bytes != 0 && init.whole.bytes != key.whole.bytes;
}

class Admission {
 public:
  Admission(JobState& job, WaitingRequests& waiting) : job_(job), waiting_(waiting) {}

  // Memory to receive a payload in; empty: the payload is discarded. Throws MalformedMessage.
  std::span<std::byte> memory_for(std::uint32_t rank, const Request& request, std::size_t bytes);
  // The key of an init. Null: the init is refused. The worker is told at the last piece of its value.
  JobKey* key_of_init(std::uint32_t rank, const Request& init, std::size_t payload);
  // Begins to receive a value. False: the value is refused, and the worker is told, or the server has it
  // already.
  bool begin(std::uint32_t rank, const Request& request, JobKey& key, std::size_t payload);
  // Called when a piece of a value has been received. Returns the value if it is complete; null: pieces are
  // missing, or the value was refused.
  Incoming* arrived(std::uint32_t rank, const Request& request, JobKey& key, std::size_t payload);
  // Fails the request if `payload` is the last piece of a value that was refused at its first piece. Returns
  // whether that is so.
  bool fail_refused(std::uint32_t rank, const Request& request, const JobKey& key, std::size_t payload);
  // The row numbers of a pull of rows. Null: more pieces of the list follow, or the pull is refused, and the
  // worker has been told.
  RowList rows_of_pull(std::uint32_t rank, const Request& request, std::size_t payload);
  // Makes room for the optimizer state that a received push will add: `of_rows` bytes if it is a push of
  // rows, `of_whole` bytes beyond what the key has if it is a push of the whole value. False: there is no
  // room, and the push is refused.
  bool make_room_for_state(std::uint32_t rank, const Request& push, JobKey& key, const Incoming& value,
                           std::uint64_t& of_rows, std::uint64_t& of_whole);
  // Why the key cannot accept this init or push; empty: it can.
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
  // Errors of refused values whose last piece has not come, by the worker's rank and the key.
  std::map<std::pair<std::uint32_t, const JobKey*>, std::string> refused_{};
};

}  // namespace heddle::kv_detail
