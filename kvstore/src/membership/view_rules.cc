#include "membership/view_rules.h"

#include <algorithm>
#include <utility>

#include "wire/protocol.h"

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
    // After a restart of the scheduler it is not known which views had the shard's epoch first. So the newest
    // views are taken for them, which the primary has to see.
    notes_[shard].version = views_.version;
    notes_[shard].primary_number = shard;
    if (!has_begun()) continue;
    notes_[shard].synced = shard < synced.size() && synced[shard] == views_.shards[shard].epoch;
    if (const ServerInfo* primary = find_server(views_, views_.shards[shard].primary))
      notes_[shard].primary_number = primary->number;
    copies_missing_ = copies_missing_ || !notes_[shard].synced;
  }
}

bool ViewRules::take_recovery() {
  const auto complete = [](const Note& note) { return note.synced; };
  return copies_missing_ && std::all_of(notes_.begin(), notes_.end(), complete) &&
         std::exchange(copies_missing_, false);
}

bool ViewRules::report_synced(std::uint32_t shard, std::uint64_t copy, std::uint64_t reporter) {
  if (!has_begun() || shard >= servers_ || views_.shards[shard].primary != reporter) return false;
  const ShardView& view = views_.shards[shard];
  Note& note = notes_[shard];
  if (view.learner != 0 && view.learner_copy == copy) note.learner_synced = !note.learner_lost;
  if (view.backup == 0 || copy_of(view) != copy || note.synced || note.lost) return false;
  note.synced = true;
  // When the server of the shard's number is the primary, and has a backup again, the move is over.
  note.moves_home = note.moves_home && note.primary_number != shard;
  return true;
}

