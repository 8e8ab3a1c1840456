#include "server/server_core.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

// A worker may leave replies of kUnread bytes, plus kUnreadValues times the memory in use, unread. It may ask
// for all values at once, for each of several replicas of its model.
constexpr std::size_t kUnread = 256 << 20, kUnreadValues = 16;

// Job names must be printable ASCII, since they become labels of metrics and words of a log.
bool is_good_name(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char one) { return one >= ' ' && one <= '~'; });
}

std::string duration_text(Clock::duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()) + "ms";
}

}  // namespace

ServerCore::ServerCore(const ServerOptions& options, std::uint64_t incarnation,
                       std::shared_ptr<std::uint64_t> used)
    : options_(options), incarnation_(incarnation), memory_(std::move(used)), used_(*memory_) {}

void ServerCore::log(ServerEvent::Level level, const char* name,
                     std::vector<std::pair<std::string, std::string>> fields) {
  outbox_.events.push_back({level, name, std::move(fields)});
}

void ServerCore::connected(Peer peer, const std::string& key) { sessions_[peer].key = key; }

void ServerCore::disconnected(Peer peer, const std::string& why, Clock::time_point now,
                              ServerEvent::Level loss) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) return;
  const Session session = found->second;
  sessions_.erase(found);
  if (!session.job) return;
  const JobWorker& worker = session.job->workers()[session.rank];
  if (worker.peer != peer) return;  // the worker has made another connection, which is still open
  const bool left = worker.left;
  session.job->disconnected(session.rank, now);
  if (left) {
    log(ServerEvent::Level::info, "worker_left",
        {{"job", session.job->name()}, {"worker", std::to_string(session.rank)}});
  } else {
    log(loss, "worker_lost",
        {{"job", session.job->name()}, {"worker", std::to_string(session.rank)}, {"why", why}});
  }
}

std::string ServerCore::refusal(const Hello& hello) const {
  const Versions mine = versions_up_to(options_.protocol);
  if (const Versions theirs{hello.oldest, hello.newest}; common_version(theirs, mine) == 0)
    return no_common_version("the worker", theirs, "this server", mine);
  if (hello.server != static_cast<std::uint32_t>(options_.number) ||
      hello.servers != static_cast<std::uint32_t>(options_.servers)) {
    return "the worker takes this server for number " + std::to_string(hello.server) + " of " +
           std::to_string(hello.servers) + "; it is number " + std::to_string(options_.number) + " of " +
           std::to_string(options_.servers);
  }
  if (hello.workers == 0 || hello.workers > kMostWorkers || hello.rank >= hello.workers)
    return "worker " + std::to_string(hello.rank) + " of " + std::to_string(hello.workers);
  if (!is_good_name(hello.job)) return "the name of the job has letters that are not printable ASCII";
  try {
    parse_job_settings(hello.consistency);
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  const auto job = jobs_.find(hello.job);
  if (job != jobs_.end()) return job->second->refusal(hello);
  if (changes_.following) return {};
  if (draining_) return "the server is draining: it takes no new jobs";
  return no_room_for_overhead(Job::overhead(hello.workers), limits_of(hello.job, options_),
                              counters_.overhead, 0);
}

void ServerCore::greet(Peer peer, Session& session, const Hello& hello, Clock::time_point now) {
  if (session.job || session.refused) throw MalformedMessage("a second hello");
  // If the former job of this name is over, it is ended, so that the worker begins a new job without its
  // keys.
  if (const auto before = jobs_.find(hello.job); before != jobs_.end() &&
                                                 before->second->workers().are_gone() &&
                                                 !before->second->workers().has_had(hello))
    end_job(before);
  const std::vector<std::pair<std::string, std::string>> who = {
      {"job", hello.job}, {"worker", std::to_string(hello.rank)}, {"key", session.key}};
  if (const std::string why = refusal(hello); !why.empty()) {
    const auto known = jobs_.find(hello.job);
    session.refused = true;
    // If another process of this rank counts as connected, it may be gone already, so the worker may try
    // again later.
    const bool later = (known != jobs_.end() && known->second->workers().is_connected(hello));
    Reply reply{.kind = Kind::failed, .clock = later};
    reply.text = why;
    outbox_.greetings.emplace_back(peer, encode(reply));
    auto fields = who;
    fields.emplace_back("why", why);
    return log(ServerEvent::Level::warning, "worker_refused", std::move(fields));
  }
  Job& job = job_for(hello, incarnation_ + jobs_begun_ + 1, now);
  session.job = &job;
  session.rank = hello.rank;
  if (const Peer before = job.join(hello, peer, now); before != 0 && before != peer) {
    sessions_.erase(before);
    outbox_.closed.push_back(before);
  }
  outbox_.greetings.emplace_back(
      peer, encode(Welcome{
                .protocol = common_version({hello.oldest, hello.newest}, versions_up_to(options_.protocol)),
                .incarnation = job.state().incarnation}));
  log(ServerEvent::Level::info, "worker_joined", who);
}

JobHost ServerCore::host_of(const std::string& job) {
  return {limits_of(job, options_), used_, counters_, outbox_.replies, changes_};
}

// Finds the job that the hello names, or makes it.
Job& ServerCore::job_for(const Hello& hello, std::uint64_t incarnation, Clock::time_point now) {
  const auto found = jobs_.find(hello.job);
  if (found != jobs_.end()) return *found->second;
  ++jobs_begun_;
  auto made = std::make_shared<Job>(hello, incarnation, host_of(hello.job), now);
  log(ServerEvent::Level::info, "job_begun",
      {{"job", hello.job}, {"workers", std::to_string(hello.workers)}, {"consistency", hello.consistency}});
  return *jobs_.emplace(hello.job, std::move(made)).first->second;
}

ServerCore::Session& ServerCore::session_of(Peer peer) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) throw MalformedMessage("a message after the end of the job");
  return found->second;
}

