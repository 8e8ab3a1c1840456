// A server's core and connections to it, in one thread: a test says what happens when.
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

// What save_state calls its sink with.
std::vector<Packet> saved_state(const ServerCore& core);

// A server and its connections. Time passes when a test says so.
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
  // Another core goes on with what this one saves. All connections are to be cut.
  void replace_core();

  std::vector<std::string> events;  // names
  std::map<Peer, std::deque<Packet>> to_worker;
  Clock::time_point now{};
  // Null if the host uses the current engine, which several hosts can share.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<EngineScope> scope;
  ServerCore core;

 private:
  void deliver();
  const ServerOptions options_;
  Peer last_peer_ = 0;
};

// A worker's connection to the server, which repeats what has no reply when it was cut.
class Link {
 public:
  Link(Host& host, Hello hello);
  std::uint64_t send(Request request, Bytes payload = {});  // the number of the request
  void step();                                              // one message to the server
  void hear();    // one message from the server, whose answers are in `replies`
  void cut();     // and connects anew
  void forget();  // and connects anew, without what has no reply
  void die() { host_.disconnect(peer_); }
  bool has_reply(std::uint64_t number) const { return replies.contains(number); }
  std::pair<Reply, Bytes> take(std::uint64_t number);
  void settle();  // all that there is to do
  std::pair<Reply, Bytes> ask(Request request, Bytes payload = {});

  std::map<std::uint64_t, std::pair<Reply, Bytes>> replies;
  std::string refusal;
  std::size_t piece_bytes = kPieceBytes;  // of the payloads that are sent
  std::uint64_t incarnation = 0;          // that the server has welcomed this worker with

 private:
  void connect();
  Host& host_;
  Hello hello_;
  Peer peer_ = 0;
  bool welcome_ = false;
  std::uint64_t last_number_ = 0;
  std::deque<Packet> to_server_;
  std::map<std::uint64_t, std::vector<Packet>> unanswered_;  // by the number of the request: its pieces
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
