#include "membership/member.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace heddle::kv_detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{10}, kLongestPause{250};
// Longest pause between two attempts of a worker that looks for the scheduler in etcd. It is long, since
// there may be many workers.
constexpr milliseconds kLongestWorkersPause{1000};
constexpr milliseconds kUsualInterval{50};
// If the scheduler was silent for kSilence and for kSilentHeartbeats heartbeats, its host may be lost, and
// the connection is made anew.
constexpr milliseconds kSilence{3000};
constexpr int kSilentHeartbeats = 10;

}  // namespace

std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ", process " + std::to_string(::getpid());
}

Member::Member(Transport& transport, MemberOptions self)
    : transport_(transport),
      self_(std::move(self)),
      wanted_number_(self_.number),
      random_(self_.incarnation),
      pause_(kFirstPause) {}

Member::Duration Member::interval() const {
  return registered_.heartbeat == 0
             ? kUsualInterval
             : std::min(kUsualInterval, milliseconds(registered_.heartbeat) / 2 + milliseconds(1));
}

void Member::tick(Time now) {
  if (lost_since_ == Time()) lost_since_ = now;
  if (state_ == State::waiting && now >= next_try_) {
    if (self_.finder && !find(now)) return;
    state_ = State::connecting;
    heard_ = now;
    peer_ = transport_.connect(self_.scheduler);
    return;
  }
  if (state_ != State::asked && state_ != State::registered) return;
  const Duration silence =
      std::max<Duration>(kSilence, kSilentHeartbeats * milliseconds(registered_.heartbeat));
  if (now - heard_ > silence) {
    transport_.close(peer_);
    return lose("it is silent", now);
  }
  if (state_ == State::registered && now >= next_heartbeat_) send_heartbeat(now);
}

// Asks the finder for the scheduler's address. True: it is in self_.scheduler.
bool Member::find(Time now) {
  if (!std::exchange(looking_, true)) self_.finder->look();
  const std::optional<SchedulerFound> found = self_.finder->answer();
  if (!found) return false;
  looking_ = false;
  if (found->address.empty()) {
    why_ = found->why;
    retry_later(now);
    return false;
  }
  self_.scheduler = found->address;
  return true;
}

void Member::send_heartbeat(Time now) {
  next_heartbeat_ = now + milliseconds(registered_.heartbeat);
  Heartbeat heartbeat{.version = views_.version, .leaving = leaving_};
  for (const auto& [shard, epoch] : synced_) heartbeat.synced.push_back({shard, epoch});
  transport_.send(peer_, {encode(heartbeat)});
  if (registered_.protocol < kProven) return;
  for (const auto& [shard, epoch] : lost_) transport_.send(peer_, {encode(BackupLost{shard, epoch})});
}

void Member::connected(Peer peer, Time now) {
  if (!owns(peer)) return;
  state_ = State::asked;
  heard_ = now;
  transport_.send(peer, {encode(Registration{.oldest = self_.versions.oldest,
                                             .newest = self_.versions.newest,
                                             .role = self_.role,
                                             .number = self_.number,
                                             .servers = self_.servers,
                                             .workers = self_.workers,
                                             .replicas = self_.replicas,
                                             .incarnation = self_.incarnation,
                                             .cluster = registered_.cluster,
                                             .version = views_.version,
                                             .job = self_.job,
                                             .address = self_.address,
                                             .process = this_process()})});
}

void Member::disconnected(Peer peer, const std::string& why, Time now) {
  if (owns(peer)) lose(why, now);
}

void Member::cannot_connect(Peer peer, const std::string& why, Time now) {
  if (!owns(peer)) return;
  lose(why, now);
  if (views_.version > 0 || state_ != State::waiting) return;
  state_ = State::refused;
  if (on_refused) on_refused(why_);
}

void Member::lose(const std::string& why, Time now) {
  if (state_ == State::registered) {
    lost_since_ = now;
    pause_ = kFirstPause;
  }
  peer_ = 0;
  if (state_ == State::departed || state_ == State::refused) return;
  state_ = State::waiting;
  why_ = "the scheduler " + self_.scheduler + ": " + why;
  retry_later(now);
}

