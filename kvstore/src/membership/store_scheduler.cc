#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include <heddle/store_scheduler.h>

#include "membership/etcd_state_store.h"
#include "membership/file_state_store.h"
#include "membership/leading_scheduler.h"
#include "membership/refusal_log.h"
#include "wire/views.h"

namespace heddle {
namespace {

using kv_detail::Peer;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{20};
constexpr std::chrono::milliseconds kLastWords{2000};  // time to tell processes that the job is over
constexpr std::size_t kMaxMessage = 64 << 10;

kv_detail::TransportOptions transport_options(const StoreSchedulerOptions& options) {
  kv_detail::TransportOptions result;
  result.kind = options.transport;
  result.keys = options.keys;
  result.encrypt_loopback = options.encrypt_loopback;
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
  kv_detail::versions_up_to(options.protocol);  // throws InvalidArgument
  if (options.workers < 0) refuse("workers is " + std::to_string(options.workers));
  if (options.max_connections < 1) refuse("max_connections is " + std::to_string(options.max_connections));
  if (options.server_timeout.count() <= 0) refuse("server_timeout is not positive");
  if (options.start_timeout.count() <= 0) refuse("start_timeout is not positive");
  if (options.grace.count() < 0 || options.grace > options.server_timeout)
    refuse("grace is not between 0 and server_timeout");
  if (options.lost_after.count() < 0) refuse("lost_after is negative");
  if (options.etcd.urls.empty()) return options;
  kv_detail::checked_urls(options.etcd);  // throws InvalidArgument
  if (!options.state_file.empty()) refuse("there are both etcd and state_file");
  if (options.once)
    refuse("once is not for etcd: schedulers that stand by would not hear that the job is over");
  return options;
}

}  // namespace

struct StoreScheduler::Impl final : kv_detail::Receiver {
  explicit Impl(StoreSchedulerOptions given)
      : options(checked(std::move(given))),
        file(options.etcd.urls.empty() ? std::make_unique<kv_detail::FileStateStore>(options.state_file)
                                       : nullptr),
        transport(kv_detail::make_transport(transport_options(options), *this)),
        address(transport->listen(options.listen)),
        begun(Clock::now()) {
    if (file) scheduler.follow(*file, begun);
  }

  // The store of the scheduler's state: a file, or etcd, which exists only during run().
  kv_detail::StateStore& state_store() {
    if (file) return *file;
    return *etcd;
  }

  // If there is no core, this scheduler does not lead, and closes the connection, so that the process looks
  // for another scheduler.
  void connected(Peer peer, const std::string& key) override {
    core() ? core()->connected(peer, transport->roles_of(key)) : transport->close(peer);
  }
  void disconnected(Peer peer, const std::string& why) override {
    if (core()) core()->disconnected(peer, why, Clock::now());
  }
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte>) override {
    if (core()) core()->received(peer, head, Clock::now());
  }

  kv_detail::SchedulerCore* core() { return scheduler.core(); }

  void close_all(const std::vector<Peer>& peers) {
    for (const Peer peer : peers) transport->close(peer);
  }

  void follow_state_store() {
    for (const ServerEvent& event : state_store().take_events()) log(event);
    if (const auto event = stranger_log.look(*transport, Clock::now())) log(*event);
    close_all(scheduler.follow(state_store(), Clock::now()));
  }

  void log(const ServerEvent& event) {
    if (options.log) options.log(event);
  }

  void deliver() {
    for (kv_detail::SchedulerOutbox& outbox : scheduler.deliver(state_store())) {
      for (auto& [peer, message] : outbox.messages) transport->send(peer, {std::move(message)});
      close_all(outbox.closed);
      for (const ServerEvent& event : outbox.events) log(event);
    }
  }

  StoreSchedulerStats current_stats() const {
    StoreSchedulerStats now =
        scheduler.core() ? scheduler.core()->stats() : StoreSchedulerStats{.servers = options.servers};
    now.leads = scheduler.core() != nullptr;
    now.uptime = std::chrono::duration<double>(Clock::now() - begun).count();
    now.refused += transport->refused_connections().refused;
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
      follow_state_store();
      const auto now = Clock::now();
      // If this process was stopped for a while, other processes get that much time before they count as
      // silent.
      if (core() && now - next_tick > options.server_timeout / 4) core()->paused(now - next_tick);
      if (core()) core()->tick(now);
      next_tick = now + kTick;
      deliver();
      answer_stats();
      if (core() && core()->is_over() && !end) end = now + kLastWords;
      if (end && (now >= *end || core()->peers().empty())) break;
    }
    if (core()) close_all(core()->peers());
  }

  const StoreSchedulerOptions options;
  const std::unique_ptr<kv_detail::FileStateStore> file;  // null: the state is in etcd
  std::unique_ptr<kv_detail::Transport> transport;
  const std::string address;
  const Clock::time_point begun;
  std::unique_ptr<kv_detail::EtcdStateStore> etcd;  // exists during run()
  kv_detail::LeadingScheduler scheduler{options, &kv_detail::new_incarnation};
  kv_detail::RefusalLog stranger_log;
  std::atomic<bool> stopping{false};
  std::mutex mutex;  // guards the members below
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
  if (!mine.file)
    mine.etcd = std::make_unique<kv_detail::EtcdStateStore>(
        mine.options.etcd, mine.options.servers, mine.address, [&mine] { mine.transport->wake(); });
  std::exception_ptr failed;
  try {
    mine.serve();
  } catch (...) {
    failed = std::current_exception();
  }
  mine.set_running(false);
  mine.etcd.reset();
  if (failed) std::rethrow_exception(failed);
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
