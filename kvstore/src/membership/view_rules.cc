#include "membership/view_rules.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

const ServerPresence* find(const std::vector<ServerPresence>& servers, std::uint64_t incarnation) {
  if (incarnation == 0) return nullptr;
  for (const ServerPresence& one : servers) {
    if (one.incarnation == incarnation) return &one;
  }
  return nullptr;
}

bool is_here(const ServerPresence* server) { return server && server->here; }
bool stays(const ServerPresence* server) { return server && server->connected && !server->leaving; }
bool may_return(const ServerPresence* server) { return server && !server->given_up; }

}  // namespace

ViewRules::ViewRules(std::uint32_t servers, std::uint32_t replicas, Views views,
                     const std::vector<std::uint64_t>& synced)
    : servers_(servers), replicas_(replicas), views_(std::move(views)), notes_(servers) {
  for (std::uint32_t shard = 0; shard < servers_; ++shard) {
    // Which version brought the epoch is not known any longer: a primary has to have seen all.
    notes_[shard].version = views_.version;
    notes_[shard].primary_number = shard;
    if (!has_begun()) continue;
    notes_[shard].synced = shard < synced.size() && synced[shard] == views_.shards[shard].epoch;
    if (const ServerInfo* primary = find_server(views_, views_.shards[shard].primary))
      notes_[shard].primary_number = primary->number;
  }
}

bool ViewRules::report_synced(std::uint32_t shard, std::uint64_t epoch, std::uint64_t reporter) {
  if (!has_begun() || shard >= servers_) return false;
  const ShardView& view = views_.shards[shard];
  if (view.epoch != epoch || view.primary != reporter || view.backup == 0) return false;
  if (notes_[shard].synced || notes_[shard].lost) return false;
  notes_[shard].synced = true;
  // The step is done: a shard that is home may have others move.
  notes_[shard].moves_home = notes_[shard].moves_home && notes_[shard].primary_number != shard;
  return true;
}

bool ViewRules::report_lost(std::uint32_t shard, std::uint64_t epoch, std::uint64_t reporter) {
  if (!has_begun() || shard >= servers_) return false;
  const ShardView& view = views_.shards[shard];
  if (view.epoch != epoch || view.primary != reporter || view.backup == 0) return false;
  notes_[shard].synced = false;
  return !std::exchange(notes_[shard].lost, true);
}

std::vector<std::uint64_t> ViewRules::synced() const {
  std::vector<std::uint64_t> epochs;
  for (std::size_t shard = 0; shard < views_.shards.size(); ++shard)
    epochs.push_back(notes_[shard].synced ? views_.shards[shard].epoch : 0);
  return epochs;
}

std::vector<ViewChange> ViewRules::update(const Servers& servers, std::vector<ServerInfo> infos) {
  std::vector<ViewChange> changes;
  if (!has_begun()) {
    const bool complete =
        std::all_of(servers.begin(), servers.end(), [](const ServerPresence& one) { return one.connected; });
    if (!complete) return {};
    begin(servers, changes);
  }
  const bool other_servers = infos != views_.servers;
  views_.servers = std::move(infos);
  for (std::uint32_t shard = 0; shard < servers_; ++shard) {
    while (step(shard, servers, changes)) continue;
  }
  if (!changes.empty() || other_servers) ++views_.version;
  for (const ViewChange& one : changes) notes_[one.shard].version = views_.version;
  return changes;
}

void ViewRules::begin(const Servers& servers, std::vector<ViewChange>& changes) {
  views_.shards.resize(servers_);
  for (std::uint32_t shard = 0; shard < servers_; ++shard) {
    const bool copies = replicas_ > 1 && servers_ > 1;
    change(shard,
           {.primary = servers[shard].incarnation,
            .backup = copies ? servers[(shard + 1) % servers_].incarnation : 0,
            .fresh = true},
           ViewChange::Why::begun, changes);
    notes_[shard].version = views_.version + 1;
  }
}

// One change of a shard, if there is one to make.
bool ViewRules::step(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence* primary = find(servers, view.primary);
  if (!is_here(primary)) return replace_primary(shard, servers, changes);
  // A primary that begins anew must not be shown a later epoch first, which would not say so.
  if (view.fresh && primary->version < notes_[shard].version) return false;
  if (view.backup != 0 && (notes_[shard].lost || !is_here(find(servers, view.backup)))) {
    change(shard, {.primary = view.primary}, ViewChange::Why::backup_gone, changes);
    return true;
  }
  if (let_leave(shard, servers, changes)) return true;
  if (replicas_ < 2) return false;
  return view.backup == 0 ? add_backup(shard, servers, changes) : move_home(shard, servers, changes);
}

// A server that leaves is the primary until a backup that stays has all. Two that leave at one time keep what they have.
bool ViewRules::let_leave(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence *const primary = find(servers, view.primary), *const backup =
                                                                         find(servers, view.backup);
  if (!backup) return false;
  if (primary->leaving && notes_[shard].synced && stays(backup)) {
    change(shard, {.primary = view.backup}, ViewChange::Why::handed_over, changes);
    return true;
  }
  if (!backup->leaving || primary->leaving) return false;
  change(shard, {.primary = view.primary}, ViewChange::Why::backup_gone, changes);
  return true;
}

