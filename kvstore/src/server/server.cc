#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>

#include <heddle/engine.h>
#include <heddle/server.h>
#include <heddle/store_error.h>

#include "membership/member.h"
#include "server/server_node.h"
#include "transport/address.h"

namespace heddle {
namespace {

using kv_detail::Clock;
using kv_detail::Peer;

constexpr std::chrono::milliseconds kIdleTick{500};

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

kv_detail::TransportOptions transport_options(const ServerOptions& options) {
  kv_detail::TransportOptions result;
  result.kind = options.transport;
  result.keys = options.keys;
  result.max_connections = static_cast<std::size_t>(options.max_connections);
  return result;
}

ServerOptions checked(ServerOptions options) {
  const auto refuse = [](const std::string& why) { throw InvalidArgument("Server: " + why); };
  const bool scheduled = !options.scheduler.empty();
  if (scheduled) kv_detail::parse_address(options.scheduler);  // throws InvalidArgument
  if (options.servers < (scheduled ? 0 : 1)) refuse("servers is " + std::to_string(options.servers));
  if (options.number < (scheduled ? -1 : 0) || (options.servers > 0 && options.number >= options.servers))
    refuse("number " + std::to_string(options.number) + " of " + std::to_string(options.servers));
  if (options.replicas < 1 || options.replicas > (scheduled ? 2 : 1))
    refuse("replicas is " + std::to_string(options.replicas) + ", want 1, or 2 with a scheduler");
  if (options.max_connections < 1) refuse("max_connections is " + std::to_string(options.max_connections));
  if (options.worker_timeout.count() <= 0) refuse("worker_timeout is not positive");
  return options;
}

}  // namespace

// Updates run on the server's thread: the engine is a naive one.
struct Server::Impl final : kv_detail::Receiver {
  explicit Impl(ServerOptions given)
      : options(checked(std::move(given))),
        transport(kv_detail::make_transport(transport_options(options), *this)),
        address(transport->listen(options.listen)),
        begun(Clock::now()),
        incarnation(random_number() | 1),
        node(options, incarnation, *transport, begun) {
    if (!options.scheduler.empty()) join();
  }

  void join() {
    member = std::make_unique<kv_detail::Member>(
        *transport,
        kv_detail::MemberOptions{.scheduler = options.scheduler,
                                 .role = kv_detail::Role::server,
                                 .number = static_cast<std::uint32_t>(options.number),  // -1: kAnyNumber
                                 .servers = static_cast<std::uint32_t>(options.servers),
                                 .replicas = static_cast<std::uint32_t>(options.replicas),
                                 .incarnation = incarnation,
                                 .address = address});
    member->on_registered = [this](const kv_detail::Registered& told) {
      node.set_number(static_cast<int>(told.number), static_cast<int>(told.servers));
      log(ServerEvent::Level::info, "registered", {{"number", std::to_string(told.number)}});
    };
    member->on_views = [this](const kv_detail::Views& views) { node.set_views(views, Clock::now()); };
    // With views a server goes on as it is: its workers know where it is.
    member->on_refused = [this](const std::string& why) {
      log(ServerEvent::Level::error, "refused", {{"why", why}});
      if (member->views().version == 0) refusal = why;
    };
    member->on_over = [this] { draining.store(true); };
  }

  void log(ServerEvent::Level level, const char* name,
           std::vector<std::pair<std::string, std::string>> fields) const {
    if (options.log) options.log({level, name, std::move(fields)});
  }

  bool of_scheduler(Peer peer) const { return member && member->owns(peer); }
  void connected(Peer peer, const std::string& key) override {
    of_scheduler(peer) ? member->connected(peer, Clock::now()) : node.connected(peer, key, Clock::now());
  }
  void disconnected(Peer peer, const std::string& why) override {
    of_scheduler(peer) ? member->disconnected(peer, why, Clock::now())
                       : node.disconnected(peer, why, Clock::now());
  }
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override {
    if (of_scheduler(peer)) return {};
    return node.memory_for(peer, head, bytes);
  }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override {
    if (of_scheduler(peer)) return member->received(peer, head, Clock::now());
    try {
      node.received(peer, head, payload, Clock::now());
    } catch (const kv_detail::CannotFollow&) {
      lost = std::current_exception();
      throw;
    }
  }

  void log_events() {
    for (const ServerEvent& event : node.take_events()) {
      if (options.log) options.log(event);
    }
  }

  void tell_scheduler() {
    for (const auto& [shard, epoch] : node.take_synced()) member->report_synced(shard, epoch);
    member->tick(Clock::now());
  }

  void answer_stats() {
    std::lock_guard guard(mutex);
    if (!stats_wanted) return;
    stats = node.stats(Clock::now());
    stats.uptime = std::chrono::duration<double>(Clock::now() - begun).count();
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
    while (!stopping.load()) {
      const auto late = Clock::now() - next_tick;
      if (late > options.worker_timeout / 4) node.paused(late);
      if (draining.load()) node.drain();
      if (Clock::now() >= next_tick) {
        node.tick(Clock::now());
        next_tick = Clock::now() + tick;
      }
      log_events();
      answer_stats();
      if (node.is_drained()) break;
      if (member) tell_scheduler();
      transport->poll(tick);
      if (lost) std::rethrow_exception(lost);
      if (!refusal.empty()) throw StoreError(refusal);
    }
    if (member) member->depart();
    transport->poll(std::chrono::microseconds(0));  // the last replies
    for (const Peer peer : node.peers()) transport->close(peer);
    log_events();
  }

  const ServerOptions options;
  Engine engine{{.scheduler = Scheduler::naive}};
  std::unique_ptr<kv_detail::Transport> transport;
  const std::string address;
  const Clock::time_point begun;
  const std::uint64_t incarnation;  // of this process; not 0
  kv_detail::ServerNode node;
  std::unique_ptr<kv_detail::Member> member;  // null: there is no scheduler
  std::string refusal{};                      // of the scheduler, before there were any views
  const std::chrono::milliseconds tick = options.scheduler.empty() ? kIdleTick : kv_detail::kBeat / 2;
  std::exception_ptr lost{};  // this server could not follow a primary
  std::atomic<bool> stopping{false}, draining{false};
  std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  bool running = false, stats_wanted = false;
  ServerStats stats;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() = default;

const std::string& Server::address() const { return impl_->address; }

void Server::run() {
  Impl& mine = *impl_;
  const EngineScope scope(mine.engine);
  mine.set_running(true);
  try {
    mine.serve();
  } catch (...) {
    mine.set_running(false);
    throw;
  }
  mine.set_running(false);
}

void Server::drain() noexcept {
  impl_->draining.store(true);
  impl_->transport->wake();
}

void Server::stop() noexcept {
  impl_->stopping.store(true);
  impl_->transport->wake();
}

ServerStats Server::stats() const {
  Impl& mine = *impl_;
  std::unique_lock lock(mine.mutex);
  if (!mine.running) {
    ServerStats stats = mine.node.stats(Clock::now());
    stats.uptime = std::chrono::duration<double>(Clock::now() - mine.begun).count();
    return stats;
  }
  mine.stats_wanted = true;
  mine.transport->wake();
  mine.answered.wait(lock, [&] { return !mine.stats_wanted || !mine.running; });
  return mine.stats;
}

}  // namespace heddle
