// Which processes the scheduler lets in, and under which numbers.
#include <algorithm>
#include <limits>

#include "membership/scheduler_core.h"
#include "wire/messages.h"

namespace heddle::kv_detail {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kUntaken = kAnyNumber;  // result of number_for() and rank_for(): no number is free

std::uint32_t milliseconds_of(milliseconds time) { return static_cast<std::uint32_t>(time.count()); }

}  // namespace

// Why the process's key does not permit this registration; empty: it does.
std::string SchedulerCore::lacking(const Registration& registration, const KeyRoles& roles) {
  const bool is_server = registration.role == Role::server;
  if (is_server ? !roles.server : !roles.worker)
    return std::string("the key of this process lacks the role ") + (is_server ? "server" : "worker") +
           " in the scheduler's comm.allowed";
  if (is_server || roles.may_join(registration.job)) return {};
  return "the key of this process may not join job '" + registration.job +
         "': see jobs: in the scheduler's comm.allowed";
}

Refused SchedulerCore::refusal(const Registration& registration, const KeyRoles& roles, Time now) const {
  if (const Versions theirs{registration.oldest, registration.newest}; common_version(theirs, versions_) == 0)
    return {0, no_common_version("the process", theirs, "this scheduler", versions_)};
  if (const std::string why = lacking(registration, roles); !why.empty()) return {0, why};
  if (over_) return {0, "the job is over: all of its workers have left"};
  // This scheduler never accepts the process. The process may still try again and again, since a scheduler
  // with the right state may be started.
  if (registration.version > 0 && registration.cluster != state_.cluster)
    return {
        std::numeric_limits<std::uint32_t>::max(),
        "the scheduler does not know the servers that this process belongs to: it was started without their "
        "saved state. Start it with that state, a file or a prefix in etcd; or end all servers, and start "
        "the job from its last checkpoint"};
  if (registration.version > views().version)
    return {
        0,
        "the scheduler's saved state is older than what this process was told (version " +
            std::to_string(views().version) + ", not " + std::to_string(registration.version) +
            "). Bring back the latest one; or end all servers, and start the job from its last checkpoint"};
  if (registration.servers != 0 && registration.servers != state_.servers)
    return {0, "the process expects " + std::to_string(registration.servers) +
                   " servers, the scheduler is for " + std::to_string(state_.servers)};
  return registration.role == Role::server ? refusal_of_server(registration)
                                           : refusal_of_worker(registration, now);
}

// The refusal if process `by` has the number already. Since `by` may be dead although its connection is open,
// a retry may succeed for server_timeout, which begins anew with each start of the scheduler.
Refused SchedulerCore::taken(const std::string& who, const Process& by) const {
  std::string text = who + " is there already: " + (by.process.empty() ? "a process" : by.process);
  text += by.address.empty() ? " (another store or job needs another HEDDLE_JOB)" : " at " + by.address;
  if (by.peer == 0) text += "; it is not connected, but not given up yet";
  return {milliseconds_of(2 * options_.server_timeout + milliseconds(1000)), text};
}

// Copies of each shard, as the registering server's options or, if these leave it open, earlier registrations
// say. Two copies need two servers.
std::uint32_t SchedulerCore::replicas_of(const Registration& registration) const {
  if (registration.replicas > 0) return registration.replicas;
  return others_are_there(registration) ? state_.replicas : std::min(state_.servers, kMostCopies);
}

bool SchedulerCore::others_are_there(const Registration& registration) const {
  return rules_.has_begun() || std::any_of(servers_.begin(), servers_.end(), [&](const Process& one) {
           return one.incarnation != 0 && !one.gone && one.incarnation != registration.incarnation;
         });
}

