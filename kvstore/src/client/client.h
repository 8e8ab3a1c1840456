// A worker's connections to the servers of its store: sends requests, repeats those that a lost connection
// left unanswered, and hands out the replies.
//
// The thread that has set transport_busy_ has exclusive use of the transport and the links. A thread that
// submits a call sends it, if transport_busy_ is free. A thread that waits for an answer drives the transport
// until the answer comes, for as long as something moves. Otherwise the client's own thread drives it; while
// others do, it only looks after the connections now and then.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <heddle/progress_source.h>

#include "client/call.h"
#include "client/call_ring.h"
#include "client/client_options.h"
#include "client/rendezvous.h"
#include "client/wait_notice.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

using namespace net_detail;

class Client final : public ProgressSource, Receiver {
 public:
  // With a scheduler, blocks until the scheduler has named all servers; throws StoreError if it does not.
  explicit Client(ClientOptions options);
  ~Client() override;  // fails unanswered calls; must not run on the client's own thread

  bool is_on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // True in the child of a fork, where the client may be neither used nor destroyed.
  bool in_child() const;
  std::size_t servers() const { return links_.size(); }
  const ClientOptions& options() const { return options_; }
  // Any thread; never blocks. A server gets its calls in the order in which they were submitted.
  void submit(std::span<ServerCall> calls);
  void submit(std::size_t server, Call call);
  // Blocks until the reply has come. Throws StoreError.
  Reply call(std::size_t server, Call call);
  // Blocks until `over`, which a call's done() sets and notifies, is not 0.
  void wait(const std::atomic<std::uint32_t>& over);
  // Fails all calls except pushes, also those submitted later, because their answers may wait for workers
  // that wait for this worker. Any thread; never blocks; to be called once.
  void give_up_waiting(std::string why);
  // True if a call has failed since reset_failed(), which resets this flag.
  bool has_failed() const { return has_failed_.load(); }
  void reset_failed() { has_failed_.store(false); }
  // Tells all servers that this worker makes no more requests; waits `limit` at most.
  void leave(std::chrono::milliseconds limit) noexcept;
  void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  // failed: the server is given up, or has confirmed Kind::leave.
  enum class State : std::uint8_t { waiting, connecting, greeted, failed };
  struct Link {
    std::string address;
    State state = State::waiting;
    Peer peer = 0;
    bool answered = false;          // whether the server has answered a request or a ping on this connection
    std::uint64_t incarnation = 0;  // incarnation of the server's state; 0: not known yet
    Clock::time_point lost_since{}, next_try{}, last_heard{}, last_ping{};
    std::chrono::milliseconds pause{10};  // pause between attempts to connect
    WaitNotice notice{}, stall_notice{};
    Clock::time_point moved{};  // time of the last answer to a ping that reported no stall
    std::string why{"it has not been reached yet"}, failure{};
    std::uint64_t next_number = 1;
    std::uint64_t settings = 0, collectives = 0;  // counts for Kind::resume; collectives 0: not known
    CallRing<Call> calls{};                       // calls that the server has not answered
  };
  struct Answered {
    Call call{};
    Reply reply{};
    std::exception_ptr error{};
  };
  using Lock = std::unique_lock<std::mutex>;
  void connected(Peer peer, const std::string& key) override;
  void disconnected(Peer peer, const std::string& why) override;
  void cannot_connect(Peer peer, const std::string& why) override;
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override;
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override;

  void find_servers();
  void follow_servers(Clock::time_point now);
  void loop();
  void rest(Lock& lock);
  void work_until(const std::atomic<std::uint32_t>& over) noexcept;
  void await_transport(Lock& lock);
  template <class Work> void with_transport(Lock& lock, Work&& work) noexcept;
  void take_submitted();
  void fail_waiting();
  void connect_where_needed(Clock::time_point now);
  void ping(Link& link, Clock::time_point now);
  void send_ping(Link& link, Clock::time_point now, int priority);
  void greeted(Link& link, const Welcome& welcome);
  void refused(Link& link, const Reply& reply);
  void pinged(Link& link, const Reply& reply);
  void lost(Link& link, const std::string& why);
  void fail(Link& link, const std::string& why);
  void send(Link& link, std::uint64_t number, const Call& call);
  void answered(Call call, const Reply& reply, std::exception_ptr error);
  Link* link_of(Peer peer);

  ClientOptions options_;  // servers, rank and workers are final once the servers are found
  const int process_;
  std::uint64_t incarnation_;
  // The members from here to looked_ are used only by the thread that has set transport_busy_.
  std::mt19937 random_{std::random_device{}()};
  std::vector<Link> links_;
  std::unordered_map<Peer, std::size_t> by_peer_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Rendezvous> rendezvous_;  // null: there is no scheduler
  std::vector<Answered> answered_;          // calls whose done() runs when transport_busy_ is released
  std::vector<ServerCall> taken_;
  std::string given_up_{};                   // the error of give_up_waiting(); empty: not called
  Clock::time_point looked_ = Clock::now();  // time of the last call of connect_where_needed()

  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;  // guards the members below; while it is held, nothing else is locked, no callback runs
  std::condition_variable changed_;
  std::vector<ServerCall> submitted_;
  std::string give_up_{};        // becomes given_up_ in the next take_submitted()
  std::size_t unanswered_ = 0;   // number of calls whose done() has not returned yet
  bool transport_busy_ = false;  // whether a thread uses the transport and the links
  // Whether the last with_transport() sent calls submitted during its work.
  bool took_more_ = false;
  int blocked_ = 0;                   // number of threads that wait until transport_busy_ is false
  bool helped_ = false;               // whether a waiting thread is in work_until() and drives the transport
  bool others_wait_ = false;          // whether another thread has called work_until() while helped_ was true
  std::uint32_t helper_entries_ = 0;  // number of threads that have entered work_until() so far
  bool work_left_ = false;            // whether work_until() has left work to the client's own thread
  bool stopping_ = false;
  std::thread thread_;  // declared last, since the thread uses all other members
};

}  // namespace heddle::kv_detail
