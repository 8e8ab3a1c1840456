// The thread that keeps a tcp communicator honest while its caller computes or waits: it shows signs of life, looks for
// those of the others, and carries news of failures.
#pragma once

#include <atomic>
#include <chrono>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

#include "connection.h"
#include "fate.h"
#include "frame.h"

namespace heddle::detail {

// Owns the control connections. What it learns it writes into the fate; a failure there, whoever reported it, it tells
// all other ranks, so that each rank hears of it before it hears that somebody left because of it.
class Keeper {
 public:
  struct Self {
    int rank = 0;
    std::uint32_t epoch = 0;
    Key key{};
    std::chrono::milliseconds timeout{};
  };
  // By rank; null where there is no connection. `fate` outlives the keeper.
  Keeper(const Self& self, std::vector<std::unique_ptr<Connection>> connections, Fate& fate);
  // Says that this rank leaves, and sees to it that this arrives, for `timeout` at most.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

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
  void wait(Clock::time_point until);
  void listen(int rank, Peer& peer);
  void read_frames(int rank, Peer& peer);
  void obey(int rank, Peer& peer, const ControlFrame& frame);
  void gone(int rank, Peer& peer);
  void nonsense(int rank, Peer& peer);
  void judge_silence();
  void tell_all(FrameKind kind, const Failure& failure = {});
  void tell(Peer& peer, FrameKind kind, const Failure& failure);
  void flush(Peer& peer);
  void say_goodbye();

  const Self self_;
  Fate& fate_;
  std::vector<Peer> peers_;
  std::vector<pollfd> polled_;
  std::atomic<bool> leaving_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace heddle::detail