bool ViewRules::report_lost(std::uint32_t shard, std::uint64_t copy, std::uint64_t reporter) {
  if (!has_begun() || shard >= servers_ || views_.shards[shard].primary != reporter) return false;
  const ShardView& view = views_.shards[shard];
  Note& note = notes_[shard];
  if (view.learner != 0 && view.learner_copy == copy) {
    note.learner_synced = false;
    return !std::exchange(note.learner_lost, true);
  }
  if (view.backup == 0 || copy_of(view) != copy) return false;
  note.synced = false;
  return !std::exchange(note.lost, true);
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
  for (const ViewChange& one : changes) {
    if (one.after.epoch != one.before.epoch) notes_[one.shard].version = views_.version;
  }
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

// Makes one change of the shard's view, if there is one to make. Returns whether it did.
bool ViewRules::step(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence* primary = find(servers, view.primary);
  if (!is_here(primary)) return replace_primary(shard, servers, changes);
  // A primary that begins the shard anew must see this epoch before the next one, since only this epoch tells
  // it to do so.
  if (view.fresh && primary->version < notes_[shard].version) return false;
  if (drop_gone(shard, servers, changes) || let_leave(shard, servers, changes)) return true;
  if (replicas_ < 2) return false;
  return view.backup == 0 ? add_backup(shard, servers, changes) : move_home(shard, servers, changes);
}

// Removes a learner or backup that is gone or has lost its state.
bool ViewRules::drop_gone(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const Note& note = notes_[shard];
  const ServerPresence* learner = find(servers, view.learner);
  if (view.learner != 0 && (note.learner_lost || !is_here(learner) || learner->leaving)) {
    set_learner(shard, 0, changes);
    return true;
  }
  if (view.backup == 0 || (!note.lost && is_here(find(servers, view.backup)))) return false;
  replace_backup(shard, changes);
  return true;
}

// Handles the wish of primary or backup to leave. A primary that leaves stays the primary until a backup or
// learner that does not leave has all state. If primary and backup leave at one time, and there is no third
// server, both stay.
bool ViewRules::let_leave(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence *const primary = find(servers, view.primary), *const backup =
                                                                         find(servers, view.backup);
  if (!backup) return false;
  if (primary->leaving && notes_[shard].synced && stays(backup)) {
    change(shard, {.primary = view.backup}, ViewChange::Why::handed_over, changes);
    return true;
  }
  if (primary->leaving && notes_[shard].learner_synced && stays(find(servers, view.learner))) {
    change(shard, {.primary = view.learner}, ViewChange::Why::handed_over, changes);
    return true;
  }
  return backup->leaving && replace_leaving(shard, servers, changes);
}

// Replaces a backup that leaves. If another server can get a copy, the backup keeps its own until that copy
// is complete.
bool ViewRules::replace_leaving(std::uint32_t shard, const Servers& servers,
                                std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const bool primary_leaves = find(servers, view.primary)->leaving;
  if (view.learner != 0) {
    if (primary_leaves || !notes_[shard].learner_synced) return false;
    replace_backup(shard, changes);
    return true;
  }
  const std::uint64_t next = best_backup(shard, servers);
  if (next != 0 && notes_[shard].synced && can_learn(view.primary, next)) {
    set_learner(shard, next, changes);
    return true;
  }
  if (primary_leaves) return false;
  replace_backup(shard, changes);
  return true;
}

bool ViewRules::replace_primary(std::uint32_t shard, const Servers& servers,
                                std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence *const primary = find(servers, view.primary), *const backup =
                                                                         find(servers, view.backup);
  // A primary may leave without handing the shard over if its backup leaves, too. The change is then no
  // failover.
  const auto why = primary && primary->left ? ViewChange::Why::handed_over : ViewChange::Why::failover;
  const bool synced = notes_[shard].synced || (view.handover && view.backup != 0 && !notes_[shard].lost);
  if (synced && backup && backup->connected) {
    change(shard, {.primary = view.backup}, why, changes);
    return true;
  }
  const ServerPresence* learner = find(servers, view.learner);
  if (notes_[shard].learner_synced && learner && learner->connected) {
    change(shard, {.primary = view.learner}, why, changes);
    return true;
  }
  // If a server with all state may come back, because it has only lost its connection, the shard waits for
  // this server.
  if (may_return(primary) || (synced && may_return(backup)) ||
      (notes_[shard].learner_synced && may_return(learner)))
    return false;
  const ServerPresence* next = successor(shard, servers);
  if (!next) return false;
  change(shard, {.primary = next->incarnation, .fresh = true}, ViewChange::Why::lost, changes);
  // The shard must not change again before the successor has seen this epoch: these views will be the first
  // with it.
  notes_[shard].version = views_.version + 1;
  return true;
}

// The server that begins a shard anew. It is the process with the former primary's number, which may have a
// snapshot of the shard. If that process is given up, it is the server of the shard's number, or else the one
// that keeps the fewest shards.
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

// The best server for a new backup: the server of the shard's number, which can then get its shard back, or
// else the server that keeps the fewest shards. 0: there is none.
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

// Makes a step of the move of a shard back to the server of its number, which gets a copy and then becomes
// the primary. A backup that has all state is kept until that copy is complete.
bool ViewRules::move_home(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView& view = views_.shards[shard];
  const ServerPresence& home = servers[shard];
  if (!stays(&home) || home.incarnation == view.primary || !notes_[shard].synced) return false;
  const ServerPresence* primary = find(servers, view.primary);
  if (!primary || !primary->connected) return false;
  const bool mine = notes_[shard].moves_home;
  if (!mine && (is_moving(home.incarnation) || is_moving(view.primary))) return false;
  return go_home(shard, servers, changes);
}

bool ViewRules::go_home(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes) {
  const ShardView view = views_.shards[shard];
  const std::uint64_t home = servers[shard].incarnation;
  if (view.backup == home || (view.learner == home && notes_[shard].learner_synced)) {
    change(shard, {.primary = home, .backup = view.primary, .handover = true}, ViewChange::Why::returned,
           changes);
  } else if (view.learner != 0) {
    return false;
  } else if (can_learn(view.primary, home)) {
    set_learner(shard, home, changes);
  } else {
    change(shard, {.primary = view.primary, .backup = home}, ViewChange::Why::backup_added, changes);
  }
  notes_[shard].moves_home = true;
  return true;
}

// Whether the server takes part in a move of a shard by move_home(). It may take part in one such move at a
// time, as each move costs a copy of the shard.
bool ViewRules::is_moving(std::uint64_t incarnation) const {
  for (std::uint32_t shard = 0; shard < servers_; ++shard) {
    const ShardView& view = views_.shards[shard];
    const bool part =
        view.primary == incarnation || view.backup == incarnation || view.learner == incarnation;
    if (notes_[shard].moves_home && part) return true;
  }
  return false;
}

// True if `primary` and `learner` speak a protocol version with learners.
bool ViewRules::can_learn(std::uint64_t primary, std::uint64_t learner) const {
  const ServerInfo *const from = find_server(views_, primary), *const to = find_server(views_, learner);
  return from && to && std::min(from->protocol, to->protocol) >= kLearners;
}

std::size_t ViewRules::load(std::uint64_t incarnation) const {
  return static_cast<std::size_t>(
      std::count_if(views_.shards.begin(), views_.shards.end(), [incarnation](const ShardView& view) {
        return view.primary == incarnation || view.backup == incarnation || view.learner == incarnation;
      }));
}

// Makes the learner the backup, with the copy that it has got so far. Without a learner there is no backup
// then.
void ViewRules::replace_backup(std::uint32_t shard, std::vector<ViewChange>& changes) {
  const ShardView view = views_.shards[shard];
  const bool synced = notes_[shard].learner_synced, missing = copies_missing_;
  ShardView after{.primary = view.primary, .backup = view.learner};
  if (view.learner != 0) after.copy = view.learner_copy;
  change(shard, after, ViewChange::Why::backup_gone, changes);
  notes_[shard].synced = synced;
  if (synced) copies_missing_ = missing;
}

// Sets or, with `learner` 0, removes the learner. The epoch does not change, since primary and backup do not.
void ViewRules::set_learner(std::uint32_t shard, std::uint64_t learner, std::vector<ViewChange>& changes) {
  ShardView& view = views_.shards[shard];
  const ShardView before = view;
  view.learner = learner;
  if (learner != 0) view.learner_copy = std::max(view.epoch, view.learner_copy) + 1;
  changes.push_back(
      {learner != 0 ? ViewChange::Why::learner_added : ViewChange::Why::learner_gone, shard, before, view});
  Note& note = notes_[shard];
  note.learner_synced = note.learner_lost = note.moves_home = false;
}

void ViewRules::change(std::uint32_t shard, ShardView after, ViewChange::Why why,
                       std::vector<ViewChange>& changes) {
  ShardView& view = views_.shards[shard];
  after.epoch = std::max(view.epoch, view.learner_copy) + 1;
  changes.push_back({why, shard, view, after});
  view = after;
  using Why = ViewChange::Why;
  copies_missing_ = copies_missing_ || why == Why::failover || why == Why::backup_gone ||
                    why == Why::handed_over || why == Why::lost;
  Note& note = notes_[shard];
  note.synced = note.lost = note.learner_synced = note.learner_lost = note.moves_home = false;
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
    case ViewChange::Why::returned:
      return "shard_handed_back";
    case ViewChange::Why::lost:
      return "shard_lost";
    case ViewChange::Why::learner_added:
      return "learner_added";
    case ViewChange::Why::learner_gone:
      return "learner_gone";
  }
  return "shard_changed";
}

}  // namespace heddle::kv_detail
