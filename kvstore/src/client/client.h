// A worker's connections to the servers of its store: a thread that sends requests, repeats those that a lost connection
// left unanswered, and hands out the replies.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/rendezvous.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

struct ClientOptions {
  std::vector<std::string> servers;  // HOST:PORT of each; with a scheduler it says where they are
  std::string scheduler{};           // HOST:PORT; empty: none
  std::string job = "default";
  std::string consistency = "sync";
  int rank = 0, workers = 1;  // with a scheduler -1 is any rank, and 0 as many workers as it says
  TransportOptions transport{};
  // A server that has been unreachable for so long is given up: all requests to it fail.
  std::chrono::milliseconds timeout{60'000};
};

// One request, and what becomes of the reply.
struct Call {
  Request request{};                          // the client sets its number
  Payload payload{};                          // the whole value: the client sends it in pieces
  std::span<std::byte> into{};                // where the value of the reply goes, all of it
  std::shared_ptr<void> owner{};              // keeps `into`
  std::vector<std::byte>* collect = nullptr;  // instead of `into`, for a value of unknown length
  // Called once, on the client's thread: with the last reply, or with the error. Must not throw.
  std::function<void(const Reply&, std::exception_ptr)> done{};
};

class Client final : Receiver {
 public:
  // With a scheduler it blocks until that has said where all servers are, and throws StoreError if it does not.
  explicit Client(ClientOptions options);
  ~Client() override;  // fails what is not answered yet; not on the client's thread

  bool is_on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  std::size_t servers() const { return links_.size(); }
  const ClientOptions& options() const { return options_; }
  void submit(std::size_t server, Call call);  // any thread; never blocks
  // Blocks until the reply has come. Throws StoreError.
  Reply call(std::size_t server, Call call);
  // Tells all servers that this worker makes no more requests; waits `limit` at most.
  void leave(std::chrono::milliseconds limit) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { waiting, connecting, greeted, failed };
  struct Link {
    std::string address;
    State state = State::waiting;
    Peer peer = 0;
    bool answered = false;          // a request, on this connection
    std::uint64_t incarnation = 0;  // of the server's state; 0: not known yet
    Clock::time_point lost_since{}, next_try{}, last_heard{}, last_ping{};
    std::chrono::milliseconds pause{10};  // between attempts to connect
    std::string why{"it has not been reached yet"}, failure{};
    std::uint64_t next_number = 1;
    std::map<std::uint64_t, Call> calls{};  // without a reply yet, by number
  };
  void connected(Peer peer, const std::string& key) override;
  void disconnected(Peer peer, const std::string& why) override;
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override;
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override;

  void find_servers();
  void follow_servers();
  void loop();
  void take_submitted();
  void connect_where_needed(Clock::time_point now);
  void ping(Link& link, Clock::time_point now);
  void greeted(Link& link, const Welcome& welcome);
  void refused(Link& link, const Reply& reply);
  void lost(Link& link, const std::string& why);
  void fail(Link& link, const std::string& why);
  void send(Link& link, std::uint64_t number, const Call& call);
  Link* link_of(Peer peer);

  ClientOptions options_;  // as they are once the servers are found
  std::uint64_t incarnation_;
  std::mt19937 random_{std::random_device{}()};
  std::vector<Link> links_;
  std::unordered_map<Peer, std::size_t> by_peer_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Rendezvous> rendezvous_;  // null: there is no scheduler
  std::mutex mutex_;                        // guards the two below
  std::vector<std::pair<std::size_t, Call>> submitted_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace heddle::kv_detail
