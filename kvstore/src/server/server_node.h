// A server without threads and clocks. It has the shards, and finds the shard that a message is for. So a
// test can run a server on a network and a clock of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <heddle/server.h>

#include "server/shard.h"
#include "server/shard_owner.h"
#include "transport/transport.h"
#include "wire/administration.h"

namespace heddle::kv_detail {

using namespace net_detail;

// True if a scheduler assigns shards to the server.
inline bool is_scheduled(const ServerOptions& options) {
  return !options.scheduler.empty() || !options.etcd.urls.empty();
}

class ServerNode final : public ShardOwner {
 public:
  // Without a scheduler the server is the primary of its own shard at once. The constructor does not use
  // `transport`.
  ServerNode(const ServerOptions& options, std::uint64_t incarnation, Transport& transport,
             Clock::time_point now);

  // connected() to received(): see Receiver. If one of them throws, the peer is to be closed; after
  // ReplicaDiverged the process has to end.
  void connected(Peer peer, const std::string& key, Clock::time_point now);
  void disconnected(Peer peer, const std::string& why, Clock::time_point now);
  void cannot_connect(Peer peer, const std::string& why, Clock::time_point now);
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes);
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload,
                Clock::time_point now);
  // Called during long work, while no request is answered: tells workers that the server is alive.
  void keep_alive(Clock::time_point now);
  // To be called after each poll, when all messages that the transport had are handled.
  void end_batch(Clock::time_point now) { latencies_.end_batch(now); }
  // To be called before each poll: counts requests that were answered since end_batch().
  void count_answers() {
    if (latencies_.has_sent()) latencies_.end_batch(Clock::now());
  }
  // To be called about every kBeat (see shard_owner.h).
  void tick(Clock::time_point now);
  // Collects the next piece of a shard's state for a snapshot or a new backup. To be called if has_more().
  void go_on();
  bool has_more() const;
  // Sets the number of this server, which the scheduler has assigned. A later call must have the same number.
  void set_number(int number, int servers);
  // Sets the scheduler's secret, which it tells only servers.
  void set_secret(std::uint64_t secret) { secret_ = secret; }
  // Takes the newest views of the scheduler.
  void set_views(const Views& views, Clock::time_point now);
  // Copies that have got all state since the last call: number of the shard, number of the copy.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> take_synced() { return std::exchange(synced_, {}); }

  // Copies that have lost state since the last call: number of the shard, number of the copy.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> take_lost() { return std::exchange(lost_, {}); }

  // Requests of administrators since the last call. The owner answers each request by tell_administrator().
  std::vector<std::pair<Peer, AdminRequest::What>> take_admin_requests() {
    return std::exchange(admin_requests_, {});
  }
  void tell_administrator(Peer peer, std::string_view text);

  void paused(Clock::duration time);
  void drain();
  // Writes the state of all shards to their snapshots, or logs why it cannot. Blocks.
  void finish_snapshots();
  bool is_draining() const { return draining_; }
  // Why no other server may end yet; empty: this server accepts workers, and all copies that it knows of are
  // complete.
  std::string reason_not_ready(Clock::time_point now) const;
  bool is_drained() const;
  std::vector<Peer> peers() const;
  std::vector<ServerEvent> take_events() { return std::exchange(events_, {}); }
  ServerStats stats(Clock::time_point now) const;
  const Shard& shard(std::uint32_t number) const { return *shards_[number]; }

  Transport& transport() override { return transport_; }
  Latencies& latencies() override { return latencies_; }
  const ServerOptions& options() const override { return options_; }
  std::uint64_t incarnation() const override { return incarnation_; }
  std::uint64_t secret() const override { return secret_; }
  const std::shared_ptr<std::uint64_t>& memory_used() const override { return memory_used_; }
  Peer connect_to_backup(std::uint32_t shard, const std::string& address) override;
  void close(Peer peer) override;
  void synced(std::uint32_t shard, std::uint64_t epoch) override { synced_.emplace_back(shard, epoch); }
  void backup_lost(std::uint32_t shard, std::uint64_t epoch) override { lost_.emplace_back(shard, epoch); }
  void log(ServerEvent::Level level, const char* name,
           std::vector<std::pair<std::string, std::string>> fields) override;

 private:
  struct Session {
    enum class Kind : std::uint8_t { fresh, worker, replica } kind = Kind::fresh;
    std::uint32_t shard = 0;
    std::string key{};
    Clock::time_point since{};
  };
  void close_idle(Clock::time_point now);
  Shard* serving(const Session& session);
  void greeted(Peer peer, Session& session, std::span<const std::byte> head, std::size_t payload,
               Clock::time_point now);
  void administrator_asks(Peer peer, const Session& session, const AdminRequest& wish);
  void worker_greeted(Peer peer, Session& session, const Hello& hello, std::span<const std::byte> head,
                      Clock::time_point now);

  ServerOptions options_;
  const std::uint64_t incarnation_;
  Transport& transport_;
  std::uint64_t secret_ = 0;
  const std::shared_ptr<std::uint64_t> memory_used_ = std::make_shared<std::uint64_t>(0);
  bool draining_ = false, copies_seen_ = false;
  std::uint64_t unauthorized_ =
      0;  // number of processes refused since comm.allowed does not permit their key
  Latencies latencies_;
  Clock::time_point answered_{};  // last time at which workers could get answers, or were sent a sign of life
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unordered_map<Peer, Session> sessions_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> synced_, lost_;
  std::vector<std::pair<Peer, AdminRequest::What>> admin_requests_;
  // The error of the connection to each shard's backup that was logged last, by shard.
  std::map<std::uint32_t, std::string> unreachable_;
  std::vector<ServerEvent> events_;
};

}  // namespace heddle::kv_detail
