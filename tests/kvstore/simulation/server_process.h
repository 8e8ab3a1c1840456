// A server as a process on a simulated network: what heddle::Server does, without a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "membership/member.h"
#include "server/server_node.h"
#include "simulation/network.h"
#include "simulation/view_checks.h"

namespace heddle::kv_detail::sim {

constexpr std::chrono::milliseconds kServerTick = kBeat / 2;

class ServerProcess final : public Process {
 public:
  ServerProcess(Network& network, SimTransport& transport, const ServerOptions& options,
                std::uint64_t incarnation, ViewChecks& checks);

  void tick() override;
  void connected(Peer peer, const std::string& key) override;
  void disconnected(Peer peer, const std::string& why) override;
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override;
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override;

  const ServerNode& node() const { return node_; }
  const Member& member() const { return member_; }
  std::function<void()> on_refused{};  // called if the scheduler refuses the server for good

 private:
  void report();

  Network& network_;
  ViewChecks& checks_;
  const std::chrono::milliseconds worker_timeout_;
  ServerNode node_;
  Member member_;
  Views seen_{};
  Clock::time_point next_tick_;
};

}  // namespace heddle::kv_detail::sim
