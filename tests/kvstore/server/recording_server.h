// A server that records in which order it counts pushes and answers pulls, for tests that repeat a run
// serially.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/engine.h>

#include "server/server_core.h"

namespace heddle::test {

struct StoreEvent {
  bool push = false;                // true: the server has counted a push; false: it has answered a pull
  std::uint32_t rank = 0, key = 0;  // the worker's rank, and the number that is the key's name
  std::uint64_t clock = 0;          // the clock of the push or pull
  std::vector<std::byte> value{};   // the value that was pushed or pulled
};

class RecordingServer final : kv_detail::Receiver {
 public:
  explicit RecordingServer(const kv_detail::TransportOptions& options = {})
      : core_({}, 42),
        transport_(kv_detail::make_transport(options, *this)),
        address(transport_->listen("127.0.0.1:0")),
        thread_([this] { serve(); }) {}
  ~RecordingServer() override { stop(); }
  // Stops the server. After this call `events` does not change.
  void stop() {
    stopping_.store(true);
    transport_->wake();
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Peer = kv_detail::Peer;
  void connected(Peer peer, const std::string& key) override { core_.connected(peer, key); }
  void disconnected(Peer peer, const std::string& why) override {
    core_.disconnected(peer, why, kv_detail::Clock::now());
  }
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override {
    return core_.memory_for(peer, head, bytes);
  }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override {
    const auto message = kv_detail::decode_from_worker(head, payload.size());
    const auto* hello = std::get_if<kv_detail::Hello>(&message);
    const auto* request = std::get_if<kv_detail::Request>(&message);
    if (hello) ranks_[peer] = hello->rank;
    if (request && request->kind == kv_detail::Kind::pull) pulls_[{peer, request->number}] = *request;
    if (request && request->kind == kv_detail::Kind::init) inits_[{peer, request->number}] = request->text;
    const auto now = kv_detail::Clock::now();
    const std::uint64_t before = core_.stats(now).pushes;
    std::vector<std::byte> pushed(payload.begin(), payload.end());
    core_.received(peer, head, payload.size(), now);
    if (request && core_.stats(now).pushes > before)
      events.push_back({true, ranks_[peer], keys_.at(request->key), request->clock, std::move(pushed)});
    send_all();
  }

  void send_all() {
    kv_detail::Outbox outbox = core_.take_outbox();
    for (auto& [peer, head] : outbox.greetings) transport_->send(peer, {std::move(head)});
    for (kv_detail::Outgoing& one : outbox.replies) {
      if (one.reply.kind == kv_detail::Kind::value) note(one);
      if (const auto init = inits_.find({one.peer, one.reply.number}); init != inits_.end())
        keys_[one.reply.key] = static_cast<std::uint32_t>(std::stoul(init->second));
      transport_->send(one.peer, {encode(one.reply), std::move(one.payload), one.priority});
    }
    for (const Peer peer : outbox.closed) transport_->close(peer);
  }

  void note(const kv_detail::Outgoing& one) {
    const auto found = pulls_.find({one.peer, one.reply.number});
    if (found == pulls_.end()) return;
    const kv_detail::Request& request = found->second;
    if (one.reply.offset == 0)
      events.push_back({false, ranks_[one.peer], keys_.at(request.key), request.clock});
    events.back().value.insert(events.back().value.end(), one.payload.bytes.begin(), one.payload.bytes.end());
  }

  void serve() {
    Engine engine{{.scheduler = Scheduler::naive}};
    const EngineScope scope(engine);
    while (!stopping_.load()) {
      core_.tick(kv_detail::Clock::now());
      send_all();
      transport_->poll(std::chrono::milliseconds(100));
    }
  }

  kv_detail::ServerCore core_;
  std::unique_ptr<kv_detail::Transport> transport_;
  std::map<Peer, std::uint32_t> ranks_;
  // Pull requests by peer and request number.
  std::map<std::pair<Peer, std::uint64_t>, kv_detail::Request> pulls_;
  // Names of the keys that inits ask for, by peer and request number.
  std::map<std::pair<Peer, std::uint64_t>, std::string> inits_;
  // The numbers that are the keys' names, by the numbers that the server has given to the keys.
  std::map<std::uint32_t, std::uint32_t> keys_;
  std::atomic<bool> stopping_{false};

 public:
  const std::string address;
  std::vector<StoreEvent> events;  // written by the server's thread; to be read after stop()

 private:
  std::thread thread_;
};

}  // namespace heddle::test
