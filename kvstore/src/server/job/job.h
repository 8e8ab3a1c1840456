// A job on a server: its workers, its keys, and the requests of its workers.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/server.h>

#include "server/job/job_memory.h"
#include "wire/job_settings.h"

namespace heddle::kv_detail {

class Job {
 public:
  using Worker = JobWorker;
  using Rank = std::uint32_t;

  // `used`: the bytes of all jobs of the server, which this job keeps up to date.
  // `incarnation` tells this job's state from that of a former job of the same name.
  Job(const Hello& hello, std::uint64_t incarnation, MemoryLimits limits, std::uint64_t& used,
      Counters& counters, std::vector<Outgoing>& out, Changes& changes, Clock::time_point now);
  Job(const Job&) = delete;
  static std::uint64_t overhead(std::uint32_t workers);  // bytes of a job without keys
  const std::string& name() const { return name_; }
  std::uint64_t incarnation() const { return incarnation_; }
  const std::vector<Worker>& workers() const { return workers_; }
  // Why a worker with this hello cannot join; empty: it can.
  std::string refusal(const Hello& hello) const;
  bool is_connected(const Hello& hello) const;
  bool has_had(const Hello& hello) const;  // true if this process has joined the job before
  // Lets the worker join. Returns its former peer, which is to be closed; 0: none.
  Peer join(const Hello& hello, Peer peer, Clock::time_point now);
  void disconnected(std::uint32_t rank, Clock::time_point now);
  // Drops workers silent for worker_timeout; absent ones if nobody is connected. Returns peers to close.
  std::vector<Peer> drop_silent(Clock::time_point now, std::chrono::milliseconds worker_timeout);
  void paused(Clock::duration time);
  std::string take_overdue(Clock::time_point now);  // ranks that have never come; after 5 s, then each 15 s
  std::string take_stall(Clock::time_point now);    // which workers wait for which: job_waiting.cc
  bool is_over() const;                             // all workers have left or were dropped

  // Memory for the payload of a request; empty: the payload is discarded. Both throw MalformedMessage.
  std::span<std::byte> memory_for(std::uint32_t rank, const Request& request, std::size_t bytes);
  void received(std::uint32_t rank, const Request& request, std::size_t payload, Clock::time_point now);
  void restored(const std::string& when);  // the state is that of a snapshot, see restored_job.cc
  void add_to(ServerStats& stats, Clock::time_point now) const;
  // On a backup: makes a change that its primary has made. Throws MalformedMessage.
  void apply(const Record& record, std::size_t payload, Clock::time_point now);
  void promoted(Clock::time_point now);  // on a new primary: no worker is connected, and all count as heard