Refused SchedulerCore::refusal_of_server(const Registration& registration) const {
  if (registration.replicas > kMostCopies)
    return {0,
            "the server wants " + std::to_string(registration.replicas) + " replicas, there may be 1 or 2"};
  if (registration.address.empty()) return {0, "the server does not say at which address it serves"};
  if (others_are_there(registration) && replicas_of(registration) != state_.replicas)
    return {0, "the server's setting replicas is " + std::to_string(registration.replicas) +
                   ", that of the others " + std::to_string(state_.replicas)};
  if (registration.number != kAnyNumber && registration.number >= state_.servers)
    return {0, "there is no number " + std::to_string(registration.number) + " among " +
                   std::to_string(state_.servers) + " servers; numbers begin at 0"};
  const std::uint32_t number = number_for(registration);
  if (number == kUntaken)
    return {taken("", {}).retry, "all " + std::to_string(state_.servers) + " servers are there already"};
  for (std::uint32_t other = 0; other < state_.servers; ++other) {
    if (other != number && servers_[other].incarnation == registration.incarnation)
      return {0,
              "this process is server " + std::to_string(other) + " already, not " + std::to_string(number)};
  }
  const Process& now = servers_[number];
  if (now.incarnation == 0 || now.gone || now.incarnation == registration.incarnation) return {};
  return taken("server " + std::to_string(number), now);
}

// The number for a registering server; kUntaken: all numbers are taken.
std::uint32_t SchedulerCore::number_for(const Registration& registration) const {
  if (registration.number != kAnyNumber) return registration.number;
  std::uint32_t unused = kUntaken, gone = kUntaken;
  for (std::uint32_t number = state_.servers; number-- > 0;) {
    const Process& one = servers_[number];
    if (one.incarnation == registration.incarnation) return number;
    if (one.incarnation == 0) unused = number;
    if (one.gone) gone = number;
  }
  return unused != kUntaken ? unused : gone;
}

std::uint32_t SchedulerCore::workers_of(const Registration& registration) const {
  if (options_.workers > 0) return static_cast<std::uint32_t>(options_.workers);
  const auto job = jobs_.find(registration.job);
  if (job != jobs_.end()) return job->second.workers;
  return registration.workers > 0 ? registration.workers : 1;
}

std::uint32_t SchedulerCore::rank_for(const Registration& registration) const {
  if (registration.number != kAnyNumber) return registration.number;
  const auto job = jobs_.find(registration.job);
  if (job == jobs_.end()) return 0;
  std::uint32_t unused = kUntaken;
  for (const auto& [rank, process] : job->second.ranks) {
    if (process.incarnation == registration.incarnation) return rank;
  }
  for (std::uint32_t rank = 0; rank < job->second.workers && unused == kUntaken; ++rank) {
    const auto found = job->second.ranks.find(rank);
    if (found == job->second.ranks.end() || found->second.gone) unused = rank;
  }
  return unused;
}

Refused SchedulerCore::refusal_of_worker(const Registration& registration, Time now) const {
  const std::uint32_t workers = workers_of(registration);
  const std::string of_job = " of job '" + registration.job + "'";
  if (workers > kMostWorkers)
    return {0, "the worker takes part in a job of " + std::to_string(workers) + " workers; there may be " +
                   std::to_string(kMostWorkers)};
  if (registration.workers != 0 && registration.workers != workers)
    return {0, "the worker takes part in a job of " + std::to_string(registration.workers) +
                   " workers; the " + (options_.workers > 0 ? "scheduler" : "other workers") + of_job +
                   " say " + std::to_string(workers)};
  // Ranks are not saved. A restarted scheduler learns them from the workers that have a rank. Until
  // ranks_known_ it gives out no new ranks.
  if (registration.number == kAnyNumber && now < ranks_known_)
    return {taken("", {}).retry,
            "the scheduler was started anew and waits for the workers that have a rank already"};
  const std::uint32_t rank = rank_for(registration);
  if (rank == kUntaken)
    return {taken("", {}).retry, "all " + std::to_string(workers) + " workers" + of_job + " are there"};
  if (rank >= workers)
    return {0, "there is no rank " + std::to_string(rank) + " among " + std::to_string(workers) + " workers" +
                   of_job};
  const auto job = jobs_.find(registration.job);
  if (job == jobs_.end()) return {};
  const auto found = job->second.ranks.find(rank);
  const bool free = found == job->second.ranks.end() || found->second.gone ||
                    found->second.incarnation == registration.incarnation;
  return free ? Refused{} : taken("worker " + std::to_string(rank) + of_job, found->second);
}

}  // namespace heddle::kv_detail
