#include "server/job/job_memory.h"

#include <algorithm>
#include <utility>

#include "server/job/workers.h"

namespace heddle::kv_detail {
namespace {

constexpr std::uint64_t kLeastOverhead = 1 << 20;  // bytes of overhead that are allowed with any limit

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

bool JobMemory::make_room(std::uint64_t bytes, Workers& workers, std::string& why) {
  if (has_room(bytes, why)) return true;
  for (JobWorker& one : workers) BufferChange(*this, one)->sent.clear();
  why.clear();
  return has_room(bytes, why);
}

void JobMemory::use(std::uint64_t now, std::uint64_t before) {
  used_ += now - before;
  server_used_ += now - before;
}

bool JobMemory::has_room_for_overhead(std::uint64_t bytes, std::string& why) const {
  why = no_room_for_overhead(bytes, limits_, counters_.overhead, overhead_);
  return why.empty();
}

void JobMemory::use_overhead(std::uint64_t bytes) {
  overhead_ += bytes;
  counters_.overhead += bytes;
}

void JobMemory::recount(JobKey& key) {
  const KeyMemory now = key->memory(), before = std::exchange(key.counted, now);
  use(now.total(), before.total());
  keys_.value += now.value - before.value;
  keys_.state += now.state - before.state;
  keys_.waiting += now.waiting - before.waiting;
}

BufferChange::~BufferChange() {
  const std::uint64_t received = counted_.buffers_.received_bytes(), sent = counted_.buffers_.sent.bytes();
  memory_.use(received + sent, counted_.received_ + counted_.sent_);
  memory_.buffers_ += received - counted_.received_;
  counted_.received_ = received;
  counted_.sent_ = sent;
}

void JobMemory::add_to(ServerStats& stats) const {
  stats.value_bytes += keys_.value;
  stats.state_bytes += keys_.state;
  stats.waiting_bytes += keys_.waiting + buffers_;
}

}  // namespace heddle::kv_detail
