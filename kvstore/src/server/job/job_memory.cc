#include "server/job/job_memory.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr std::uint64_t kLeastOverhead = 1 << 20;  // bytes of overhead that no limit refuses

}  // namespace

MemoryLimits limits_of(const std::string& job, const ServerOptions& options) {
  const auto own = options.job_memory_limits.find(job);
  const bool has_own = own != options.job_memory_limits.end();
  return {options.memory_limit, has_own ? own->second : options.job_memory_limit};
}

std::string no_room_for_overhead(std::uint64_t more, MemoryLimits limits, std::uint64_t of_server,
                                 std::uint64_t of_job) {
  const auto is_full = [more](std::uint64_t used, std::uint64_t limit) {
    return limit != 0 && used + more > std::max(limit, kLeastOverhead);
  };
  const bool server = is_full(of_server, limits.server);
  if (!server && !is_full(of_job, limits.job)) return {};
  return "jobs, workers and keys themselves would take " +
         std::to_string((server ? of_server : of_job) + more) + " bytes, with a memory limit of the " +
         (server ? "server of " : "job of ") + std::to_string(server ? limits.server : limits.job);
}

JobMemory::~JobMemory() {
  server_used_ -= used_;
  counters_.overhead -= overhead_;
}

bool JobMemory::has_room(std::uint64_t bytes, std::string& why) {
  if (changes_.following) return true;
  HeldMemory& held = counters_.held;
  const bool is_full = limits_.server != 0 && server_used_ + held.bytes() + bytes > limits_.server;
  if (is_full && held.bytes() > 0) held.forget_released();
  const auto check = [&](const char* of, std::uint64_t used, std::uint64_t limit) {
    if (limit == 0 || (used <= limit && bytes <= limit - used)) return true;
    why = std::to_string(bytes) + " bytes more would exceed the memory limit of the " + of + ": " +
          std::to_string(used) + " of " + std::to_string(limit) + " bytes are in use";
    return false;
  };
  return check("server", server_used_ + held.bytes(), limits_.server) && check("job", used_, limits_.job);
}

void JobMemory::use(std::int64_t bytes) {
  used_ += static_cast<std::uint64_t>(bytes);
  server_used_ += static_cast<std::uint64_t>(bytes);
}

bool JobMemory::has_room_for_overhead(std::uint64_t bytes, std::string& why) const {
  why = no_room_for_overhead(bytes, limits_, counters_.overhead, overhead_);
  return why.empty();
}

void JobMemory::use_overhead(std::uint64_t bytes) {
  overhead_ += bytes;
  counters_.overhead += bytes;
}

void JobMemory::recount(StoredKey& key) {
  const KeyMemory now = key.memory(), before = std::exchange(key.counted, now);
  use(static_cast<std::int64_t>(now.total()) - static_cast<std::int64_t>(before.total()));
  keys_.value += now.value - before.value;
  keys_.state += now.state - before.state;
  keys_.waiting += now.waiting - before.waiting;
}

void JobMemory::recount(JobWorker& worker) {
  const std::uint64_t now = worker.state.size() + worker.row_lists.bytes() + worker.waiting_bytes;
  const std::uint64_t before = std::exchange(worker.counted, now);
  use(static_cast<std::int64_t>(now) - static_cast<std::int64_t>(before));
  buffers_ += now - before;
}

void JobMemory::add_to(ServerStats& stats) const {
  stats.value_bytes += keys_.value;
  stats.state_bytes += keys_.state;
  stats.waiting_bytes += keys_.waiting + buffers_;
}

}  // namespace heddle::kv_detail
