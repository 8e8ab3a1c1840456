#include "diagnostics/watch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <utility>

#include <heddle/number_text.h>

#include "base/log.h"
#include "core/core.h"
#include "diagnostics/pending.h"

namespace heddle::detail {
namespace {

std::string dot_path_of_environment() {
  if (const char* path = std::getenv("HEDDLE_WATCHDOG_DOT"); path && *path) return path;
  return "heddle_pending_" + std::to_string(getpid()) + ".dot";
}

bool write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

bool StallTimer::due(Time now, std::uint64_t ended, bool in_flight) {
  if (!std::exchange(asked_, true) || !in_flight || ended != ended_) {
    ended_ = ended;
    since_ = now;
    next_ = limit_;
  }
  stalled_ = now - since_;
  if (stalled_ < next_) return false;
  next_ = 2 * stalled_;
  return true;
}

Watch::Watch(EngineCore& core, double seconds)
    : core_(core), seconds_(seconds), dot_path_(dot_path_of_environment()) {}

void Watch::start() {
  thread_ = std::thread([this] { watch(); });
}

void Watch::stop() noexcept {
  {
    std::lock_guard guard(stop_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watch::started(const OpNode& op, int worker) {
  std::lock_guard guard(mutex_);
  running_.emplace(&op, Running{std::chrono::steady_clock::now(), worker, PendingState::running});
}

void Watch::returned(const OpNode& op) {
  std::lock_guard guard(mutex_);
  if (const auto found = running_.find(&op); found != running_.end()) {
    found->second.state = op.extra->on ? PendingState::issued : PendingState::completing;
  }
}

void Watch::completed(const OpNode& op) noexcept {
  std::lock_guard guard(mutex_);
  running_.erase(&op);
  ++ended_;
}

void Watch::deferred(const OpNode& op) {
  std::lock_guard guard(mutex_);
  running_.emplace(&op, Running{std::chrono::steady_clock::now(), -1, PendingState::deferred});
}

void Watch::resumes(const OpNode& op) noexcept {
  std::lock_guard guard(mutex_);
  running_.erase(&op);
}

void Watch::visit(Pending& pending) {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard guard(mutex_);
  for (const auto& [op, running] : running_) {
    PendingOp* seen = pending.see_started(*op, running.state);
    if (!seen) continue;
    seen->seconds = std::chrono::duration<double>(now - running.since).count();
    seen->worker = running.worker;
    if (running.state == PendingState::deferred) seen->streams = core_.stream_ops.streams_before(*op);
  }
}

std::uint64_t Watch::count_ended() {
  std::lock_guard guard(mutex_);
  return ended_;
}

void Watch::watch() {
  StallTimer timer{StallTimer::Time(seconds_)};
  const auto interval = std::chrono::duration<double>(std::clamp(seconds_ / 4, 0.001, 1.0));
  std::unique_lock lock(stop_mutex_);
  while (!wake_.wait_for(lock, interval, [&] { return stopping_; })) {
    lock.unlock();
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::uint64_t ended = count_ended();
    if (timer.due(now, ended, core_.scheduler().has_pending())) report(timer.stalled().count());
    lock.lock();
  }
}

// A report is one text, so that the reports of several engines do not mix.
void Watch::report(double seconds) {
  const Pending pending(core_);
  if (pending.empty()) return;
  std::string text = "heddle: no op has ended for " + fixed_text(seconds, 1) + " s. " + pending.text();
  text += write_file(dot_path_, pending.dot()) ? "as a graph: " + dot_path_
                                               : "the graph could not be written to " + dot_path_;
  log(text);
}

}  // namespace heddle::detail
