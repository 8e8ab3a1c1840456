#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>

#include <heddle/store_scheduler.h>

#include "membership/scheduler_core.h"

namespace heddle {
namespace {

using kv_detail::Peer;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{20};
constexpr std::chrono::milliseconds kLastWords{2000};  // for processes that are told that the job is over
constexpr std::size_t kMaxMessage = 64 << 10;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;  // not 0
}

kv_detail::TransportOptions transport_options(const StoreSchedulerOptions& options) {
  kv_detail::TransportOptions result;
  result.kind = options.transport;
  result.keys = options.keys;
  result.max_head = kMaxMessage;
  result.max_payload = 0;
  result.max_connections = static_cast<std::size_t>(options.max_connections);
  return result;
}

StoreSchedulerOptions checked(StoreSchedulerOptions options) {
  const auto refuse = [](const std::string& why) { throw InvalidArgument("StoreScheduler: " + why); };
  if (options.servers < 1 || options.servers > static_cast<int>(kv_detail::kMostServers))
    refuse("servers is " + std::to_string(options.servers) + ", want 1 to " +
           std::to_string(kv_detail::kMostServers));
  if (options.workers < 0) refuse("workers is " + std::to_string(options.workers));
  if (options.max_connections < 1) refuse("max_connections is " + std::to_string(options.max_connections));
  if (options.server_timeout.count() <= 0) refuse("server_timeout is not positive");
  if (options.start_timeout.count() <= 0) refuse("start_timeout is not positive");
  if (options.grace.count() < 0 || options.grace > options.server_timeout)
    refuse("grace is not between 0 and server_timeout");
  if (options.lost_after.count() < 0) refuse("lost_after is negative");
  return options;
}

std::optional<kv_detail::StateFile> opened(const std::string& path) {
  return path.empty() ? std::nullopt : std::optional<kv_detail::StateFile>(std::in_place, path);
}

}  // namespace

struct StoreScheduler::Impl final : kv_detail::Receiver {
  explicit Impl(StoreSchedulerOptions given)
      : options(checked(std::move(given))),
        file(opened(options.state_file)),
        core(options, first_state(), Clock::now()),
        transport(kv_detail::make_transport(transport_options(options), *this)),
        address(transport->listen(options.listen)),
        begun(Clock::now()) {}

  kv_detail::SchedulerState first_state() const {
    if (file) {
      if (auto saved = file->read()) return std::move(*saved);
    }
    return {.cluster = random_number()};
  }

  void connected(Peer peer, const std::string&) override { core.connected(peer); }
  void disconnected(Peer peer, const std::string& why) override {
    core.disconnected(peer, why, Clock::now());
  }
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte>) override {
    core.received(peer, head, Clock::now());
  }

  // Nobody hears of views that are not on disk yet.
  void deliver() {
    kv_detail::SchedulerOutbox outbox = core.take_outbox();
    if (outbox.save && file) file->write(*outbox.save);
    for (auto& [peer, message] : outbox.messages) transport->send(peer, {std::move(message)});
    for (const Peer peer : outbox.closed) transport->close(peer);
    if (!options.log) return;
    for (const ServerEvent& event : outbox.events) options.log(event);
  }

  StoreSchedulerStats current_stats() const {
    StoreSchedulerStats now = core.stats();
    now.uptime = std::chrono::duration<double>(Clock::now() - begun).count();
    return now;
  }

  void answer_stats() {
    std::lock_guard guard(mutex);
    if (!stats_wanted) return;
    stats = current_stats();
    stats_wanted = false;
    answered.notify_all();
  }

  void set_running(bool now) {
    std::lock_guard guard(mutex);
    running = now;
    answered.notify_all();
  }

  void serve() {
    Clock::time_point next_tick = Clock::now();
    std::optional<Clock::time_point> end;
    while (!stopping.load()) {
      transport->poll(kTick);
      const auto now = Clock::now();
      // After a pause of this process, others have to be heard again before they are said to be silent.
      if (now - next_tick > options.server_timeout / 4) core.paused(now - next_tick);
      core.tick(now);
      next_tick = now + kTick;
      deliver();
      answer_stats();
      if (core.is_over() && !end) end = now + kLastWords;
      if (end && (now >= *end || core.peers().empty())) break;
    }
    for (const Peer peer : core.peers()) transport->close(peer);
  }

  const StoreSchedulerOptions options;
  const std::optional<kv_detail::StateFile> file;
  kv_detail::SchedulerCore core;
  std::unique_ptr<kv_detail::Transport> transport;
  const std::string address;
  const Clock::time_point begun;
  std::atomic<bool> stopping{false};
  std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  bool running = false, stats_wanted = false;
  StoreSchedulerStats stats;
};

StoreScheduler::StoreScheduler(StoreSchedulerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreScheduler::~StoreScheduler() = default;

const std::string& StoreScheduler::address() const { return impl_->address; }

void StoreScheduler::run() {
  Impl& mine = *impl_;
  mine.set_running(true);
  try {
    mine.serve();
  } catch (...) {
    mine.set_running(false);
    throw;
  }
  mine.set_running(false);
}

void StoreScheduler::stop() noexcept {
  impl_->stopping.store(true);
  impl_->transport->wake();
}

StoreSchedulerStats StoreScheduler::stats() const {
  Impl& mine = *impl_;
  std::unique_lock lock(mine.mutex);
  if (!mine.running) return mine.current_stats();
  mine.stats_wanted = true;
  mine.transport->wake();
  mine.answered.wait(lock, [&] { return !mine.stats_wanted || !mine.running; });
  return mine.stats;
}

}  // namespace heddle