bool ViewRules::replace_primary(std::uint32_t shard, const Servers& servers,
                                std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence* backup = find(servers, view.backup);
  const bool synced = notes_[shard].synced || (view.handover && view.backup != 0 && !notes_[shard].lost);
  if (synced && backup && backup->connected) {
    change(shard, {.primary = view.backup}, ViewChange::Why::failover, changes);
    return true;
  }
  // Either of them has all state, and may have lost no more than its connection.
  if (may_return(find(servers, view.primary)) || (synced && may_return(backup))) return false;
  const ServerPresence* next = successor(shard, servers);
  if (!next) return false;
  change(shard, {.primary = next->incarnation, .fresh = true}, ViewChange::Why::lost, changes);
  // Nothing follows in these views: the successor has to see this epoch.
  notes_[shard].version = views_.version + 1;
  return true;
}

// The server that begins a shard anew: the process of the same number, which may have a snapshot; if that is given up, any.
const ServerPresence* ViewRules::successor(std::uint32_t shard, const Servers& servers) const {
  const ServerPresence& same = servers[notes_[shard].primary_number];
  if (same.connected) return &same;
  if (!same.given_up) return nullptr;
  if (servers[shard].connected) return &servers[shard];
  const ServerPresence* best = nullptr;
  for (const ServerPresence& one : servers) {
    if (one.connected && (!best || load(one.incarnation) < load(best->incarnation))) best = &one;
  }
  return best;
}

bool ViewRules::add_backup(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const std::uint64_t primary = views_.shards[shard].primary, backup = best_backup(shard, servers);
  if (backup == 0) return false;
  change(shard, {.primary = primary, .backup = backup}, ViewChange::Why::backup_added, changes);
  return true;
}

// The server of the shard's number, which gets its shard back; else the one that keeps the fewest.
std::uint64_t ViewRules::best_backup(std::uint32_t shard, const Servers& servers) const {
  const std::uint64_t primary = views_.shards[shard].primary;
  std::uint64_t best = 0;
  std::size_t least = 0;
  for (std::uint32_t distance = 0; distance < servers_; ++distance) {
    const ServerPresence& one = servers[(shard + distance) % servers_];
    if (!stays(&one) || one.incarnation == primary) continue;
    if (distance == 0) return one.incarnation;
    const std::size_t shards = load(one.incarnation);
    if (best == 0 || shards < least) best = one.incarnation, least = shards;
  }
  return best;
}

// A server that has come back gets the shard of its number: first as its backup, then as its primary. While the primary may
// be about to be gone, a backup that has all is not given up for one that has nothing yet.
bool ViewRules::move_home(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView view = views_.shards[shard];
  const ServerPresence& home = servers[shard];
  if (!stays(&home) || home.incarnation == view.primary || !notes_[shard].synced) return false;
  const ServerPresence* primary = find(servers, view.primary);
  if (!primary || !primary->connected) return false;
  const bool mine = notes_[shard].moves_home;
  if (!mine && (is_moving(home.incarnation) || is_moving(view.primary))) return false;
  if (view.backup == home.incarnation) {
    change(shard, {.primary = home.incarnation, .backup = view.primary, .handover = true},
           ViewChange::Why::handed_back, changes);
  } else {
    change(shard, {.primary = view.primary, .backup = home.incarnation}, ViewChange::Why::backup_added,
           changes);
  }
  notes_[shard].moves_home = true;
  return true;
}

// A server takes part in one such move at a time: it costs a copy of the shard.
bool ViewRules::is_moving(std::uint64_t incarnation) const {
  for (std::uint32_t shard = 0; shard < servers_; ++shard) {
    const ShardView& view = views_.shards[shard];
    if (notes_[shard].moves_home && (view.primary == incarnation || view.backup == incarnation)) return true;
  }
  return false;
}

std::size_t ViewRules::load(std::uint64_t incarnation) const {
  return static_cast<std::size_t>(
      std::count_if(views_.shards.begin(), views_.shards.end(), [incarnation](const ShardView& view) {
        return view.primary == incarnation || view.backup == incarnation;
      }));
}

void ViewRules::change(std::uint32_t shard, ShardView after, ViewChange::Why why,
                       std::vector<ViewChange>& changes) {
  ShardView& view = views_.shards[shard];
  after.epoch = view.epoch + 1;
  changes.push_back({why, shard, view, after});
  view = after;
  Note& note = notes_[shard];
  note.synced = note.lost = note.moves_home = false;
  if (const ServerInfo* primary = find_server(views_, after.primary)) note.primary_number = primary->number;
}

std::string name_of(ViewChange::Why why) {
  switch (why) {
    case ViewChange::Why::begun:
      return "shard_begun";
    case ViewChange::Why::failover:
      return "shard_failed_over";
    case ViewChange::Why::backup_gone:
      return "backup_gone";
    case ViewChange::Why::backup_added:
      return "backup_added";
    case ViewChange::Why::handed_over:
      return "shard_handed_over";
    case ViewChange::Why::handed_back:
      return "shard_handed_back";
    case ViewChange::Why::lost:
      return "shard_lost";
  }
  return "shard_changed";
}

}  // namespace heddle::kv_detail
