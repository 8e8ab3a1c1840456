#include "membership/scheduler_core.h"

#include <algorithm>
#include <limits>

#include "wire/messages.h"

namespace heddle::kv_detail {
namespace {

using Level = ServerEvent::Level;
using std::chrono::milliseconds;

constexpr std::size_t kMostNames = 16;      // most processes named in one text
constexpr std::size_t kMostRefusals = 256;  // most refusals logged within a minute

std::string quoted(const std::string& name) { return "'" + name + "'"; }

std::string seconds_text(std::chrono::steady_clock::duration time) {
  const auto tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::uint32_t count(milliseconds time) { return static_cast<std::uint32_t>(time.count()); }

// Several heartbeats fit into the time after which a silent process is gone.
milliseconds heartbeat_interval(Role role, milliseconds timeout) {
  const milliseconds usual(role == Role::server ? 100 : 500);
  return std::clamp(timeout / 5, milliseconds(1), usual);
}

SchedulerState checked(SchedulerState state, const StoreSchedulerOptions& options) {
  const auto wanted = static_cast<std::uint32_t>(options.servers);
  if (state.views.version > 0 && state.servers != wanted)
    throw InvalidArgument("StoreScheduler: " + options.state_file + " is of " +
                          std::to_string(state.servers) + " servers, not of " + std::to_string(wanted) +
                          "; another job needs another state file");
  state.servers = wanted;
  return state;
}

}  // namespace

SchedulerCore::SchedulerCore(const StoreSchedulerOptions& options, SchedulerState state, Time now)
    : options_(options),
      versions_(versions_up_to(options.protocol)),
      state_(checked(std::move(state), options)),
      rules_(state_.servers, state_.replicas, state_.views, state_.synced),
      servers_(state_.servers),
      last_tick_(now),
      ranks_known_(rules_.has_begun() ? now + options_.server_timeout : now) {
  for (const ServerInfo& one : state_.views.servers)
    servers_[one.number] = {.incarnation = one.incarnation,
                            .heard = now,
                            .deadline = now + options_.server_timeout,
                            .address = one.address,
                            .newest = one.protocol};
}

void SchedulerCore::log(Level level, const std::string& name,
                        std::vector<std::pair<std::string, std::string>> fields) {
  out_.events.push_back({level, name, std::move(fields)});
}

void SchedulerCore::connected(Peer peer, const KeyRoles& roles) { sessions_[peer] = {.roles = roles}; }

void SchedulerCore::disconnected(Peer peer, const std::string& why, Time now) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) return;
  const Session session = found->second;
  sessions_.erase(found);
  Process* const process = process_of(session);
  if (!process || process->peer != peer) return;
  process->peer = 0;
  process->heard = now;
  process->deadline = now + options_.grace;
  log(Level::debug, session.role == Role::server ? "server_disconnected" : "worker_disconnected",
      {{session.role == Role::server ? "server" : "worker", std::to_string(session.number)}, {"why", why}});
}

SchedulerCore::Process* SchedulerCore::process_of(const Session& session) {
  if (!session.registered) return nullptr;
  if (session.role == Role::server) return &servers_[session.number];
  const auto job = jobs_.find(session.job);
  if (job == jobs_.end()) return nullptr;
  const auto rank = job->second.ranks.find(session.number);
  return rank == job->second.ranks.end() ? nullptr : &rank->second;
}

void SchedulerCore::received(Peer peer, std::span<const std::byte> head, Time now) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end())
    throw MalformedMessage("a message of a process that is not expected any longer");
  Session& session = found->second;
  const FromMember message = decode_from_member(head);
  if (session.dismissed) return;
  if (const auto* first = std::get_if<Registration>(&message))
    return registration(peer, session, *first, now);
  Process* const process = process_of(session);
  if (!process || process->peer != peer)
    throw MalformedMessage("a message before the process has registered");
  process->heard = now;
  if (const auto* beat = std::get_if<Heartbeat>(&message)) return heartbeat(peer, session, *beat);
  if (const auto* lost = std::get_if<BackupLost>(&message)) {
    if (session.role == Role::server && rules_.report_lost(lost->shard, lost->epoch, process->incarnation)) {
      save();
      change_views();
    }
    return;
  }
  unregister(peer, session, now);
}

