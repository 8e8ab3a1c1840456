// Counts the memory of a job, and compares it with the limits.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/changes.h"
#include "server/job/job_key.h"
#include "server/job/job_worker.h"
#include "server/job/outgoing.h"

namespace heddle::kv_detail {

class Workers;

class JobMemory {
 public:
  JobMemory(MemoryLimits limits, std::uint64_t& of_server, Counters& counters, const Changes& changes)
      : limits_(limits), server_used_(of_server), counters_(counters), changes_(changes) {}
  ~JobMemory();
  JobMemory(const JobMemory&) = delete;
  JobMemory& operator=(const JobMemory&) = delete;

  // Whether `bytes` more are within the limits. False: `why` says which limit is reached. Always true on a
  // backup, which must accept all that its primary has accepted.
  bool has_room(std::uint64_t bytes, std::string& why);
  // Like has_room(), but if there is no room, first frees the copies of values that were sent to workers,
  // which can be made again.
  bool make_room(std::uint64_t bytes, Workers& workers, std::string& why);
  // Like has_room(), for bytes that count as overhead of jobs, workers and keys.
  bool has_room_for_overhead(std::uint64_t bytes, std::string& why) const;
  void use_overhead(std::uint64_t bytes);
  void add_to(ServerStats& stats) const;

 private:
  friend class KeyChange;
  friend class KeyTable;
  friend class BufferChange;
  void recount(JobKey& key);
  void use(std::uint64_t now, std::uint64_t before);

  const MemoryLimits limits_;
  std::uint64_t& server_used_;
  Counters& counters_;
  const Changes& changes_;
  std::uint64_t used_ = 0, overhead_ = 0, buffers_ = 0;
  KeyMemory keys_{};  // sum of the memory of all keys
};

// Gives access to a worker's buffers to change them. The destructor counts the buffers' memory anew.
class BufferChange {
 public:
  BufferChange(JobMemory& memory, JobWorker& worker) : memory_(memory), counted_(worker.buffers) {}
  ~BufferChange();
  BufferChange(const BufferChange&) = delete;
  BufferChange& operator=(const BufferChange&) = delete;
  WorkerBuffers* operator->() { return &counted_.buffers_; }

 private:
  JobMemory& memory_;
  CountedBuffers& counted_;
};

}  // namespace heddle::kv_detail
