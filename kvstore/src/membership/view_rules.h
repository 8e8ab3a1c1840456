// The rules by which views change. They keep these invariants, whatever processes do:
//
//   - The epoch of a shard grows with each change of the shard, and so does the version of the views.
//   - In each epoch a shard has one primary, which is decided once.
//   - The next primary is the backup or the learner, provided that this server has all state in exactly this
//     epoch: the primary has reported so, or primary and backup have just exchanged roles (handover).
//     Otherwise the shard begins anew (fresh). So no acknowledged push is lost unnoticed.
//   - A backup that has all state is not replaced by a server without it: such a server is a learner first.
//   - A primary that begins a shard anew sees that epoch before anything else about the shard changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/views.h"

namespace heddle::kv_detail {

// What view rules need to know of the latest process with some server number.
struct ServerPresence {
  std::uint64_t incarnation = 0;  // 0: no process has registered yet
  bool here = false;              // whether the process is not known to be gone
  bool connected = false;         // whether the process has a connection to the scheduler
  bool given_up = false;          // whether the process is gone and no longer waited for
  bool leaving = false;           // whether the process asks to hand its shards to other servers
  bool left = false;              // whether the process was leaving, was told to end, and is gone
  std::uint64_t version = 0;      // version of the newest views that the process has
};

struct ViewChange {
  enum class Why : std::uint8_t {
    begun,
    failover,
    backup_gone,
    backup_added,
    handed_over,
    returned,
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
  // `replicas`: copies of each shard, 1 or 2. `views` and `synced`: the saved ones; they are empty for a new
  // cluster.
  ViewRules(std::uint32_t servers, std::uint32_t replicas, Views views,
            const std::vector<std::uint64_t>& synced);

  const Views& views() const { return views_; }
  bool has_begun() const { return views_.version > 0; }
  // Whether the backup of the shard has all state.
  bool is_synced(std::uint32_t shard) const { return notes_[shard].synced; }
  // For each shard its epoch if its backup has all state, else 0.
  std::vector<std::uint64_t> synced() const;
  void set_replicas(std::uint32_t replicas) { replicas_ = replicas; }

  // Called when a primary reports that the copy with this number, of its backup or learner, has all state of
  // the shard. True: the backup had not been reported before. This has to be saved, since it is needed when
  // the primary is gone.
  bool report_synced(std::uint32_t shard, std::uint64_t copy, std::uint64_t reporter);
  // Called when a primary reports that the copy with this number has lost its state. True: update() has to be
  // called.
  bool report_lost(std::uint32_t shard, std::uint64_t copy, std::uint64_t reporter);
  // Makes the first views once all servers are connected, and later all changes of views that the state of
  // `servers`, which is indexed by number, and the reports require. The version of the views grows if
  // anything has changed. To be called when `servers` have changed, or a report has come.
  std::vector<ViewChange> update(const std::vector<ServerPresence>& servers, std::vector<ServerInfo> infos);
  // Returns true once when all shards have complete backups again, after a shard had lost its backup or
  // primary.
  bool take_recovery();

 private:
  using Servers = std::vector<ServerPresence>;
  struct Note {
    bool synced = false;  // whether the backup has all state of this epoch
    bool lost = false;    // whether the backup has lost state of this epoch
    // learner_synced: whether the learner has all state. learner_lost: whether the learner has lost state.
    bool learner_synced = false, learner_lost = false;
    bool moves_home = false;         // whether the shard is being moved to the server of the shard's number
    std::uint64_t version = 0;       // version of the first views that had this epoch
    std::uint32_t primary_number{};  // server number of the primary, also after another process has taken it
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
  std::vector<Note> notes_;      // indexed by shard
  bool copies_missing_ = false;  // whether a shard has lost its backup or primary since take_recovery()
};

std::string name_of(ViewChange::Why why);  // name of the event that logs such a change

}  // namespace heddle::kv_detail