void SchedulerCore::registration(Peer peer, Session& session, const Registration& registration, Time now) {
  if (session.registered) throw MalformedMessage("a second registration");
  const bool is_server = registration.role == Role::server;
  const char* const role = is_server ? "server" : "worker";
  if (const Refused refused = refusal(registration, session.roles, now); !refused.text.empty()) {
    ++refused_;
    if (!lacking(registration, session.roles).empty()) ++unauthorized_;
    send(peer, encode(refused));
    // A refusal that was logged within the last minute is not logged again.
    if (!is_news(registration.process + refused.text, now)) return;
    return log(refused.retry > 0 ? Level::info : Level::warning, "process_refused",
               {{"role", role}, {"process", registration.process}, {"why", refused.text}});
  }
  session = {true,
             false,
             registration.role,
             is_server ? "" : registration.job,
             is_server ? number_for(registration) : rank_for(registration),
             session.roles};
  std::uint32_t workers = static_cast<std::uint32_t>(options_.workers);
  if (is_server) {
    if (!rules_.has_begun()) rules_.set_replicas(state_.replicas = replicas_of(registration));
    assign_process(servers_[session.number], peer, registration, now);
  } else {
    workers = workers_of(registration);
    Job& job = jobs_[registration.job];
    job.workers = workers;
    job.ended.erase(session.number);
    had_workers_ = true;
    assign_process(job.ranks[session.number], peer, registration, now);
  }
  const Process& process = *process_of(session);
  send(peer,
       encode(Registered{.protocol = process.protocol,
                         .number = session.number,
                         .servers = state_.servers,
                         .workers = workers,
                         .heartbeat = count(heartbeat_interval(registration.role, options_.server_timeout)),
                         .cluster = state_.cluster,
                         .secret = is_server ? state_.secret : 0}));
  log(Level::info, std::string(role) + "_registered",
      {{role, std::to_string(session.number)},
       {"process", registration.process},
       {"address", registration.address}});
  if (!rules_.has_begun() && !waiting_since_) waiting_since_ = now;
  const std::uint64_t before = views().version;
  change_views();
  if (before > 0 && before == views().version)
    send(peer, encode(views(), process.protocol));  // if views have changed, change_views() has sent them
  if (!rules_.has_begun()) {
    find_missing(now);
    send(peer, encode(status(session)));
  }
}

// True if this refusal was not logged within the last minute.
bool SchedulerCore::is_news(const std::string& refusal, Time now) {
  std::erase_if(refusals_, [&](const auto& one) { return now - one.second >= std::chrono::minutes(1); });
  return refusals_.size() < kMostRefusals && refusals_.try_emplace(refusal, now).second;
}

// Gives a number or rank to the process that registers. The connection of the process that had it is closed.
void SchedulerCore::assign_process(Process& process, Peer peer, const Registration& registration, Time now) {
  if (process.peer != 0) {
    sessions_.erase(process.peer);
    out_.closed.push_back(process.peer);
  }
  process = {.incarnation = registration.incarnation,
             .peer = peer,
             .heard = now,
             .version = registration.version,
             .address = registration.address,
             .process = registration.process,
             .newest = std::min(registration.newest, versions_.newest),
             .protocol = common_version({registration.oldest, registration.newest}, versions_)};
}

void SchedulerCore::heartbeat(Peer peer, const Session& session, const Heartbeat& heartbeat) {
  Process& process = *process_of(session);
  process.version = heartbeat.version;
  process.leaving = heartbeat.leaving;
  if (session.role == Role::server) {
    bool news = false;
    for (const Synced& one : heartbeat.synced)
      news = rules_.report_synced(one.shard, one.epoch, process.incarnation) || news;
    if (news) save();
  }
  send(peer, encode(status(session)));
}

Status SchedulerCore::status(const Session& session) const {
  return {.over = over_, .text = rules_.has_begun() ? "" : missing_for(session)};
}

