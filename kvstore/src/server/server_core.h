// What a server does with messages, without threads, clocks and connections: it is given events and the time,
// and returns what to send. So a test can run it in any order and at any speed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/server.h>

#include "server/job/job.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

using namespace net_detail;

// What the owner has to do, in this order.
struct Outbox {
  std::vector<Change> changes;  // the backup has to have these before workers get the replies
  std::vector<std::pair<Peer, std::vector<std::byte>>> greetings;  // welcomes and refusals
  std::vector<Outgoing> replies;
  std::vector<Peer> closed;
  std::vector<std::shared_ptr<Job>> ended;  // keeps memory that closed connections may still write to
  std::vector<ServerEvent> events;
};

class ServerCore {
 public:
  // `used`: the bytes of all cores of the process, which share one limit.
  ServerCore(const ServerOptions& options, std::uint64_t incarnation,
             std::shared_ptr<std::uint64_t> used = std::make_shared<std::uint64_t>(0));

  void connected(Peer peer, const std::string& key);
  // `loss`: the level of the event if the worker has not left.
  void disconnected(Peer peer, const std::string& why, Clock::time_point now,
                    ServerEvent::Level loss = ServerEvent::Level::warning);
  // As in Receiver. Both throw MalformedMessage.
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes);
  // `arrived`: when the message has come, for statistics of requests; the epoch: they have none.
  void received(Peer peer, std::span<const std::byte> head, std::size_t payload, Clock::time_point now,
                Clock::time_point arrived = {});
  // Drops workers that are gone, and ends jobs that are over. To be called every second or so.
  void tick(Clock::time_point now);
  // Called when the process was stopped or busy for this time, in which it could not hear workers.
  void paused(Clock::duration time);
  std::vector<Peer> peers() const;
  std::uint64_t held_bytes() const { return counters_.held.bytes(); }  // bytes that only replies hold
  // bytes that this and all other cores of the process use
  std::uint64_t memory_used() const { return used_ + counters_.overhead; }
  // Most bytes of replies that may wait for one worker. A connection with more is to be closed.
  std::size_t most_unread() const;
  void drain() { draining_ = true; }
  bool is_draining() const { return draining_; }
  bool has_jobs() const { return !jobs_.empty(); }  // jobs with workers that have not left
  // Called when the state was loaded from a snapshot of the time `when`: workers may know later states.
  // `incarnation`: a new one.
  void restored(const std::string& when, std::uint64_t incarnation);
  // Number of changes of the state: a state that was saved at the same number is still up to date.
  std::uint64_t changes() const { return changes_.count; }
  std::uint64_t jobs_ended() const { return jobs_begun_ - jobs_.size(); }

  Outbox take_outbox();
  ServerStats stats(Clock::time_point now) const;
  void add_to(ServerStats& stats, Clock::time_point now) const;

  // From now on the outbox has the changes, for a backup.
  void record_changes(bool wanted) { changes_.wanted = wanted; }
  // Makes this the core of a backup, which has no workers and applies its primary's records. memory_for() and
  // apply() do for records what memory_for() and received() do for messages.
  void follow() { changes_.following = true; }
  std::span<std::byte> memory_for(const Record& record, std::size_t bytes);
  void apply(const Record& record, std::size_t payload, Clock::time_point now);
  // The core of a backup becomes that of the primary. All workers count as heard at `now`.
  void promote(Clock::time_point now);

 private:
  friend class StateSaver;  // defined in state_saver.h
  friend class StateLoader;
  struct Session {
    std::string key;
    Job* job = nullptr;  // null: before the hello, after a refusal, or after the end of the job
    std::uint32_t rank = 0;
    bool refused = false;       // true: no hello is accepted any more
    bool over = false;          // whether the job of the session has ended
    Clock::time_point since{};  // when tick() first saw the session without a job
  };
  using Jobs = std::map<std::string, std::shared_ptr<Job>>;
  Session& session_of(Peer peer);  // throws MalformedMessage
  void greet(Peer peer, Session& session, const Hello& hello, Clock::time_point now);
  std::string refusal(const Hello& hello) const;
  void close_idle(Clock::time_point now);
  Jobs::iterator end_job(Jobs::iterator job);
  JobHost host_of(const std::string& job);
  Job& job_for(const Hello& hello, std::uint64_t incarnation, Clock::time_point now);
  Job& job_named(const std::string& name);
  void log(ServerEvent::Level level, const char* name,
           std::vector<std::pair<std::string, std::string>> fields);

  const ServerOptions options_;
  std::uint64_t incarnation_;
  std::uint64_t jobs_begun_ = 0;
  bool draining_ = false;
  Counters counters_;
  const std::shared_ptr<std::uint64_t> memory_;
  std::uint64_t& used_;  // bytes of all jobs of all cores
  Outbox outbox_;
  Changes changes_;
  Jobs jobs_;
  std::unordered_map<Peer, Session> sessions_;
};

}  // namespace heddle::kv_detail