std::span<std::byte> ServerCore::memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) {
  const Session& session = session_of(peer);
  const FromWorker message = decode_from_worker(head, bytes);
  const auto* request = std::get_if<Request>(&message);
  if (!session.job || !request) throw MalformedMessage("a payload before a hello");
  return session.job->memory_for(session.rank, *request, bytes);
}

void ServerCore::received(Peer peer, std::span<const std::byte> head, std::size_t payload,
                          Clock::time_point now, Clock::time_point arrived) {
  Session& session = session_of(peer);
  FromWorker message = decode_from_worker(head, payload);
  if (const auto* hello = std::get_if<Hello>(&message)) return greet(peer, session, *hello, now);
  // A worker that waits for the answer to its leave, which a slow backup may delay, still sends pings. They
  // are ignored.
  if (session.over) return;
  if (!session.job) throw MalformedMessage("a request before a hello");
  auto& request = std::get<Request>(message);
  request.arrived = arrived;
  session.job->received(session.rank, request, payload, now);
}

void ServerCore::restored(const std::string& when, std::uint64_t incarnation) {
  incarnation_ = incarnation;
  for (const auto& [name, job] : jobs_) job->restored(when);
}

std::size_t ServerCore::most_unread() const { return kUnread + kUnreadValues * used_; }

// Closes connections of peers that have sent no hello, or that stay connected after a refusal. Otherwise
// these could stay for ever.
void ServerCore::close_idle(Clock::time_point now) {
  for (auto session = sessions_.begin(); session != sessions_.end();) {
    auto& [peer, one] = *session;
    if (!one.job && one.since == Clock::time_point{}) one.since = now;
    const bool idle = !one.job && now - one.since >= options_.worker_timeout;
    if (idle) outbox_.closed.push_back(peer);
    session = idle ? sessions_.erase(session) : std::next(session);
  }
}