void SchedulerCore::unregister(Peer peer, const Session& session, Time now) {
  Process& process = *process_of(session);
  const Session who = session;
  sessions_.erase(peer);
  out_.closed.push_back(peer);
  process.peer = 0;
  declare_gone(process, who, "it has left", now);
  process.left = true;
  if (who.role == Role::worker) {
    Job& job = jobs_[who.job];
    job.ended.insert(who.number);
    job.ranks.erase(who.number);
  }
}

template <class Function> void SchedulerCore::for_each_process(const Function& function) {
  for (std::uint32_t number = 0; number < servers_.size(); ++number) {
    if (servers_[number].incarnation != 0)
      function(servers_[number], Session{true, false, Role::server, "", number});
  }
  for (auto& [name, job] : jobs_) {
    for (auto& [rank, process] : job.ranks) function(process, Session{true, false, Role::worker, name, rank});
  }
}

bool SchedulerCore::is_gone_now(const Process& process, Time now) const {
  if (process.gone) return false;
  return process.peer == 0 ? now >= process.deadline : now - process.heard > options_.server_timeout;
}

void SchedulerCore::find_gone(Time now) {
  for_each_process([&](Process& process, const Session& who) {
    if (!is_gone_now(process, now)) return;
    const bool silent = process.peer != 0;
    if (silent) {
      sessions_.erase(process.peer);
      out_.closed.push_back(std::exchange(process.peer, 0));
    }
    declare_gone(process, who, silent ? "it is silent" : "its connection has ended", now);
  });
}

void SchedulerCore::declare_gone(Process& process, const Session& who, const std::string& why, Time now) {
  process.gone = true;
  const bool is_server = who.role == Role::server;
  std::vector<std::pair<std::string, std::string>> fields = {
      {is_server ? "server" : "worker", std::to_string(who.number)},
      {"process", process.process},
      {"why", why},
      {"for", seconds_text(now - process.heard)}};
  if (!is_server) fields.emplace(fields.begin(), "job", who.job);
  log(why == "it has left" ? Level::info : Level::warning, is_server ? "server_gone" : "worker_gone",
      std::move(fields));
}

// Adds to Process::gone_for, for the option lost_after. If the scheduler hears no server, it may be cut off
// itself, and the time does not count.
void SchedulerCore::count_time_gone(Time now) {
  const auto time = now - std::exchange(last_tick_, now);
  const bool hears = std::any_of(servers_.begin(), servers_.end(), [&](const Process& one) {
    return one.peer != 0 && now - one.heard < options_.server_timeout / 2;
  });
  if (!hears) return;
  for (Process& one : servers_) {
    if (one.gone) one.gone_for += time;
  }
}

// Gives up the ranks of workers that were gone for start_timeout, and ends jobs that have no workers left.
void SchedulerCore::forget_workers(Time now) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    for (auto rank = job->second.ranks.begin(); rank != job->second.ranks.end();) {
      const bool old = rank->second.gone && now - rank->second.heard > options_.start_timeout;
      if (old) job->second.ended.insert(rank->first);
      rank = old ? job->second.ranks.erase(rank) : std::next(rank);
    }
    const bool ended = job->second.ranks.empty() && job->second.ended.size() >= job->second.workers;
    job = ended ? jobs_.erase(job) : std::next(job);
  }
}

void SchedulerCore::tick(Time now) {
  count_time_gone(now);
  find_gone(now);
  forget_workers(now);
  change_views();
  check_start(now);
  check_end();
}

void SchedulerCore::paused(Time::duration time) {
  for_each_process([time](Process& process, const Session&) {
    process.heard += time;
    process.deadline += time;
  });
  last_tick_ += time;
  if (waiting_since_) *waiting_since_ += time;
}

