// The snapshots of one server's core: restores it at the start, and writes its state periodically.
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
#include "server/state/state_saver.h"
#include "snapshot/background_writer.h"
#include "snapshot/snapshot_folder.h"

namespace heddle::kv_detail {

// All functions are called on the server's thread, where the core's engine is the current engine.
class Snapshots {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;
  using Log = std::function<void(ServerEvent::Level, const char* name, Fields)>;
  // `incarnation`: incarnation of the process. Throws Error if the folder is unusable or in use by another
  // process.
  Snapshots(const ServerOptions& options, std::uint64_t incarnation, ServerCore& core, Log log);

  // Loads the newest valid snapshot of this server, if there is any, into the core, which is empty. `jobs`, a
  // random number, makes incarnations of later jobs unique. Throws Error if there are snapshots and none is
  // valid: whoever runs the server has to decide.
  void restore(std::uint64_t jobs);

  // Called when the core has a state that is in no snapshot. The state then counts as changed.
  void adopt() { failed_ = true; }
  // Begins a snapshot when it is due, and logs the result. To be called every second or so.
  void tick(Clock::time_point now);
  // Writes the present state to the disk, or logs why it cannot. Blocks.
  void finish();
  // Does a piece of work on the snapshot that was begun, if there is one. Returns whether that is not
  // finished yet.
  bool go_on();
  // Whether go_on() has work to do.
  bool has_more() const { return saver_ || (writer_ && writer_->has_written()); }
  // Called when the core is not used any longer. Gives up a snapshot that is not collected completely.
  void leave_core();
  // Waits for a snapshot that is collected completely to be written.
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
  std::unique_ptr<BackgroundWriter> writer_{};  // null: no snapshot is being written
  std::unique_ptr<StateSaver> saver_{};         // collects the state to write; null: all is collected
  Clock::duration collecting_{};                // time that collecting the latest snapshot has taken so far
  Clock::time_point next_, begun_;
  // changes_, jobs_ended_: counts of the core when the latest snapshot was begun. all_saved_: latest moment
  // whose whole state is on the disk; without one, the start.
  std::uint64_t changes_ = 0, jobs_ended_ = 0;
  bool was_draining_ = false, failed_ = false;
  Clock::time_point all_saved_;
  SnapshotStats stats_;
};

}  // namespace heddle::kv_detail
