// One rank of a host: it publishes its progress in shared memory and waits for the progress of the others. No wait
// hangs: each ends with an error when a rank has ended, stopped, made another call or aborted the communicator.
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

// Whether the other ranks' processes have ended. Thread-safe.
class Liveness {
 public:
  virtual ~Liveness() = default;
  virtual bool ended(int rank) const = 0;
  virtual bool has_heartbeats() const = 0;  // whether ranks are processes, which may be stopped
};
std::unique_ptr<Liveness> make_thread_liveness();  // for ranks that are threads of this process
std::unique_ptr<Liveness> make_process_liveness(const std::vector<int>& pids);  // process ids by rank

// A counter of rank `rank`, and the value that it has to reach.
struct Awaited {
  const Counter* counter;
  std::uint64_t target;
  int rank;
  bool reached() const { return counter->load(std::memory_order_seq_cst) >= target; }
};

// One thread at a time, except for report_fault and const functions.
class HostGroup {
 public:
  HostGroup(Segment segment, int rank, std::chrono::milliseconds timeout, std::unique_ptr<Liveness> liveness);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return segment_.size(); }
  const Segment& segment() const { return segment_; }
  RankBlock& own_block() const { return segment_.rank_block(rank_); }

  // Stores `value` into counter_of(this rank's block). All ranks publish the same targets in the same order,
  // and a rank that waits for one rank's counter waits for all. So with few cores only the last rank to reach
  // the target wakes the others: otherwise each is woken n times. With enough cores ranks seldom sleep.
  template <class CounterOf>
  void publish_to_all(const CounterOf& counter_of, std::uint64_t value, std::uint64_t target) {
    announce(counter_of(own_block()), value);
    for (int other = 0; oversubscribed_ && other < size(); ++other) {
      const Counter& counter = counter_of(segment_.rank_block(other));
      if (counter.load(std::memory_order_seq_cst) < target) return;  // a later rank wakes the others
    }
    for (int other = 0; other < size(); ++other) {
      if (other != rank_) wake_if_sleeping(other);
    }
  }
  // Stores a larger value into a counter of this rank, and wakes rank `other` if it sleeps.
  void publish_to(int other, Counter& counter, std::uint64_t value) {
    announce(counter, value);
    wake_if_sleeping(other);
  }

  // Blocks until the counter, which belongs to rank `rank`, has reached `target`. Throws the group's fault.
  void await(const Counter& counter, std::uint64_t target, int rank) {
    if (counter.load(std::memory_order_acquire) < target) await_any({{{&counter, target, rank}}, 1});
  }
  struct Alternatives {
    Awaited of[2];
    int count;
  };
  // Blocks until one of the alternatives has been reached. Throws the group's fault.
  void await_any(const Alternatives& alternatives);

  // Writes the call that this rank begins into its flight recorder, for all ranks to read. Throws the group's fault.
  void record(CallRecord& call);
  void record_end(const CallRecord& call, bool failed);
  CallRecord last_record(int rank) const;
  std::string flight_recorder() const;

  // Makes the waits and calls of all ranks throw from now on. The first report counts. Any thread.
  void report_fault(Fault fault, int rank, std::string_view why) noexcept;
  bool has_fault() const { return segment_.fault().fault.load(std::memory_order_acquire) != Fault::none; }
  [[noreturn]] void throw_fault() const;
  void check() const {
    if (has_fault()) throw_fault();
  }
  // Reports the fault. Throws the fault that was reported first: this one, or an earlier one.
  [[noreturn]] void fail(Fault fault, int rank, std::string_view why);

  // A scope in which this rank may read and write the other ranks' arrays. The constructor throws the group's fault.
  class PeerAccess {
   public:
    explicit PeerAccess(HostGroup& group);
    ~PeerAccess();
    PeerAccess(const PeerAccess&) = delete;
    PeerAccess& operator=(const PeerAccess&) = delete;

   private:
    std::atomic<std::uint32_t>& own_block_;
  };
  // After a fault: blocks until no other rank is in a PeerAccess scope. Ranks without a heartbeat for the timeout are
  // not waited for.
  void await_peer_access_end();

  void heartbeat() noexcept { own_block().heartbeat.fetch_add(1, std::memory_order_relaxed); }
  bool alive(int rank) const;
  bool has_heartbeats() const { return liveness_->has_heartbeats(); }

 private:
  // seq_cst, like the load of Awaited::reached and the accesses to `sleeping`: either the rank that sleeps sees the new
  // value of the counter, or this rank sees that it has to wake that rank.
  static void announce(Counter& counter, std::uint64_t value) {
    counter.store(value, std::memory_order_seq_cst);
  }
  void wake_if_sleeping(int other) const {
    if (segment_.rank_block(other).sleeping.load(std::memory_order_seq_cst)) wake(other);
  }
  void wake(int other) const;
  bool spin(const Alternatives& alternatives);
  void count_cores();
  void sleep(const Alternatives& alternatives);
  void check_peers(const Alternatives& alternatives);
  void check_heartbeat(int rank);
  void write_fault(Fault fault, int rank, std::string_view why) noexcept;
  void check_deadlock();
  std::string describe_cycle(const std::vector<int>& cycle) const;

  const Segment segment_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
  const std::unique_ptr<Liveness> liveness_;
  const double core_quota_;  // this process's CPU quota in cores; 0: unlimited
  // oversubscribed_: there are more ranks than cores, so a spinning rank would keep the one that it waits for from
  // running. cores_known_: all ranks have joined, and their cores are counted.
  bool oversubscribed_ = true, cores_known_ = false;
  CoreShare core_;
  struct Heartbeat {
    std::uint64_t count = 0;
    std::chrono::steady_clock::time_point changed{};
  };
  std::chrono::steady_clock::time_point last_check_{};  // when this rank last checked heartbeats
  std::vector<Heartbeat> heartbeats_;  // the other ranks' heartbeats, as last read while waiting for them
};

}  // namespace heddle::comm_detail
