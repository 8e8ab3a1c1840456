#include "simulation/server_process.h"

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {

ServerProcess::ServerProcess(Network& network, SimTransport& transport, const ServerOptions& options,
                             std::uint64_t incarnation, ViewChecks& checks)
    : network_(network),
      checks_(checks),
      worker_timeout_(options.worker_timeout),
      node_(options, incarnation, transport, network.now),
      member_(transport, {.scheduler = options.scheduler,
                          .role = Role::server,
                          .number = static_cast<std::uint32_t>(options.number),
                          .servers = static_cast<std::uint32_t>(options.servers),
                          .replicas = static_cast<std::uint32_t>(options.replicas),
                          .incarnation = incarnation,
                          .address = transport.address(),
                          .versions = versions_up_to(options.protocol)}),
      next_tick_(network.now) {
  member_.on_registered = [this](const Registered& told) {
    node_.set_secret(told.secret);
    node_.set_number(static_cast<int>(told.number), static_cast<int>(told.servers));
  };
  member_.on_views = [this](const Views& views) {
    checks_.told(seen_, views);
    seen_ = views;
    node_.set_views(views, network_.now);
  };
  member_.on_refused = [this](const std::string&) { on_refused(); };
}

void ServerProcess::report() {
  for (const ServerEvent& event : node_.take_events()) CHECK(event.name != "state_missing");
  for (const auto& [shard, epoch] : node_.take_synced()) member_.report_synced(shard, epoch);
  for (const auto& [shard, epoch] : node_.take_lost()) member_.report_lost(shard, epoch);
  member_.tick(network_.now);
}

void ServerProcess::tick() {
  const auto late = network_.now - next_tick_;
  if (late > worker_timeout_ / 4) node_.paused(late);
  node_.tick(network_.now);
  next_tick_ = network_.now + kServerTick;
  report();
}

void ServerProcess::connected(Peer peer, const std::string& key) {
  member_.owns(peer) ? member_.connected(peer, network_.now) : node_.connected(peer, key, network_.now);
  report();
}

void ServerProcess::disconnected(Peer peer, const std::string& why) {
  member_.owns(peer) ? member_.disconnected(peer, why, network_.now)
                     : node_.disconnected(peer, why, network_.now);
  report();
}

std::span<std::byte> ServerProcess::memory_for(Peer peer, std::span<const std::byte> head,
                                               std::size_t bytes) {
  if (member_.owns(peer)) return {};
  return node_.memory_for(peer, head, bytes);
}

void ServerProcess::received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) {
  member_.owns(peer) ? member_.received(peer, head, network_.now)
                     : node_.received(peer, head, payload, network_.now);
  report();
}

}  // namespace heddle::kv_detail::sim