void SchedulerCore::change_views() {
  std::vector<ServerPresence> presence;
  std::vector<ServerInfo> infos;
  for (std::uint32_t number = 0; number < servers_.size(); ++number) {
    const Process& one = servers_[number];
    presence.push_back(
        {.incarnation = one.incarnation,
         .here = one.incarnation != 0 && !one.gone,
         .connected = one.peer != 0,
         .given_up = one.gone && options_.lost_after.count() > 0 && one.gone_for > options_.lost_after,
         .leaving = one.leaving,
         .left = one.left && one.leaving,
         .version = one.version});
    if (one.incarnation != 0) infos.push_back({number, one.incarnation, one.address, one.newest});
  }
  const std::uint64_t before = views().version;
  const std::vector<ViewChange> changes = rules_.update(presence, std::move(infos));
  if (views().version == before) return;
  for (const ViewChange& one : changes) log_change(one);
  save();
  waiting_since_.reset();
  for_each_process([&](const Process& process, const Session&) {
    if (process.peer != 0) send(process.peer, encode(views(), process.protocol));
  });
}

void SchedulerCore::save() {
  state_.views = views();
  state_.synced = rules_.synced();
  if (rules_.take_recovery()) {
    // If the loss of a copy was logged as a warning, its end is logged as a warning, too.
    const Level level = std::exchange(unrecovered_, false) ? Level::warning : Level::info;
    log(level, "copies_complete", {{"shards", std::to_string(servers_.size())}});
  }
  out_.save = state_;
}

std::string SchedulerCore::server_text(std::uint64_t incarnation) const {
  const ServerInfo* const server = find_server(views(), incarnation);
  return incarnation == 0 ? "none" : server ? std::to_string(server->number) : "a former process";
}

// True if the server has asked to leave, and has then left or is still here. Such an end is not logged as a
// loss.
bool SchedulerCore::goes_in_order(std::uint64_t server) const {
  return std::any_of(servers_.begin(), servers_.end(), [server](const Process& one) {
    return one.incarnation == server && one.leaving && (one.left || !one.gone);
  });
}

void SchedulerCore::log_change(const ViewChange& change) {
  using Why = ViewChange::Why;
  failovers_ += change.why == Why::failover;
  returned_ += change.why == Why::returned;
  lost_ += change.why == Why::lost;
  const bool loss =
      change.why == Why::failover || (change.why == Why::backup_gone && !goes_in_order(change.before.backup));
  const Level level = change.why == Why::lost ? Level::error : loss ? Level::warning : Level::info;
  unrecovered_ = unrecovered_ || loss;
  log(level, name_of(change.why),
      {{"shard", std::to_string(change.shard)},
       {"epoch", std::to_string(change.after.epoch)},
       {"primary", server_text(change.after.primary)},
       {"backup", server_text(change.after.backup)},
       {"learner", server_text(change.after.learner)},
       {"primary_before", server_text(change.before.primary)}});
}

// Text with the role and number of each process that the scheduler still waits for. If `only_job` is not
// null, it leaves out the workers of other jobs.
std::string SchedulerCore::missing(Time now, const std::string* only_job) const {
  std::string text;
  std::size_t names = 0;
  const auto add = [&](const std::string& what, std::size_t number, std::size_t all) {
    if (names++ < kMostNames)
      text += (names == 1 ? "" : ", ") + what + " " + std::to_string(number) + " of " + std::to_string(all);
    return names <= kMostNames;
  };
  for (std::uint32_t number = 0; number < servers_.size(); ++number) {
    const Process& one = servers_[number];
    if (one.peer == 0 && add("server", number, servers_.size()) && one.incarnation != 0)
      text += " (it was here, and is gone for " + seconds_text(now - one.heard) + ")";
  }
  const auto workers = static_cast<std::uint32_t>(options_.workers);
  if (workers > 0 && jobs_.empty() && names++ < kMostNames)
    text += (names == 1 ? "all " : ", all ") + std::to_string(workers) + " workers";
  const auto add_workers = [&](const auto& named) {
    const auto& [job, members] = named;
    for (std::uint32_t rank = 0; rank < members.workers; ++rank) {
      const auto found = members.ranks.find(rank);
      if ((found != members.ranks.end() && found->second.peer != 0) || members.ended.contains(rank)) continue;
      if (add("worker", rank, members.workers)) text += " of job " + quoted(job);
    }
  };
  if (!only_job) {
    std::ranges::for_each(jobs_, add_workers);
  } else if (const auto job = jobs_.find(*only_job); job != jobs_.end()) {
    add_workers(*job);
  }
  if (names > kMostNames) text += " and " + std::to_string(names - kMostNames) + " more";
  const auto since = waiting_since_ ? now - *waiting_since_ : Time::duration(0);
  return text.empty() ? "" : "waiting for " + seconds_text(since) + " for " + text;
}