 private:
  friend class StateSaver;  // defined in state_saver.h
  friend class StateLoader;
  friend class JobWaits;  // defined in job_waits.h
  void init(std::uint32_t rank, const Request& request, std::size_t payload);
  void push(std::uint32_t rank, const Request& request, std::size_t payload);
  void pull(std::uint32_t rank, const Request& request, std::size_t payload);
  std::span<std::byte> memory_for_rows(std::uint32_t rank, const Request& request, std::size_t bytes);
  RowList rows_of_pull(std::uint32_t rank, const Request& request, std::size_t payload);
  void push_many(std::uint32_t rank, const Request& request);  // bundle.cc has this and others
  void push_one(std::uint32_t rank, const Request& request, std::span<const std::byte> value);
  bool replace_at_once(Rank rank, const Request& request, std::span<const std::byte> value, StoredKey& key);
  void count_push(std::uint32_t rank, const Request& request);
  void pull_many(std::uint32_t rank, Request request);
  bool answer_bundle(const StoredKey* key, const WaitingRequest& waiting);
  bool is_bundled(std::uint32_t rank, const Request& request) const;
  void set_state(std::uint32_t rank, const Request& request, std::size_t payload);
  void collective(std::uint32_t rank, const Request& request);
  void complete_collective();
  std::string perform_collective();
  void leave(std::uint32_t rank);
  void drop(std::uint32_t rank);
  void changed(std::uint32_t rank, const Request& request, const Payload& whole = {});
  void changed_value(std::uint32_t rank, const Request& request, const StoredKey& key);
  void fail_key(StoredKey& key, const std::string& why);
  void copy_before_write(const StoredKey& key);  // copies the key for snapshots that are being collected
  void after_change_of_workers();
  void go_on_with_keys();
  void answer_waiting(StoredKey& key);
  std::vector<WaitingRequest> take_waiting(StoredKey& key);
  void add_waiting(StoredKey& key, WaitingRequest waiting);
  void wait(StoredKey& key, WaitingRequest waiting);  // wait() and check_waiting() throw MalformedMessage
  void check_waiting(StoredKey& key, std::uint32_t rank) const;
  bool answer(StoredKey& key, const WaitingRequest& waiting);
  void send_value(const WaitingRequest&, std::uint64_t clock, const Payload&, std::uint32_t number = 0);
  void send_compressed(const WaitingRequest& waiting, const StoredKey& key);
  void forget_sent(Worker& worker);
  void forget_buffers(Worker& worker);
  void forget_requests(std::uint32_t rank);
  void begin_state(std::uint32_t rank, const Request& request, const StoredKey& key);
  void done(std::uint32_t rank, const Request& request);
  void fail(std::uint32_t rank, const Request& request, const std::string& why);
  StoredKey& key_of(const Request& request);
  StoredKey* find_key(std::uint32_t number) const;
  std::string lost(std::uint32_t rank, const Request& request) const;  // restored_job.cc has this and others
  void resume(std::uint32_t rank, const Request& request);
  bool pass(std::uint32_t rank, const Request& request);
  StoredKey& key_for_init(const Request& request);
  bool has_room_for_key(const Request& request, std::string& why) const;
  StoredKey* out_of_order(const Request& request) const;  // job_order.cc has this and the next
  bool fail_out_of_order(std::uint32_t rank, const Request& request, std::size_t payload);
  void drop_incoming(StoredKey& key, std::uint32_t rank);
  void drop_incoming(std::uint32_t rank);
  void forget_incoming(const StoredKey& key, std::uint32_t rank);
  std::string problem_with(std::uint32_t rank, const Request& request, const StoredKey& key) const;
  void fail_waiting(StoredKey& key, const std::string& why);
  bool begin_push(std::uint32_t rank, const Request& request, StoredKey& key, std::size_t payload);
  void refuse_push(Rank rank, const Request& request, StoredKey& key, const std::string& room, bool last);
  void tell_refused(Rank rank, const Request& request, StoredKey& key, const std::string& why, bool last);
  bool fail_refused(std::uint32_t rank, const Request& request, const StoredKey& key, std::size_t payload);
  void clear_errors(std::uint32_t rank);
  bool make_room(std::uint64_t bytes, std::string& why);
  bool has_room_for_answer(const WaitingRequest& waiting, const StoredKey& key, std::uint64_t bytes);
  void list(StoredKey& key);
  std::uint64_t state_needed(const Request& request, const StoredKey& key);
  bool reserve_state(Rank rank, const Request&, StoredKey&, std::uint64_t& rows, std::string& why);
  void reserve_for_waiting(StoredKey& key);

  const std::string name_, consistency_text_;
  const std::uint64_t incarnation_;
  const JobSettings job_settings_;
  const std::uint32_t servers_;
  Counters& counters_;
  std::vector<Outgoing>& out_;
  Changes& changes_;
  JobMemory memory_;
  std::vector<Worker> workers_;
  Overdue overdue_;
  Required required_, pushing_;  // pushing_: required workers without a pending collective
  UpdateRule rule_;
  std::uint64_t weights_ = 0;                     // Request::clock of the last set_optimizer
  std::uint64_t settings_ = 0, collectives_ = 1;  // counts of settings and collectives, see Kind::resume
  StateSizes state_sizes_{};
  std::vector<std::unique_ptr<StoredKey>> keys_;  // by index: the number without its generation
  std::vector<StoredKey*> keys_with_waiters_{};   // all keys with pushes or requests that wait; maybe others
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::uint32_t, StoredKey*> by_init_index_;  // keys by StateKey::place, if they have one
  std::string restored_;  // time of the snapshot that was restored; empty: none
  std::uint8_t generation_ = 0;
  std::map<std::uint32_t, Request> collective_;  // pending barriers or set_optimizers, by rank
  Bundle* bundle_ = nullptr;                     // the push_many that is being handled; null: none
  // Errors of refused values whose last piece has not come: the worker may still send from that memory.
  std::map<std::pair<std::uint32_t, const StoredKey*>, std::string> refused_;
};

}  // namespace heddle::kv_detail
