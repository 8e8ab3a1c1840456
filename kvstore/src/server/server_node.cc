#include "server/server_node.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::milliseconds kKeepAliveInterval{
    500};  // time between two unasked answers to workers that wait

// Merges the statistics of a worker over all shards.
void merge_workers(std::vector<WorkerStats>& workers) {
  const auto who = [](const WorkerStats& one) { return std::tie(one.job, one.rank); };
  std::stable_sort(workers.begin(), workers.end(),
                   [&](const auto& a, const auto& b) { return who(a) < who(b); });
  std::vector<WorkerStats> merged;
  for (WorkerStats& one : workers) {
    if (merged.empty() || who(merged.back()) != who(one)) {
      merged.push_back(std::move(one));
      continue;
    }
    WorkerStats& all = merged.back();
    all.connected = all.connected || one.connected;
    all.silent = std::min(all.silent, one.silent);
    all.pushes += one.pushes;
    all.pulls += one.pulls;
    all.bytes_received += one.bytes_received;
    all.bytes_sent += one.bytes_sent;
    all.clock = std::max(all.clock, one.clock);
    all.pulls_waiting += one.pulls_waiting;
  }
  workers = std::move(merged);
}

}  // namespace

ServerNode::ServerNode(const ServerOptions& options, std::uint64_t incarnation, Transport& transport,
                       Clock::time_point now)
    : options_(options), incarnation_(incarnation), transport_(transport) {
  set_number(options_.number, options_.servers);
  if (is_scheduled(options_)) return;
  const ShardView alone{.epoch = 1, .primary = incarnation_, .fresh = true};
  shards_[static_cast<std::size_t>(options_.number)]->set_view(alone, {}, now);
}

void ServerNode::set_number(int number, int servers) {
  options_.number = number;
  options_.servers = servers;
  while (shards_.size() < static_cast<std::size_t>(servers))
    shards_.push_back(std::make_unique<Shard>(*this, static_cast<std::uint32_t>(shards_.size())));
}

void ServerNode::set_views(const Views& views, Clock::time_point now) {
  const std::size_t count = std::min(views.shards.size(), shards_.size());
  for (std::size_t number = 0; number < count; ++number)
    shards_[number]->set_view(views.shards[number], views, now);
  copies_seen_ = copies_seen_ || std::any_of(views.shards.begin(), views.shards.end(),
                                             [](const ShardView& one) { return one.backup != 0; });
}

std::string ServerNode::reason_not_ready(Clock::time_point now) const {
  if (draining_) return "draining";
  const auto number = static_cast<std::size_t>(options_.number);
  if (number >= shards_.size()) return "the scheduler has not said yet what this server keeps";
  if (const std::string why = shards_[number]->reason_not_to_serve(now); !why.empty()) return why;
  // If the options leave the number of copies open, each shard has to have a backup once a view has had any
  // backup.
  const bool copied = options_.replicas == 2 || (options_.replicas == 0 && copies_seen_);
  for (const auto& shard : shards_) {
    if (const std::string why = shard->reason_not_complete(copied); !why.empty()) return why;
  }
  return {};
}

Peer ServerNode::connect_to_backup(std::uint32_t shard, const std::string& address) {
  const Peer peer = transport_.connect(address);
  sessions_[peer] = {.kind = Session::Kind::replica, .shard = shard};
  return peer;
}

void ServerNode::close(Peer peer) {
  sessions_.erase(peer);
  transport_.close(peer);
}

void ServerNode::log(ServerEvent::Level level, const char* name,
                     std::vector<std::pair<std::string, std::string>> fields) {
  events_.push_back({level, name, std::move(fields)});
}

void ServerNode::connected(Peer peer, const std::string& key, Clock::time_point now) {
  latencies_.read_clock(now);
  const auto [entry, fresh] = sessions_.try_emplace(peer);
  entry->second.key = key;
  entry->second.since = now;
  if (!fresh) shards_[entry->second.shard]->connected(peer);
}

void ServerNode::disconnected(Peer peer, const std::string& why, Clock::time_point now) {
  latencies_.read_clock(now);
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) return;
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.kind == Session::Kind::fresh) return;
  Shard& shard = *shards_[session.shard];
  if (session.kind == Session::Kind::replica) shard.disconnected(peer, why, now);
  if (session.kind != Session::Kind::worker || !shard.core()) return;
  // If the shard is being moved, workers may hear of it from the scheduler, and disconnect, before this
  // server hears of it. That is no warning.
  const bool moves =
      shard.has_backup() && (draining_ || session.shard != static_cast<std::uint32_t>(options_.number));
  shard.core()->disconnected(peer, why, now, moves ? ServerEvent::Level::info : ServerEvent::Level::warning);
  shard.say(now);
}

