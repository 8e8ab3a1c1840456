// What one worker can take from a job, and what is refused.
#include <algorithm>

#include "server/job.h"

namespace heddle::kv_detail {
namespace {

constexpr std::uint64_t kLeastOverhead = 1 << 20;  // bytes that no limit refuses
constexpr std::size_t kMostWaiting = 1 << 10;  // requests of one worker for one key; no program needs so many

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

std::uint64_t Job::overhead(std::uint32_t workers) { return sizeof(Job) + workers * sizeof(Worker); }

bool Job::has_room(std::uint64_t bytes, std::string& why) const {
  if (changes_.following) return true;
  const auto check = [&](const char* of, std::uint64_t used, std::uint64_t limit) {
    if (limit == 0 || (used <= limit && bytes <= limit - used)) return true;
    why = std::to_string(bytes) + " bytes more would exceed the memory limit of the " + of + ": " +
          std::to_string(used) + " of " + std::to_string(limit) + " bytes are in use";
    return false;
  };
  return check("server", server_used_, limits_.server) && check("job", used_, limits_.job);
}

void Job::use(std::int64_t bytes) {
  used_ += static_cast<std::uint64_t>(bytes);
  server_used_ += static_cast<std::uint64_t>(bytes);
}

void Job::count_overhead_of(const StoredKey& key) {
  const std::uint64_t bytes = StoredKey::overhead(key.name().size(), workers_.size());
  overhead_ += bytes;
  counters_.overhead += bytes;
}

bool Job::has_room_for_key(const Request& request, std::string& why) const {
  if (numbers_.contains(request.text)) return true;
  why = no_room_for_overhead(StoredKey::overhead(request.text.size(), workers_.size()), limits_,
                             counters_.overhead, overhead_);
  return why.empty();
}

// True: the request was refused at its first piece, and this is its last.
bool Job::fail_refused(std::uint32_t rank, const Request& request, const StoredKey& key,
                       std::size_t payload) {
  if (!is_last(request, payload)) return false;
  const auto found = refused_.find({rank, &key});
  if (found == refused_.end()) return false;
  fail(rank, request, found->second);
  refused_.erase(found);
  return true;
}

void Job::clear_errors() {
  for (const auto& key : keys_) {
    const std::uint64_t before = key->waiting_bytes();
    key->clear_failure(terms_.consistency);
    use(static_cast<std::int64_t>(key->waiting_bytes()) - static_cast<std::int64_t>(before));
    answer_waiting(*key);
  }
}

// Answers now, or later.
void Job::wait(StoredKey& key, WaitingRequest waiting) {
  if (answer(key, waiting)) return;
  check_waiting(key, waiting.rank);
  key.waiting().push_back(std::move(waiting));
}

void Job::check_waiting(StoredKey& key, std::uint32_t rank) const {
  const std::vector<WaitingRequest>& all = key.waiting();
  const auto is_mine = [rank](const WaitingRequest& one) { return one.rank == rank; };
  if (all.size() >= kMostWaiting &&
      std::count_if(all.begin(), all.end(), is_mine) >= static_cast<std::ptrdiff_t>(kMostWaiting))
    throw MalformedMessage("key " + key.name() + ": " + std::to_string(kMostWaiting) +
                           " requests of the worker wait already");
}

}  // namespace heddle::kv_detail
