#include "server/state/snapshots.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <utility>

#include <heddle/number_text.h>

#include "server/replica/keep_alive.h"
#include "server/state/state_stream.h"

namespace heddle::kv_detail {
namespace {

using Level = ServerEvent::Level;

// The interval between two snapshots is at least this many times the time that collecting one has taken.
constexpr int kLeastPause = 10;

std::string seconds_text(double seconds) { return fixed_text(seconds, 3) + "s"; }

}  // namespace

Snapshots::Snapshots(const ServerOptions& options, std::uint64_t incarnation, ServerCore& core, Log log)
    : options_(options),
      incarnation_(incarnation),
      core_(core),
      log_(std::move(log)),
      lock_(options.snapshots, static_cast<std::uint32_t>(options.number),
            static_cast<std::uint32_t>(options.servers)),
      next_(Clock::now() + options.snapshot_interval),
      begun_(Clock::now()),
      all_saved_(begun_) {
  stats_.kept = true;
  if (::access(options_.snapshots.c_str(), W_OK | X_OK) != 0)
    log_(Level::error, "snapshots_not_writable",
         {{"folder", options_.snapshots}, {"why", std::strerror(errno)}, {"then", "none can be written"}});
  const auto all = snapshots_of(options_.snapshots, static_cast<std::uint32_t>(options_.number),
                                static_cast<std::uint32_t>(options_.servers));
  if (!all.empty()) next_sequence_ = all.front().sequence + 1;
}

void Snapshots::restore(std::uint64_t jobs) {
  const auto number = static_cast<std::uint32_t>(options_.number),
             servers = static_cast<std::uint32_t>(options_.servers);
  const std::vector<SnapshotName> all = snapshots_of(options_.snapshots, number, servers);
  std::string newest;
  for (const SnapshotName& one : all) {
    const std::string why = load(one, jobs);
    if (why.empty()) return;
    log_(Level::error, "snapshot_refused", {{"why", why}});
    if (newest.empty()) newest = why;
  }
  if (!all.empty()) {
    throw Error("none of the " + std::to_string(all.size()) + " snapshots of server " +
                std::to_string(number) + " of " + std::to_string(servers) + " in " + options_.snapshots +
                " can be read; move them away to start without what they hold. The newest: " + newest);
  }
  for (const SnapshotName& one : snapshots_in(options_.snapshots)) {
    if (one.servers == servers) continue;
    throw Error(options_.snapshots + " has snapshots of a job set of " + std::to_string(one.servers) +
                " servers, and this is one of " + std::to_string(servers) + ": heddle server restore " +
                options_.snapshots + " --servers " + std::to_string(servers) +
                " --out DIR makes those, and another folder begins anew");
  }
}

// Loads a snapshot. Returns why it cannot be loaded; empty: it is loaded.
std::string Snapshots::load(const SnapshotName& name, std::uint64_t jobs) {
  try {
    SnapshotReader reader(name.path);
    {
      StateLoader loader(core_);
      std::vector<std::byte> head, payload;
      try {
        for (; reader.next(head, payload); keep_alive()) loader.add(head, payload);
      } catch (const MalformedMessage& error) {
        reader.refuse(error.what());
      }
      if (!loader.complete()) reader.refuse("the state is not complete");
    }
    const std::string when = utc_text(reader.header().time);
    core_.restored(when, jobs);
    changes_ = core_.changes();
    jobs_ended_ = core_.jobs_ended();
    const ServerStats loaded = core_.stats(Clock::now());
    stats_.bytes = reader.bytes();
    log_(Level::info, "snapshot_loaded",
         {{"file", name.path},
          {"taken", when},
          {"jobs", std::to_string(loaded.jobs)},
          {"keys", std::to_string(loaded.keys)},
          {"bytes", std::to_string(reader.bytes())}});
    return {};
  } catch (const SnapshotError& error) {
    return error.what();
  }
}

bool Snapshots::has_changed() const {
  return core_.changes() != changes_ || core_.jobs_ended() != jobs_ended_ || failed_;
}

// A snapshot is due at once if a job has ended: a restarted server must not restore that job when a new job
// has its name.
bool Snapshots::is_due(Clock::time_point now) const {
  return now >= next_ || core_.jobs_ended() != jobs_ended_ || core_.is_draining() != was_draining_;
}

bool Snapshots::go_on() {
  if (saver_) collect(static_cast<std::size_t>(options_.keys_at_once));
  if (!writer_ || !writer_->go_on()) return writer_ != nullptr;
  saver_ = nullptr;  // still set if the writer has failed
  end();
  return false;
}

void Snapshots::tick(Clock::time_point now) {
  if (go_on() || !is_due(now)) return;
  next_ = now + options_.snapshot_interval;
  was_draining_ = core_.is_draining();
  if (!has_changed()) return void(all_saved_ = now);
  begin(now);
  collect(static_cast<std::size_t>(options_.keys_at_once));
}

void Snapshots::begin(Clock::time_point now) {
  begun_ = now;
  collecting_ = {};
  changes_ = core_.changes();
  jobs_ended_ = core_.jobs_ended();
  const SnapshotHeader header{.number = static_cast<std::uint32_t>(options_.number),
                              .servers = static_cast<std::uint32_t>(options_.servers),
                              .sequence = next_sequence_++,
                              .incarnation = incarnation_,
                              .time = std::chrono::system_clock::now()};
  saver_ = std::make_unique<StateSaver>(core_);
  writer_ = std::make_unique<BackgroundWriter>(options_.snapshots, header,
                                               static_cast<std::size_t>(options_.snapshots_kept));
}

void Snapshots::collect(std::size_t keys) {
  const auto started = Clock::now();
  BackgroundWriter::Part part;
  bool all = false;
  try {
    all = saver_->go_on(keys, [&part](std::vector<std::byte> head, Payload payload) {
      part.push_back({std::move(head), std::move(payload)});
    });
  } catch (const std::bad_alloc&) {
    leave_core();
    return fail("there is no memory for a copy of the optimizer's state of rows");
  }
  writer_->add(std::move(part));
  collecting_ += Clock::now() - started;
  if (!all) return;
  saver_ = nullptr;
  writer_->complete();
  next_ = std::max(next_, begun_ + kLeastPause * collecting_);
}

void Snapshots::leave_core() {
  if (!saver_) return;
  saver_ = nullptr;
  writer_ = nullptr;
}

// Logs a failed snapshot. The server goes on, and tries the next one when it is due.
void Snapshots::fail(const std::string& why) {
  failed_ = true;
  ++stats_.failed;
  const std::chrono::duration<double> age = Clock::now() - all_saved_;
  log_(Level::error, "snapshot_failed",
       {{"folder", options_.snapshots}, {"why", why}, {"age", seconds_text(age.count())}});
}

void Snapshots::end() {
  const WrittenSnapshot result = writer_->wait();
  writer_.reset();
  if (!result.error.empty()) return fail(result.error);
  failed_ = false;
  ++stats_.written;
  stats_.bytes = result.bytes;
  stats_.seconds = result.seconds;
  all_saved_ = begun_;
  log_(Level::info, "snapshot_written",
       {{"file", result.path},
        {"bytes", std::to_string(result.bytes)},
        {"took", seconds_text(result.seconds)}});
}

void Snapshots::finish() {
  const auto write_all = [this] {
    if (saver_) collect(~std::size_t{0});
    if (writer_) end();
  };
  write_all();
  if (!has_changed()) return;
  begin(Clock::now());
  write_all();
}

SnapshotStats Snapshots::stats(Clock::time_point now) const {
  SnapshotStats stats = stats_;
  stats.age = std::chrono::duration<double>(now - all_saved_).count();
  return stats;
}

}  // namespace heddle::kv_detail
