// A server's core and connections to it on one thread, in an order that the test chooses.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <heddle/engine.h>

#include "server/server_core.h"

namespace heddle::kv_detail {

using Bytes = std::vector<std::byte>;

struct Packet {
  Bytes head, payload;
};

template <class T> inline Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T> std::vector<T> values_in(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The messages that core.save_state passes to its sink.
std::vector<Packet> saved_state(const ServerCore& core);

// A server and its connections, with a clock that the test advances.
class Host {
 public:
  explicit Host(const ServerOptions& options = {}, bool own_engine = true)
      : engine(own_engine ? std::make_unique<Engine>(EngineOptions{.scheduler = Scheduler::naive}) : nullptr),
        scope(own_engine ? std::make_unique<EngineScope>(*engine) : nullptr),
        core(options, 42),
        options_(options) {}
  Peer connect() {
    core.connected(++last_peer_, "");
    return last_peer_;
  }
  void receive(Peer peer, const Packet& packet);
  void disconnect(Peer peer);
  void tick(Clock::duration time);
  // Replaces the core by one that loads its saved state; all connections must be cut before.
  void replace_core();

  std::vector<std::string> events;  // names of the core's events
  std::map<Peer, std::deque<Packet>> to_worker;
  Clock::time_point now{};
  // The engine that the core uses. Null if that is the current engine, which several hosts can share.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<EngineScope> scope;
  ServerCore core;

 private:
  void deliver();
  const ServerOptions options_;
  Peer last_peer_ = 0;
};

// A worker's connection to a Host. After a cut the worker resends the requests to which it has no reply.
class Link {
 public:
  Link(Host& host, Hello hello);
  std::uint64_t send(Request request, Bytes payload = {});  // returns the request's number
  void step();  // delivers one of the worker's messages to the server
  // Delivers one of the server's messages to the worker. A reply goes to `replies`.
  void hear();
  void cut();     // reconnects, and resends requests without a reply
  void forget();  // reconnects, and drops requests without a reply as a new process does
  void die() { host_.disconnect(peer_); }
  bool has_reply(std::uint64_t number) const { return replies.contains(number); }
  std::pair<Reply, Bytes> take(std::uint64_t number);
  void settle();  // delivers messages until none is left in either direction
  std::pair<Reply, Bytes> ask(Request request, Bytes payload = {});

  std::map<std::uint64_t, std::pair<Reply, Bytes>> replies;
  std::string refusal;
  std::size_t piece_bytes = kPieceBytes;  // size of the pieces in which payloads are sent
  std::uint64_t incarnation = 0;          // the incarnation in the server's welcome

 private:
  void connect();
  Host& host_;
  Hello hello_;
  Peer peer_ = 0;
  bool welcome_ = false;
  std::uint64_t last_number_ = 0;
  std::deque<Packet> to_server_;
  // The pieces of each request without a reply, by the request's number.
  std::map<std::uint64_t, std::vector<Packet>> unanswered_;
  std::map<std::uint64_t, Bytes> values_;
};

inline Hello hello_of(std::uint32_t rank, std::uint32_t workers, std::string consistency) {
  return {.job = "job",
          .consistency = std::move(consistency),
          .rank = rank,
          .workers = workers,
          .incarnation = 1000 + rank};
}

}  // namespace heddle::kv_detail
