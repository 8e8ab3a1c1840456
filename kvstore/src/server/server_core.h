// What a server does with messages, without threads, clocks and connections: it is given what has come and the time, and
// says what to send. So a test can run it in any order and at any speed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/server.h>

#include "server/job.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

// What there is to do for the owner, in this order.
struct Outbox {
  std::vector<Change> changes;  // of which the backup is told before the workers get what follows
  std::vector<std::pair<Peer, std::vector<std::byte>>> greetings;  // welcomes, and refusals
  std::vector<Outgoing> replies;
  std::vector<Peer> closed;
  std::vector<std::shared_ptr<Job>> ended;  // keep the memory that closed connections may still write to
  std::vector<ServerEvent> events;
};

class ServerCore {
 public:
  // `used`: the bytes of all cores of the process, which have one limit.
  ServerCore(const ServerOptions& options, std::uint64_t incarnation,
             std::shared_ptr<std::uint64_t> used = std::make_shared<std::uint64_t>(0));

  void connected(Peer peer, const std::string& key);
  // `loss`: the level of the event for a worker that has not said that it leaves.
  void disconnected(Peer peer, const std::string& why, Clock::time_point now,
                    ServerEvent::Level loss = ServerEvent::Level::warning);
  // As in Receiver. Both throw MalformedMessage.
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes);
  void received(Peer peer, std::span<const std::byte> head, std::size_t payload, Clock::time_point now);
  // Drops workers that are gone, and jobs that are over. To be called every second or so.
  void tick(Clock::time_point now);
  // The process was stopped, or busy, for so long: workers could not be heard.
  void paused(Clock::duration time);
  std::vector<Peer> peers() const;
  std::uint64_t held_bytes() const { return counters_.held.bytes(); }  // by replies, besides what is used
  std::uint64_t memory_used() const { return used_ + counters_.overhead; }  // bytes
  // The most bytes of replies that may wait for a worker to read them. A connection with more is to be closed.
  std::size_t most_unread() const;
  void drain() { draining_ = true; }
  bool is_draining() const { return draining_; }
  bool has_jobs() const { return !jobs_.empty(); }  // of which not all workers have left
  // The state was loaded from a snapshot of that time, which may be older than what workers know. `incarnation`: a new one.
  void restored(const std::string& when, std::uint64_t incarnation);
  // How many changes of the state there were: what was saved at the same number is still the state.
  std::uint64_t changes() const { return changes_.count; }
  std::uint64_t jobs_ended() const { return jobs_begun_ - jobs_.size(); }

  Outbox take_outbox();
  ServerStats stats(Clock::time_point now) const;
  void add_to(ServerStats& stats, Clock::time_point now) const;

  // From now on the outbox has changes, for a backup.
  void record_changes(bool wanted) { changes_.wanted = wanted; }
  // Of a backup, which has no workers: records of its primary, as memory_for and received are for messages of workers.
  void follow() { changes_.following = true; }
  std::span<std::byte> memory_for(const Record& record, std::size_t bytes);
  void apply(const Record& record, std::size_t payload, Clock::time_point now);
  // It is the primary now: all workers have been heard just now.
  void promote(Clock::time_point now);

 private:
  friend class StateSaver;  // state_saver.h
  friend class StateLoader;
  struct Session {
    std::string key;
    Job* job = nullptr;  // null: it has not said hello, is refused, or the job has ended
    std::uint32_t rank = 0;
    bool refused = false;       // no hello is taken any more
    bool over = false;          // its job has ended
    Clock::time_point since{};  // when tick() first saw it without a job
  };
  using Jobs = std::map<std::string, std::shared_ptr<Job>>;
  Session& session_of(Peer peer);  // throws MalformedMessage
  void greet(Peer peer, Session& session, const Hello& hello, Clock::time_point now);
  std::string refusal(const Hello& hello) const;
  void close_idle(Clock::time_point now);
  Jobs::iterator end_job(Jobs::iterator job);
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
  std::uint64_t& used_;  // bytes, of all jobs of all cores
  Outbox outbox_;
  Changes changes_;
  Jobs jobs_;
  std::unordered_map<Peer, Session> sessions_;
};

}  // namespace heddle::kv_detail
