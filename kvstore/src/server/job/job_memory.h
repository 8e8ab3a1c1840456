// Counts the memory of a job, and compares it with the limits.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/changes.h"
#include "server/job/job_worker.h"
#include "server/job/outgoing.h"
#include "server/job/stored_key.h"

namespace heddle::kv_detail {

class JobMemory {
 public:
  JobMemory(MemoryLimits limits, std::uint64_t& of_server, Counters& counters, const Changes& changes)
      : limits_(limits), server_used_(of_server), counters_(counters), changes_(changes) {}
  ~JobMemory();
  JobMemory(const JobMemory&) = delete;
  JobMemory& operator=(const JobMemory&) = delete;

  // False: `why` says which limit is reached. A backup has room for all that its primary had room for.
  bool has_room(std::uint64_t bytes, std::string& why);
  // has_room() for the overhead of jobs, workers and keys.
  bool has_room_for_overhead(std::uint64_t bytes, std::string& why) const;
  void use(std::int64_t bytes);
  void use_overhead(std::uint64_t bytes);
  // To be called after each change of a key's memory, or of a worker's buffers.
  void recount(StoredKey& key);
  void recount(JobWorker& worker);
  void add_to(ServerStats& stats) const;

 private:
  const MemoryLimits limits_;
  std::uint64_t& server_used_;
  Counters& counters_;
  const Changes& changes_;
  std::uint64_t used_ = 0, overhead_ = 0, buffers_ = 0;
  KeyMemory keys_{};  // sum over all keys
};

}  // namespace heddle::kv_detail