void ServerCore::tick(Clock::time_point now) {
  close_idle(now);
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    Job& job = *entry->second;
    std::vector<bool> before;
    for (const JobWorker& worker : job.workers().all()) before.push_back(worker.dropped);
    for (const Peer peer : job.drop_silent(now, options_.worker_timeout)) {
      sessions_.erase(peer);
      outbox_.closed.push_back(peer);
    }
    for (std::uint32_t rank = 0; rank < before.size(); ++rank) {
      if (before[rank] || !job.workers()[rank].dropped) continue;
      log(ServerEvent::Level::warning, "worker_dropped",
          {{"job", job.name()},
           {"worker", std::to_string(rank)},
           {"after", duration_text(now - job.workers()[rank].last_seen)}});
    }
    if (const std::string missing = changes_.following ? "" : job.stalls().take_missing(now);
        !missing.empty())
      log(ServerEvent::Level::warning, "workers_missing",
          {{"job", job.name()}, {"workers", missing}, {"of", std::to_string(job.workers().size())}});
    if (const std::string waits = changes_.following ? "" : job.stalls().take_stall(now); !waits.empty())
      log(ServerEvent::Level::warning, "workers_waiting", {{"job", job.name()}, {"waits", waits}});
    entry = job.workers().are_gone() ? end_job(entry) : std::next(entry);
  }
}

ServerCore::Jobs::iterator ServerCore::end_job(Jobs::iterator entry) {
  Job& job = *entry->second;
  changes_.add({.kind = Record::Kind::end_job, .job = job.name()});
  log(ServerEvent::Level::info, "job_ended", {{"job", job.name()}});
  // Connections are left open until workers close them, since answers to their leaves may still be on the
  // way. A worker that gets no answer would connect again, and begin a new job of that name.
  for (auto& [peer, session] : sessions_) {
    if (session.job != &job) continue;
    session.job = nullptr;
    session.refused = session.over = true;
    session.since = {};
  }
  outbox_.ended.push_back(std::move(entry->second));
  return jobs_.erase(entry);
}

Outbox ServerCore::take_outbox() {
  outbox_.changes = std::exchange(changes_.all, {});
  return std::exchange(outbox_, {});
}

Job& ServerCore::job_named(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) throw MalformedMessage("there is no job '" + name + "'");
  return *found->second;
}

std::span<std::byte> ServerCore::memory_for(const Record& record, std::size_t bytes) {
  if (record.kind != Record::Kind::request) throw MalformedMessage("a payload where none belongs");
  Job& job = job_named(record.job);
  if (record.rank >= job.workers().size()) throw MalformedMessage("a record of a worker that there is not");
  return job.memory_for(record.rank, record.request, bytes);
}

void ServerCore::apply(const Record& record, std::size_t payload, Clock::time_point now) {
  if (record.kind == Record::Kind::join) {
    if (const std::string why = refusal(record.hello); !why.empty()) throw MalformedMessage(why);
    job_for(record.hello, record.number, now).join(record.hello, 0, now);
  } else if (record.kind == Record::Kind::end_job) {
    job_named(record.job);
    jobs_.erase(record.job);
  } else {
    job_named(record.job).apply(record, payload, now);
  }
}

void ServerCore::promote(Clock::time_point now) {
  changes_.following = false;
  for (const auto& [name, job] : jobs_) job->promoted(now);
}

std::vector<Peer> ServerCore::peers() const {
  std::vector<Peer> all;
  for (const auto& [peer, session] : sessions_) all.push_back(peer);
  return all;
}

void ServerCore::paused(Clock::duration time) {
  for (const auto& [name, job] : jobs_) job->paused(time);
}

ServerStats ServerCore::stats(Clock::time_point now) const {
  ServerStats stats;
  stats.draining = draining_;
  add_to(stats, now);
  return stats;
}

void ServerCore::add_to(ServerStats& stats, Clock::time_point now) const {
  stats.pushes += counters_.pushes;
  stats.pulls += counters_.pulls;
  stats.duplicates += counters_.duplicates;
  stats.refused += counters_.refused;
  stats.rounds += counters_.rounds;
  stats.worst_staleness =
      std::max(stats.worst_staleness, static_cast<std::int64_t>(counters_.worst_staleness));
  for (const auto& [name, job] : jobs_) job->add_to(stats, now);
}

}  // namespace heddle::kv_detail
