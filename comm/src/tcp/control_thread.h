// The thread that keeps a tcp communicator honest while its caller computes or waits: it shows signs of life, looks for
// those of the others, and carries news of failures, and what survivors of one say.
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
#include "net/connection.h"
#include "tcp/call_watch.h"
#include "tcp/deadlock_search.h"
#include "tcp/fault_state.h"
#include "tcp/frame.h"

namespace heddle::comm_detail {

// Owns the control connections. What it learns it writes into the fault state; a failure there, whoever reported it, it tells
// all other ranks, so that each rank hears of it before it hears that somebody left because of it.
class ControlThread final : public ControlChannel {
 public:
  struct Self {
    int rank = 0;
    std::uint32_t epoch = 0;
    Key key{};
    std::chrono::milliseconds timeout{};
  };
  // What is learnt of where the ranks wait.
  struct Waits {
    CallWatch& calls;
    DeadlockSearch& deadlocks;
  };
  // By rank; null where there is no connection. `fault_state` and `waits` outlive the control thread.
  ControlThread(const Self& self, std::vector<std::unique_ptr<Connection>> connections,
                FaultState& fault_state, Waits waits);
  // Says that this rank leaves, and sees to it that this arrives, for `timeout` at most.
  ~ControlThread() override;
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  // The destructor waits until then at most, but for a moment for the words to get away. Only before it.
  void leave_before(std::chrono::steady_clock::time_point end) noexcept { leaves_before_ = end; }

  // Any thread. Tells the others that this rank is in these calls: see CallWatch.
  void tell_calls(std::span<const CallRecord> calls);
  // Likewise. Looks whether this rank's wait is part of a circle: see DeadlockSearch.
  void look_for_deadlock();
  int rank() const override { return self_.rank; }
  int size() const override { return static_cast<int>(peers_.size()); }
  bool lives(int rank) override;
  void say(const std::string& word) override;
  std::string hear(int rank) override;
  void wait() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::unique_ptr<Connection> connection{};
    std::string out{};                     // frames that the kernel has not taken yet
    std::uint64_t sent = 0, received = 0;  // frames, hellos not counted
    std::vector<std::byte> in{};
    std::size_t filled = 0;
    Clock::time_point heard{};
  };

  void run();
  void await_events(Clock::time_point until);
  void listen(int rank, Peer& peer);
  void read_frames(int rank, Peer& peer);
  void obey(int rank, Peer& peer, const ControlFrame& frame);
  void gone(int rank, Peer& peer);
  void nonsense(int rank, Peer& peer);
  void judge_silence();
  void set_life(int rank, bool lives);
  void tell_news();
  void send_on(const DeadlockSearch::Probes& probes);
  ControlFrame bad_news() const;
  void tell_all(const ControlFrame& what);
  void tell(Peer& peer, ControlFrame frame);
  void flush(Peer& peer);
  void say_goodbye();

  const Self self_;
  FaultState& fault_state_;
  Waits waits_;
  std::vector<Peer> peers_;
  std::vector<pollfd> polled_;
  Clock::time_point judged_ = Clock::now();
  std::atomic<bool> leaving_{false};
  Clock::time_point leaves_before_ = Clock::time_point::max();  // written before `leaving_`
  struct Heard {
    std::string word{};
    bool lives = true;
  };
  std::mutex mutex_;  // guards the five below; nothing is locked under it
  std::condition_variable news_;
  std::vector<Heard> heard_;  // by rank
  std::string to_say_;        // not yet told to the others, like:
  std::vector<CallRecord> waits_in_;
  bool looks_for_deadlock_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace heddle::comm_detail