void SchedulerCore::find_missing(Time now) {
  missing_ = missing(now);
  missing_at_ = now;
}

std::string SchedulerCore::missing_for(const Session& session) const {
  const bool is_worker = session.role == Role::worker && jobs_.contains(session.job);
  return is_worker && !missing_.empty() ? missing(missing_at_, &session.job) : missing_;
}

// After start_timeout, refuses the processes that wait for the first views, and tells them which processes
// are missing. Otherwise they could wait for ever.
void SchedulerCore::check_start(Time now) {
  if (rules_.has_begun() || !waiting_since_) return;
  find_missing(now);
  bool anybody = false;
  for_each_process([&](const Process& process, const Session&) { anybody = anybody || !process.gone; });
  if (!anybody) return waiting_since_.reset();
  if (now - *waiting_since_ < options_.start_timeout) return;
  const std::string why = "the servers have not all come: ";
  log(Level::error, "start_failed", {{"why", why + missing_}});
  for_each_process([&](const Process& process, const Session& session) {
    if (process.peer == 0) return;
    send(process.peer, encode(Refused{0, why + missing_for(session)}));
    sessions_[process.peer] = {.dismissed = true};
  });
  std::fill(servers_.begin(), servers_.end(), Process{});
  jobs_.clear();
  waiting_since_.reset();
}

void SchedulerCore::check_end() {
  if (over_ || !options_.once || !had_workers_ || !jobs_.empty()) return;
  over_ = true;
  log(Level::info, "job_over", {});
  for_each_process([&](const Process& process, const Session& session) {
    if (process.peer != 0) send(process.peer, encode(status(session)));
  });
}

std::vector<Peer> SchedulerCore::peers() const {
  std::vector<Peer> all;
  for (const auto& [peer, session] : sessions_) all.push_back(peer);
  return all;
}

StoreSchedulerStats SchedulerCore::stats() const {
  StoreSchedulerStats stats;
  stats.begun = rules_.has_begun();
  stats.version = views().version;
  stats.servers = static_cast<int>(servers_.size());
  for (const Process& one : servers_)
    stats.servers_here += one.incarnation != 0 && !one.gone && one.peer != 0;
  for (const auto& [name, job] : jobs_) {
    for (const auto& [rank, process] : job.ranks) stats.workers_here += process.peer != 0;
  }
  stats.failovers = failovers_;
  stats.returned = returned_;
  stats.lost = lost_;
  stats.refused = refused_;
  stats.unauthorized = unauthorized_;
  // The server number of the process with this incarnation; -1: the process is gone.
  const auto number_of = [this](std::uint64_t incarnation) {
    const ServerInfo* const server = find_server(views(), incarnation);
    return server && !servers_[server->number].gone ? static_cast<int>(server->number) : -1;
  };
  const auto is_here = [this](std::uint64_t incarnation) {
    return incarnation != 0 && std::any_of(servers_.begin(), servers_.end(), [&](const Process& one) {
             return one.incarnation == incarnation && !one.gone && one.peer != 0;
           });
  };
  for (std::uint32_t shard = 0; shard < views().shards.size(); ++shard) {
    const ShardView& view = views().shards[shard];
    const bool synced = rules_.is_synced(shard);
    stats.shards.push_back({.epoch = view.epoch,
                            .primary = number_of(view.primary),
                            .backup = number_of(view.backup),
                            .synced = synced,
                            .copies = is_here(view.primary) + (synced && is_here(view.backup)),
                            .learner = number_of(view.learner)});
  }
  return stats;
}

}  // namespace heddle::kv_detail
