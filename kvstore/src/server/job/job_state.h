// The state of a job, which the parts of Job share.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/job_log.h"
#include "server/job/job_memory.h"
#include "server/job/key_table.h"
#include "server/job/replies.h"
#include "server/job/restored.h"
#include "server/job/workers.h"
#include "wire/job_settings.h"

namespace heddle::kv_detail {

// What a job shares with the other jobs of its server.
struct JobHost {
  MemoryLimits limits;
  std::uint64_t& used;  // bytes that the jobs of the server use together; each job adds and subtracts its own
  Counters& counters;
  std::vector<Outgoing>& out;
  Changes& changes;
};

// How pushes change values. All workers have chosen it by their last set_optimizer.
struct JobOptimizer {
  UpdateRule rule{};
  std::uint64_t weights = 0;  // Request::keys_digest of the set_optimizer that has set `rule`; 0: not known
  StateSizes sizes{};
  const StateSize& size(DType dtype) { return sizes.of(rule, dtype); }
};

struct JobState {
  JobState(const Hello& hello, std::uint64_t number, const JobHost& host, Clock::time_point now)
      : consistency_text(hello.consistency),
        settings(parse_job_settings(hello.consistency)),
        incarnation(number),
        servers(hello.servers),
        counters(host.counters),
        log(hello.job, host.changes),
        memory(host.limits, host.used, host.counters, host.changes),
        workers(hello.job, hello.workers, now),
        keys(settings, hello.workers, memory, log),
        restored(workers, keys),
        replies(workers, counts, host.out) {}
  const Consistency& consistency() const { return settings.consistency; }
  bool in_rounds() const { return settings.consistency.mode == Consistency::Mode::sync; }

  // JobMemory::make_room(). False: there is no room, and `why` says which limit is reached.
  bool make_room(std::uint64_t bytes, std::string& why) { return memory.make_room(bytes, workers, why); }

  const std::string consistency_text;
  const JobSettings settings;
  const std::uint64_t incarnation;  // random number that a former job of the same name does not have
  const std::uint32_t servers;
  Counters& counters;
  JobLog log;
  JobMemory memory;
  Workers workers;
  KeyTable keys;
  JobOptimizer optimizer{};
  JobCounts counts{};
  Restored restored;
  Replies replies;
};

}  // namespace heddle::kv_detail
