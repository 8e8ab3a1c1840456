// One rank among those of its host: how it says what it has done, and how it waits for what others do. No wait hangs:
// every one ends when a rank has gone, is stopped, has called something else or somebody gave up.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/core_share.h"
#include "host/segment.h"

namespace heddle::comm_detail {

// Whether the other ranks' processes live. Thread-safe.
class Liveness {
 public:
  virtual ~Liveness() = default;
  virtual bool ended(int rank) const = 0;
  virtual bool beats() const = 0;  // the ranks have heartbeats
};
std::unique_ptr<Liveness> make_thread_liveness();  // ranks are threads of this process
std::unique_ptr<Liveness> make_process_liveness(const std::vector<int>& pids);  // by rank

// A counter of rank whom that is to reach a value.
struct Awaited {
  const Counter* counter;
  std::uint64_t target;
  int whom;
  bool there() const { return counter->load(std::memory_order_seq_cst) >= target; }
};

// One thread at a time, but for `give_up` and what is const.
class HostGroup {
 public:
  HostGroup(Segment segment, int rank, std::chrono::milliseconds timeout, std::unique_ptr<Liveness> liveness);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return segment_.size(); }
  const Segment& segment() const { return segment_; }
  RankBlock& mine() const { return segment_.rank_block(rank_); }

  // Makes a counter of this rank's grow, and tells the ranks that sleep.
  void publish(Counter& counter, std::uint64_t value) {
    announce(counter, value);
    for (int other = 0; other < size(); ++other) {
      if (other != rank_) ring(other);
    }
  }
  void publish_to(int other, Counter& counter, std::uint64_t value) {
    announce(counter, value);
    ring(other);
  }

  // Blocks until it is there. Throws what give_up was called with, here or on another rank.
  void await(const Counter& counter, std::uint64_t target, int whom) {
    if (counter.load(std::memory_order_acquire) < target) await_any({{{&counter, target, whom}}, 1});
  }
  struct Alternatives {
    Awaited of[2];
    int count;
  };
  void await_any(const Alternatives& alternatives);

  // The call that this rank is about to take part in, for others who look. Throws if the group has been given up.
  void record(CallRecord& call);
  void record_end(const CallRecord& call, bool failed);
  CallRecord last_record(int rank) const;
  std::string flight_recorder() const;

  // Everybody's waits and calls throw from now on. The first one who gives up says why. Any thread.
  void give_up(Fault fault, int rank, std::string_view why) noexcept;
  bool given_up() const { return segment_.fault().fault.load(std::memory_order_acquire) != Fault::none; }
  [[noreturn]] void throw_fault() const;
  void check() const {
    if (given_up()) throw_fault();
  }
  [[noreturn]] void fail(Fault fault, int rank, std::string_view why);

  // While one lives, this rank may read and write the other ranks' arrays. Throws if the group has been given up.
  class Reaching {
   public:
    explicit Reaching(HostGroup& group);
    ~Reaching();
    Reaching(const Reaching&) = delete;
    Reaching& operator=(const Reaching&) = delete;

   private:
    std::atomic<std::uint32_t>& mine_;
  };
  // After the group has been given up: blocks until no other rank reaches into this one's arrays any more. One that is
  // stopped for long is not waited for.
  void await_withdrawal();

  void beat() noexcept { mine().heartbeat.fetch_add(1, std::memory_order_relaxed); }
  bool alive(int rank) const;
  bool has_heartbeats() const { return liveness_->beats(); }

 private:
  // seq_cst, with that of Awaited::there and the two of `sleeping`: either the sleeper sees the counter, or it is rung.
  static void announce(Counter& counter, std::uint64_t value) {
    counter.store(value, std::memory_order_seq_cst);
  }
  void ring(int other) const {
    if (segment_.rank_block(other).sleeping.load(std::memory_order_seq_cst)) ring_bell(other);
  }
  void ring_bell(int other) const;
  bool spin(const Alternatives& alternatives);
  void look_at_crowd();
  void sleep(const Alternatives& alternatives);
  void look_around(const Alternatives& alternatives);
  void look_for_silence(int whom);
  void declare(Fault fault, int rank, std::string_view why) noexcept;
  void look_for_deadlock();
  std::string words_of(const std::vector<int>& circle) const;

  const Segment segment_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
  const std::unique_ptr<Liveness> liveness_;
  const double core_quota_;  // of this process; 0: none
  // More ranks than cores: a spinning rank keeps the one it waits for from running. Asked until all ranks are there.
  bool crowded_ = true, crowd_known_ = false;
  CoreShare core_;
  struct Pulse {
    std::uint64_t beat = 0;
    std::chrono::steady_clock::time_point since{};
  };
  std::chrono::steady_clock::time_point looked_{};  // when this rank last looked for others' signs of life
  std::vector<Pulse> pulses_;                       // of the others, as last seen while waiting for them
};

}  // namespace heddle::comm_detail