// Called when the address of a backup cannot be used. The server goes on without the backup, and tries again.
void ServerNode::cannot_connect(Peer peer, const std::string& why, Clock::time_point now) {
  if (const auto found = sessions_.find(peer); found != sessions_.end()) {
    const std::uint32_t shard = found->second.shard;
    if (std::exchange(unreachable_[shard], why) != why)
      log(ServerEvent::Level::error, "backup_unreachable", {{"shard", std::to_string(shard)}, {"why", why}});
  }
  disconnected(peer, why, now);
}

// The shard of a worker's connection; null: this server is no longer the primary of that shard.
Shard* ServerNode::serving(const Session& session) {
  Shard& shard = *shards_[session.shard];
  return shard.core() ? &shard : nullptr;
}

std::span<std::byte> ServerNode::memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end() || found->second.kind == Session::Kind::fresh)
    throw MalformedMessage("a payload before a hello");
  const Session& session = found->second;
  if (session.kind == Session::Kind::replica)
    return shards_[session.shard]->memory_for(peer, decode_replica_message(head), bytes);
  Shard* const shard = serving(session);
  if (!shard) throw MalformedMessage("a message to a server that serves no longer");
  return shard->core()->memory_for(peer, head, bytes);
}

void ServerNode::received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload,
                          Clock::time_point now) {
  latencies_.read_clock(now);
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) throw MalformedMessage("a message of a peer that is closed");
  Session& session = found->second;
  if (session.kind == Session::Kind::fresh) return greeted(peer, session, head, payload.size(), now);
  if (session.kind == Session::Kind::replica)
    return shards_[session.shard]->received(peer, decode_replica_message(head), payload, now);
  Shard* const shard = serving(session);
  if (!shard) throw MalformedMessage("a message to a server that serves no longer");
  shard->core()->received(peer, head, payload.size(), now, latencies_.arrival(now));
  shard->say(now);  // sends the reply now, before later messages of this poll are handled
}

void ServerNode::greeted(Peer peer, Session& session, std::span<const std::byte> head, std::size_t payload,
                         Clock::time_point now) {
  if (is_admin_message(head)) return administrator_asks(peer, session, decode_admin_request(head));
  if (is_replica_message(head)) {
    const ReplicaMessage message = decode_replica_message(head);
    if (message.kind != ReplicaKind::hello || message.shard >= shards_.size())
      throw MalformedMessage("a message before a hello");
    if (!transport_.roles_of(session.key).server) {
      ++unauthorized_;
      const std::string why = "its key " + session.key + " lacks the role server in comm.allowed";
      log(ServerEvent::Level::warning, "primary_refused",
          {{"shard", std::to_string(message.shard)}, {"why", why}});
      throw MalformedMessage(why);
    }
    session.kind = Session::Kind::replica;
    session.shard = message.shard;
    return shards_[message.shard]->primary_greeted(peer, message);
  }
  const FromWorker message = decode_from_worker(head, payload);
  const auto* hello = std::get_if<Hello>(&message);
  if (!hello) throw MalformedMessage("a request before a hello");
  worker_greeted(peer, session, *hello, head, now);
}

// Handles the request of an administrator. Its connection counts as one that has sent no hello. So it is
// closed after a while if the administrator does not close it.
void ServerNode::administrator_asks(Peer peer, const Session& session, const AdminRequest& wish) {
  const bool drains = wish.what == AdminRequest::What::drain;
  const Versions theirs{wish.oldest, wish.newest}, mine = versions_up_to(options_.protocol);
  std::string why;
  if (common_version(theirs, mine) == 0)
    why = no_common_version("the administrator", theirs, "this server", mine);
  else if (!transport_.roles_of(session.key).admin)
    ++unauthorized_, why = "its key " + session.key + " lacks the role admin in comm.allowed";
  else if (transport_.queued(peer) > 0)
    why = "it has not read the answer before";
  const std::string key = session.key.empty() ? "none: the same user" : session.key;
  if (!why.empty()) {
    transport_.send(peer, {encode(AdminAnswer{.outcome = AdminAnswer::Outcome::refused, .text = why})});
    return log(ServerEvent::Level::warning, "administrator_refused",
               {{"wish", drains ? "drain" : "status"}, {"key", key}, {"why", why}});
  }
  log(drains ? ServerEvent::Level::info : ServerEvent::Level::debug, "administrator",
      {{"wish", drains ? "drain" : "status"}, {"key", key}});
  admin_requests_.emplace_back(peer, wish.what);
}

void ServerNode::tell_administrator(Peer peer, std::string_view text) {
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kMaxAdminText))) {
    AdminAnswer part{.outcome = AdminAnswer::Outcome::part};
    part.text = text.substr(0, kMaxAdminText);
    transport_.send(peer, {encode(part)});
  }
  transport_.send(peer, {encode(AdminAnswer{})});
}

