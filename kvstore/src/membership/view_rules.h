// The rules by which views change. They keep these invariants, whatever processes do:
//
//   - The epoch of a shard grows with each change of the shard, and so does the version of the views with each change.
//   - In each epoch a shard has one primary, which is decided once.
//   - A primary is followed by another process only if that one is its backup or learner, and has all state in exactly this
//     epoch: the primary has reported so, or the two have just changed places (handover). Or else the shard begins anew (fresh).
//     So no push that a server has acknowledged is lost unnoticed.
//   - A backup that has all is not given up for one that has not: who is to follow it is a learner first.
//   - A primary that begins a shard anew is told so before anything else about the shard changes under it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/views.h"

namespace heddle::kv_detail {

// The latest process of a server's number, as far as it decides about views.
struct ServerPresence {
  std::uint64_t incarnation = 0;  // 0: none has come yet
  bool here = false;              // it is not known to be gone
  bool connected = false;         // it is registered, and heard
  bool given_up = false;          // not here, and nobody waits for it any longer
  bool leaving = false;           // it asks others to have what it has
  bool left = false;              // it has done so, was told to end, and is not here
  std::uint64_t version = 0;      // of the newest views that it has
};

struct ViewChange {
  enum class Why : std::uint8_t {
    begun,
    failover,
    backup_gone,
    backup_added,
    handed_over,
    handed_back,
    lost,
    learner_added,
    learner_gone
  };
  Why why;
  std::uint32_t shard;
  ShardView before, after;
};

class ViewRules {
 public:
  // `replicas`: copies of each shard, 1 or 2. `views` and `synced`: as they were saved; without shards: there are none yet.
  ViewRules(std::uint32_t servers, std::uint32_t replicas, Views views,
            const std::vector<std::uint64_t>& synced);

  const Views& views() const { return views_; }
  bool has_begun() const { return views_.version > 0; }
  bool is_synced(std::uint32_t shard) const { return notes_[shard].synced; }  // the backup has all state
  std::vector<std::uint64_t> synced()
      const;  // by shard: the epoch, if the backup has all state in it, else 0
  void set_replicas(std::uint32_t replicas) { replicas_ = replicas; }

  // A process says that the backup, or learner, whose copy has this number has all state of the shard. True if it is the shard's
  // primary, and the news of its backup is to be saved: whoever knows of it may be gone when it is needed.
  bool report_synced(std::uint32_t shard, std::uint64_t copy, std::uint64_t reporter);
  // The same: it has lost the state, and its copy is to begin anew. True: the views are to be updated.
  bool report_lost(std::uint32_t shard, std::uint64_t copy, std::uint64_t reporter);
  // The first views, once all servers have come; then all changes that `servers`, by number, and reports ask for. The
  // version has grown if anything has changed. To be called again whenever one of these changes.
  std::vector<ViewChange> update(const std::vector<ServerPresence>& servers, std::vector<ServerInfo> infos);
  // True, once, when all parts have complete backups again after one of them had lost its own, or its primary.
  bool take_recovery();

 private:
  using Servers = std::vector<ServerPresence>;
  struct Note {
    bool synced = false;                                // the backup, in this epoch
    bool lost = false;                                  // the backup has lost the state of this epoch
    bool learner_synced = false, learner_lost = false;  // the same
    bool moves_home = false;    // this epoch is a step on the way back to the server of the shard's number
    std::uint64_t version = 0;  // of the views that this epoch was new in
    std::uint32_t primary_number{};  // of the primary, which another process may have taken since
  };
  void begin(const Servers& servers, std::vector<ViewChange>& changes);
  bool step(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool replace_primary(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool add_backup(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool let_leave(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool drop_gone(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool replace_leaving(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool move_home(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool go_home(std::uint32_t shard, const Servers& servers, std::vector<ViewChange>& changes);
  bool is_moving(std::uint64_t incarnation) const;
  bool can_learn(std::uint64_t primary, std::uint64_t learner) const;
  std::uint64_t best_backup(std::uint32_t shard, const Servers& servers) const;
  const ServerPresence* successor(std::uint32_t shard, const Servers& servers) const;
  std::size_t load(std::uint64_t incarnation) const;
  void replace_backup(std::uint32_t shard, std::vector<ViewChange>& changes);
  void set_learner(std::uint32_t shard, std::uint64_t learner, std::vector<ViewChange>& changes);
  void change(std::uint32_t shard, ShardView after, ViewChange::Why why, std::vector<ViewChange>& changes);

  const std::uint32_t servers_;
  std::uint32_t replicas_;
  Views views_;
  std::vector<Note> notes_;      // by shard
  bool copies_missing_ = false;  // since a loss, or an orderly end
};

std::string name_of(ViewChange::Why why);  // as the event is called in the log

}  // namespace heddle::kv_detail
