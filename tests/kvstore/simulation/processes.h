// A server and a worker as processes of a simulated network.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/server_node.h"
#include "simulation/network.h"

namespace heddle::kv_detail::sim {

class ServerProcess final : public Process {
 public:
  ServerProcess(Network& network, SimTransport& transport, const ServerOptions& options,
                std::uint64_t incarnation)
      : network_(network), node(options, incarnation, transport, network.now) {}

  void tick() override { node.tick(network_.now), report(); }
  void connected(Peer peer, const std::string& key) override {
    node.connected(peer, key, network_.now), report();
  }
  void disconnected(Peer peer, const std::string& why) override {
    node.disconnected(peer, why, network_.now), report();
  }
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override {
    return node.memory_for(peer, head, bytes);
  }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override {
    node.received(peer, head, payload, network_.now), report();
  }
  void set_views(const Views& views) { node.set_views(views, network_.now), report(); }

  std::function<void(std::uint32_t shard, std::uint64_t epoch)> on_synced{};

 private:
  void report() {
    node.take_events();
    for (const auto& [shard, epoch] : node.take_synced()) {
      if (on_synced) on_synced(shard, epoch);
    }
  }
  Network& network_;

 public:
  ServerNode node;
};

// Pushes rank + 1 to each key, `rounds` times, and pulls it after each push. What is wrong is found by doctest's checks.
class WorkerProcess final : public Process {
 public:
  struct Plan {
    std::uint32_t rank = 0, workers = 1, shards = 1, keys = 1, rounds = 1;
    std::size_t elements = 5;
    std::string consistency = "sync";
  };
  WorkerProcess(Network& network, SimTransport& transport, const Plan& plan);

  void tick() override;
  void connected(Peer peer, const std::string& key) override;
  void disconnected(Peer peer, const std::string& why) override;
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override;
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override;
  void set_views(const Views& views);

  bool is_over() const;
  std::string state() const;  // for a message about what does not end
  // The shard of that connection; -1: none.
  int shard_of(Peer peer) const;

 private:
  struct Call {
    std::vector<std::byte> head, payload, value{};
    std::function<void(const Reply&, const std::vector<std::byte>&)> done;
  };
  struct Link {
    std::string address{};
    Peer peer = 0;
    bool greeted = false;
    Clock::time_point next_try{}, next_ping{};
    std::uint64_t incarnation = 0, last_number = 0;
    std::map<std::uint64_t, Call> calls{};  // without a reply
  };
  struct Key {
    std::uint32_t number = 0, round = 0;
    std::int64_t last_value = 0;
  };
  Link* link_of(Peer peer);
  void drop(Link& link);
  void begin();
  void ask(std::uint32_t shard, Request request, std::vector<std::byte> payload,
           std::function<void(const Reply&, const std::vector<std::byte>&)> done);
  void send(Link& link, const Call& call);
  void push(std::uint32_t key);
  void pull(std::uint32_t key);
  void pulled(std::uint32_t key, const std::vector<std::byte>& value);
  std::uint32_t shard_of_key(std::uint32_t key) const { return key % plan_.shards; }

  Network& network_;
  SimTransport& transport_;
  const Plan plan_;
  std::vector<Link> links_;
  std::vector<Key> keys_;
  std::uint32_t optimizers_ = 0;  // shards that have it
};

}  // namespace heddle::kv_detail::sim