void ServerNode::worker_greeted(Peer peer, Session& session, const Hello& hello,
                                std::span<const std::byte> head, Clock::time_point now) {
  // With a scheduler, this server may have any shard, and the hello says which. Without one it has only its
  // own shard, which refuses a hello with another number.
  const bool any = is_scheduled(options_) && hello.server < shards_.size();
  const std::uint32_t number = any ? hello.server : static_cast<std::uint32_t>(options_.number);
  const auto refuse = [&](const std::string& why, bool for_good = false) {
    Reply reply{.kind = Kind::failed, .clock = for_good ? 0u : 1u};
    reply.text = why;
    transport_.send(peer, {encode(reply)});
  };
  const KeyRoles roles = transport_.roles_of(session.key);
  if (!roles.worker || !roles.may_join(hello.job)) {
    const std::string why = !roles.worker ? "its key lacks the role worker in comm.allowed"
                                          : "its key may not join job '" + hello.job +
                                                "': see jobs: in the server's comm.allowed";
    ++unauthorized_;
    log(ServerEvent::Level::warning, "worker_refused",
        {{"job", hello.job}, {"worker", std::to_string(hello.rank)}, {"key", session.key}, {"why", why}});
    return refuse(why, true);
  }
  if (number >= shards_.size()) return refuse("the scheduler has not said yet what this server keeps");
  Shard& shard = *shards_[number];
  if (const std::string why = shard.reason_not_to_serve(now); !why.empty()) return refuse(why);
  session.kind = Session::Kind::worker;
  session.shard = number;
  shard.core()->connected(peer, session.key);
  shard.core()->received(peer, head, 0, now);
  shard.say(now);
}

// Closes connections that send no hello, since they could stay for ever.
void ServerNode::close_idle(Clock::time_point now) {
  std::vector<Peer> idle;
  for (const auto& [peer, session] : sessions_) {
    if (session.kind == Session::Kind::fresh && now - session.since >= options_.worker_timeout)
      idle.push_back(peer);
  }
  for (const Peer peer : idle) close(peer);
}

void ServerNode::keep_alive(Clock::time_point now) {
  if (now - answered_ < kKeepAliveInterval) return;
  answered_ = now;
  const std::vector<std::byte> answer = encode(Reply{.kind = Kind::done, .number = kPingNumber});
  for (const auto& [peer, session] : sessions_) {
    if (session.kind == Session::Kind::worker) transport_.send(peer, {answer});
  }
}

void ServerNode::tick(Clock::time_point now) {
  close_idle(now);
  for (const auto& shard : shards_) shard->tick(now);
  // A busy backup may delay answers for so long that workers would take this server for dead: tells them that
  // it is alive.
  if (std::any_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->holds_answers(); }))
    return keep_alive(now);
  answered_ = now;
}

void ServerNode::go_on() {
  for (const auto& shard : shards_) shard->go_on(Clock::now());
}

bool ServerNode::has_more() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->has_more(); });
}

void ServerNode::paused(Clock::duration time) {
  for (const auto& shard : shards_) {
    if (shard->core()) shard->core()->paused(time);
  }
}

void ServerNode::drain() {
  draining_ = true;
  for (const auto& shard : shards_) {
    if (shard->core() && !shard->has_backup())
      shard->core()->drain();  // only without a backup, since with one the jobs go on there
  }
}

void ServerNode::finish_snapshots() {
  for (const auto& shard : shards_) shard->finish_snapshot();
}

// Whether the server may end. As long as it is a backup with a complete copy of jobs, it may not.
bool ServerNode::is_drained() const {
  return draining_ && std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) {
           return (!shard->core() || !shard->core()->has_jobs()) && !shard->keeps_copy();
         });
}

std::vector<Peer> ServerNode::peers() const {
  std::vector<Peer> all;
  for (const auto& [peer, session] : sessions_) all.push_back(peer);
  return all;
}

ServerStats ServerNode::stats(Clock::time_point now) const {
  ServerStats stats;
  stats.draining = draining_;
  stats.number = options_.number;
  stats.servers = options_.servers;
  stats.memory_used = *memory_used_;
  stats.requests = latencies_.stats();
  stats.unauthorized = unauthorized_;
  for (const auto& shard : shards_) {
    const std::uint64_t jobs = std::exchange(stats.jobs, 0);
    if (shard->core()) {
      shard->core()->add_to(stats, now);
      stats.memory_used += shard->core()->held_bytes();
    }
    stats.jobs = std::max(stats.jobs, jobs);  // no sum, since a job is counted by every shard
    shard->add_snapshots_to(stats.snapshots, now);
    if (shard->epoch() == 0) continue;
    ShardStats one{.epoch = static_cast<std::int64_t>(shard->epoch())};
    one.shard = static_cast<int>(&shard - shards_.data());
    one.primary = shard->is_primary();
    one.backup = shard->is_backup();
    one.synced = shard->is_synced();
    one.unconfirmed_bytes = shard->log_bytes();
    stats.shards.push_back(one);
  }
  merge_workers(stats.workers);
  return stats;
}

}  // namespace heddle::kv_detail
