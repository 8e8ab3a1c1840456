// A job on a server. It passes the requests of its workers on to Admission, KeyUpdates, WaitingRequests and
// Collectives.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "server/job/admission.h"
#include "server/job/collectives.h"
#include "server/job/job_state.h"
#include "server/job/key_updates.h"
#include "server/job/stalls.h"
#include "server/job/waiting_requests.h"

namespace heddle::kv_detail {

class Job {
 public:
  Job(const Hello& hello, std::uint64_t incarnation, const JobHost& host, Clock::time_point now);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  static std::uint64_t overhead(std::uint32_t workers);  // bytes that a job without keys takes

  const std::string& name() const { return state_.log.job(); }
  const JobState& state() const { return state_; }
  const Workers& workers() const { return state_.workers; }
  // Why a worker with this hello cannot join; empty: it can.
  std::string refusal(const Hello& hello) const;
  // Lets the worker join. Returns the peer of its former connection, which is to be closed; 0: none.
  Peer join(const Hello& hello, Peer peer, Clock::time_point now);
  void disconnected(std::uint32_t rank, Clock::time_point now);
  // Drops workers that were silent for worker_timeout. Workers that have never come are dropped only if no
  // worker is connected. Returns peers to close.
  std::vector<Peer> drop_silent(Clock::time_point now, std::chrono::milliseconds worker_timeout);
  void paused(Clock::duration time);
  Stalls& stalls() { return stalls_; }

  // Memory for the payload of a request; empty: the payload is discarded. memory_for() and received() throw
  // MalformedMessage.
  std::span<std::byte> memory_for(std::uint32_t rank, const Request& request, std::size_t bytes) {
    return admission_.memory_for(rank, request, bytes);
  }
  void received(std::uint32_t rank, const Request& request, std::size_t payload, Clock::time_point now);
  // Called when the state was loaded from a snapshot of the time `when`.
  void restored(const std::string& when);
  void add_to(ServerStats& stats, Clock::time_point now) const;
  // On a backup: makes a change that its primary has made. Throws MalformedMessage.
  void apply(const Record& record, std::size_t payload, Clock::time_point now);
  // Called when a backup has become the primary: no worker is connected, and all workers count as heard at
  // `now`.
  void promoted(Clock::time_point now);

 private:
  friend class StateLoader;  // defined in state_stream.h
  void handle(std::uint32_t rank, const Request& request, std::size_t payload);
  void pull(std::uint32_t rank, const Request& request, std::size_t payload);
  void pull_many(std::uint32_t rank, const Request& request);
  void drop(std::uint32_t rank);
  void workers_changed(Recorded recorded);

  JobState state_;
  WaitingRequests waiting_;
  Admission admission_;
  KeyUpdates updates_;
  Collectives collectives_;
  Stalls stalls_;
};

}  // namespace heddle::kv_detail