void Member::retry_later(Time now) {
  // The pause is random, so that the processes that have lost the scheduler do not all connect at once.
  next_try_ = now + pause_ * static_cast<int>(50 + random_() % 100) / 100;
  const bool gently = self_.finder && self_.role == Role::worker;
  pause_ = std::min<Duration>(2 * pause_, gently ? kLongestWorkersPause : kLongestPause);
}

void Member::received(Peer peer, std::span<const std::byte> head, Time now) {
  if (!owns(peer)) return;
  FromScheduler message = decode_from_scheduler(head);
  heard_ = now;
  if (const auto* one = std::get_if<Refused>(&message)) return refused(*one, now);
  if (auto* views = std::get_if<Views>(&message)) {
    take_views(std::move(*views));
    if (state_ == State::registered)
      // Tells the scheduler, which may wait for that, that this process has the new views.
      send_heartbeat(now);
    return;
  }
  if (const auto* status = std::get_if<Status>(&message)) {
    why_ = status->text;
    if (status->over && !std::exchange(over_, true) && on_over) on_over();
    return;
  }
  const Registered& told = std::get<Registered>(message);
  if (!self_.versions.has(told.protocol))
    return refused(
        {0, "it speaks version " + std::to_string(told.protocol) + " of the protocol, this process " +
                std::to_string(self_.versions.oldest) + " to " + std::to_string(self_.versions.newest)},
        now);
  registered_ = told;
  state_ = State::registered;
  why_.clear();
  refused_since_ = {};
  pause_ = kFirstPause;
  // The process keeps its number, also when it registers with a restarted scheduler.
  self_.number = registered_.number;
  send_heartbeat(now);
  if (on_registered) on_registered(registered_);
}

void Member::refused(const Refused& refused, Time now) {
  transport_.close(peer_);
  lose(refused.text, now);
  if (refused_since_ == Time()) refused_since_ = now;
  // A restarted scheduler may have given this process's number to another process. Without views no other
  // process knows this process by its number, so it asks again for the number that it was started with.
  if (views_.version == 0) self_.number = wanted_number_;
  if (refused.retry > 0 && now - refused_since_ < milliseconds(refused.retry)) return;
  state_ = State::refused;
  why_ = "the scheduler " + self_.scheduler + " has refused this process: " + refused.text;
  if (on_refused) on_refused(why_);
}

void Member::take_views(Views views) {
  if (views.version <= views_.version) return;
  for (std::size_t shard = 0; shard < views.shards.size(); ++shard) {
    for (auto* reports : {&synced_, &lost_}) {
      const auto found = reports->find(static_cast<std::uint32_t>(shard));
      if (found != reports->end() && found->second < views.shards[shard].epoch) reports->erase(found);
    }
  }
  views_ = std::move(views);
  if (on_views) on_views(views_);
}

void Member::report_synced(std::uint32_t shard, std::uint64_t epoch) {
  if (shard >= kMostServers) return;
  synced_[shard] = epoch;
  next_heartbeat_ = {};  // a heartbeat is due now
}

void Member::report_lost(std::uint32_t shard, std::uint64_t epoch) {
  if (shard >= kMostServers) return;
  synced_.erase(shard);
  lost_[shard] = epoch;
  next_heartbeat_ = {};  // a heartbeat is due now
}

// Counts the scheduler as heard, since its messages may have come and wait to be read.
void Member::keep_alive(Time now) {
  if (state_ != State::registered) return;
  heard_ = now;
  if (now >= next_heartbeat_) send_heartbeat(now);
}

void Member::leave() {
  if (!std::exchange(leaving_, true)) next_heartbeat_ = {};  // a heartbeat is due now
}

void Member::unregister() {
  if (state_ == State::registered) {
    if (leaving_) send_heartbeat({});  // says again that this process is leaving
    transport_.send(peer_, {encode(Unregister{})});
  }
  state_ = State::departed;
}

}  // namespace heddle::kv_detail
