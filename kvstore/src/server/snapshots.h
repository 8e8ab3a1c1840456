// The snapshots of one server's core: restores it at the start, and writes its state every now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/server.h>

#include "server/server_core.h"
#include "server/state_saver.h"
#include "snapshot/background_writer.h"
#include "snapshot/snapshot_folder.h"

namespace heddle::kv_detail {

// For the server's thread, where the engine of the core is current.
class Snapshots {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;
  using Log = std::function<void(ServerEvent::Level, const char* name, Fields)>;
  // `incarnation`: of the process. Throws Error if the folder cannot be made or read, or is another process's.
  Snapshots(const ServerOptions& options, std::uint64_t incarnation, ServerCore& core, Log log);

  // Loads the newest snapshot of this server that is good, if there is any, into the core, which is empty. Jobs that begin
  // after it are told apart by `jobs`, a random number. Throws Error if there are snapshots and none of them can be taken:
  // whoever runs the server has to decide.
  void restore(std::uint64_t jobs);

  // The core has a state that is in no snapshot.
  void adopt() { failed_ = true; }
  // Begins a snapshot when it is due, and says in the log what became of it. To be called every second or so.
  void tick(Clock::time_point now);
  // The state as it is now is on the disk, or an event says why it is not. Blocks.
  void finish();
  // Goes on with the snapshot that was begun, for a moment. Whether there is one; begins none.
  bool go_on();
  bool has_more() const { return saver_ || (writer_ && writer_->has_written()); }  // for go_on(), at once
  // The core is not to be used any longer: gives up a snapshot of which not all is collected.
  void leave_core();
  // Waits for what is written then.
  void finish_writing() {
    if (writer_) end();
  }
  SnapshotStats stats(Clock::time_point now) const;

 private:
  std::string load(const SnapshotName& name, std::uint64_t jobs);
  bool has_changed() const;
  bool is_due(Clock::time_point now) const;
  void begin(Clock::time_point now);
  void collect(std::size_t keys);
  void end();
  void fail(const std::string& why);

  const ServerOptions options_;
  const std::uint64_t incarnation_;
  ServerCore& core_;
  const Log log_;
  const SnapshotLock lock_;
  std::uint64_t next_sequence_ = 1;
  std::unique_ptr<BackgroundWriter> writer_{};  // null: nothing is being written
  std::unique_ptr<StateSaver> saver_{};         // of what is written; null: all is collected
  Clock::duration collecting_{};                // the time that this has taken
  Clock::time_point next_, begun_;
  // What the core had counted when the latest snapshot was begun, and when all of it was on the disk for the last time.
  std::uint64_t changes_ = 0, jobs_ended_ = 0;
  bool was_draining_ = false, failed_ = false;
  Clock::time_point all_saved_;
  SnapshotStats stats_;
};

}  // namespace heddle::kv_detail
