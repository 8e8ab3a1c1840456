// The thread that serves the control connections of a tcp communicator while its caller computes or waits. It sends and
// checks heartbeats, detects mismatches and deadlocks, and exchanges failures and messages of survivors with other
// ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/survivors.h"
#include "connection/connection.h"
#include "tcp/call_watch.h"
#include "tcp/deadlock_search.h"
#include "tcp/fault_state.h"
#include "tcp/frame.h"

namespace heddle::comm_detail {

using namespace net_detail;

// Owns the control connections. The thread writes failures that it detects or receives into the fault state,
// and sends every failure in the fault state to all other ranks. A rank therefore receives a failure before
// the leave message of a rank that leaves because of it.
class ControlThread final : public ControlChannel {
 public:
  struct Self {
    int rank = 0;
    std::uint32_t epoch = 0;
    Key key{};
    std::chrono::milliseconds timeout{};
  };
  // The detectors that the thread passes announced calls and probes to: `calls` finds ranks in different
  // calls, `deadlocks` finds cycles of waits.
  struct Detectors {
    CallWatch& calls;
    DeadlockSearch& deadlocks;
  };
  static constexpr int kAllRanks = -1;
  // `connections`, by rank; null where there is no connection. `fault_state` and `detectors` outlive the
  // control thread.
  ControlThread(const Self& self, std::vector<std::unique_ptr<Connection>> connections,
                FaultState& fault_state, Detectors detectors);
  // Sends the leave message and waits until it has arrived at the other ranks, for `timeout` at most.
  ~ControlThread() override;
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  // Limits how long the destructor waits: until `end`, but for a quarter of a second if that is later, so
  // that the leave message is sent. Called before the destructor.
  void leave_before(std::chrono::steady_clock::time_point end) noexcept { leaves_before_ = end; }

  // Any thread. Tells rank `to`, or all other ranks, that this rank waits in these calls: see CallWatch.
  void announce_calls(std::span<const CallRecord> calls, int to = kAllRanks);
  // Any thread. Searches for a deadlock that this rank's wait is part of: see DeadlockSearch.
  void start_deadlock_search();
  int rank() const override { return self_.rank; }
  int size() const override { return static_cast<int>(peers_.size()); }
  bool is_alive(int rank) override;
  void broadcast(const std::string& message) override;
  std::string latest_message(int rank) override;
  void wait() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::unique_ptr<Connection> connection{};
    std::string out{};                     // encoded frames that the kernel has not taken yet
    std::uint64_t sent = 0, received = 0;  // numbers of frames sent and received, hellos not counted
    std::vector<std::byte> in{};
    std::size_t filled = 0;
    Clock::time_point last_received{};
  };

  void run();
  void await_events(Clock::time_point until);
  void receive(int rank, Peer& peer);
  void read_frames(int rank, Peer& peer);
  void apply(int rank, Peer& peer, const ControlFrame& frame);
  void connection_closed(int rank, Peer& peer);
  void reject(int rank, Peer& peer);
  void check_heartbeats();
  void set_alive(int rank, bool alive);
  void send_pending();
  void send_probes(const DeadlockSearch::Probes& probes);
  ControlFrame abort_frame() const;
  void send_to_all(const ControlFrame& frame);
  void send(Peer& peer, ControlFrame frame);
  void flush(Peer& peer);
  void leave();

  const Self self_;
  FaultState& fault_state_;
  Detectors detectors_;
  std::vector<Peer> peers_;
  std::vector<pollfd> polled_;
  Clock::time_point last_check_ = Clock::now();  // the last time that heartbeats were checked
  std::atomic<bool> leaving_{false};
  // The `end` of leave_before(); written before `leaving_`.
  Clock::time_point leaves_before_ = Clock::time_point::max();
  struct PeerState {
    std::string message{};  // the latest message of the peer as a survivor
    bool alive = true;
  };
  // Guards the members below, up to pending_search_; no other mutex is locked while it is held.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PeerState> states_;  // states of the peers, by rank
  std::string pending_message_;    // message of a survivor, to be sent to all ranks
  // Calls to announce, each with the rank to tell, or kAllRanks.
  std::vector<std::pair<CallRecord, int>> pending_calls_;
  bool pending_search_ = false;
  std::thread thread_;  // the last member, since the thread uses all other members
};

}  // namespace heddle::comm_detail
