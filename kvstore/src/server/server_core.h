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

// What the owner of a ServerCore has to do: send, close and log, in the order of the members.
struct Outbox {
  std::vector<Change> changes;  // the backup has to have these changes before workers get the replies
  std::vector<std::pair<Peer, std::vector<std::byte>>> greetings;  // encoded welcomes and refusals of workers
  std::vector<Outgoing> replies;
  std::vector<Peer> closed;
  // Keeps ended jobs, whose memory open connections may still write to.
  std::vector<std::shared_ptr<Job>> ended;
  std::vector<ServerEvent> events;
};

class ServerCore {
 public:
  // `used`: count of the bytes that all cores of the process use, which have one limit together.
  ServerCore(const ServerOptions& options, std::uint64_t incarnation,
             std::shared_ptr<std::uint64_t> used = std::make_shared<std::uint64_t>(0));

  void connected(Peer peer, const std::string& key);
  // `loss`: level of the event that is logged if the worker has not left its job.
  void disconnected(Peer peer, const std::string& why, Clock::time_point now,
                    ServerEvent::Level loss = ServerEvent::Level::warning);
  // See Receiver. memory_for() and received() throw MalformedMessage.
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes);
  // `arrived`: time at which the message has come, for statistics; Clock::time_point(): the request is not
  // measured.
  void received(Peer peer, std::span<const std::byte> head, std::size_t payload, Clock::time_point now,
                Clock::time_point arrived = {});
  // Drops workers that are gone, and ends jobs that are over. To be called every second or so.
  void tick(Clock::time_point now);
  // Called when the process was stopped or busy for this time, in which it could not hear workers.
  void paused(Clock::duration time);
  std::vector<Peer> peers() const;
  std::uint64_t held_bytes() const { return counters_.held.bytes(); }  // bytes that only unsent replies hold
  // Bytes that the jobs of all cores of the process use, and the overhead of this core.
  std::uint64_t memory_used() const { return used_ + counters_.overhead; }
  // Most bytes of replies that may wait to be sent to one worker. A connection with more is to be closed.
  std::size_t most_unread() const;
  void drain() { draining_ = true; }
  bool is_draining() const { return draining_; }
  bool has_jobs() const { return !jobs_.empty(); }  // whether there is a job that has not ended
  // Called when the state was loaded from a snapshot of the time `when`: workers may know later states.
  // `incarnation`: new incarnation of the core.
  void restored(const std::string& when, std::uint64_t incarnation);
  // Number of changes of the state: a state that was saved at the same number is still up to date.
  std::uint64_t changes() const { return changes_.count; }
  std::uint64_t jobs_ended() const { return jobs_begun_ - jobs_.size(); }

  Outbox take_outbox();
  ServerStats stats(Clock::time_point now) const;
  void add_to(ServerStats& stats, Clock::time_point now) const;

  // Sets whether the outbox gets records of changes, for a backup or learner.
  void record_changes(bool wanted) { changes_.wanted = wanted; }
  // Makes this the core of a backup, which has no workers and applies its primary's records. Then
  // memory_for(record) and apply() take the place of memory_for(peer) and received().
  void follow() { changes_.following = true; }
  std::span<std::byte> memory_for(const Record& record, std::size_t bytes);
  void apply(const Record& record, std::size_t payload, Clock::time_point now);
  // Makes the core of a backup the core of a primary. All workers count as heard at `now`.
  void promote(Clock::time_point now);

 private:
  friend class StateSaver;  // defined in state_saver.h
  friend class StateLoader;
  struct Session {
    std::string key;
    Job* job = nullptr;  // job of the worker; null before its hello, after a refusal, and after the job's end
    std::uint32_t rank = 0;
    bool refused = false;       // whether a hello was refused, so that no other hello is accepted
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
  std::uint64_t& used_;  // *memory_: bytes that the jobs of all cores of the process use
  Outbox outbox_;
  Changes changes_;
  Jobs jobs_;
  std::unordered_map<Peer, Session> sessions_;
};

}  // namespace heddle::kv_detail
