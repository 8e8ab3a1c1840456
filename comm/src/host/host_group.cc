#include "host/host_group.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include <linux/futex.h>

#include <heddle/usable_cores.h>

#include "core/failure.h"
#include "core/mismatch.h"
#include "core/recorder.h"
#include "host/host_cores.h"
#include "host/stuck.h"

namespace heddle::comm_detail {
namespace {

using Clock = std::chrono::steady_clock;

// How long a wait spins before it sleeps. Waking takes some 50 us, so spinning at most doubles the cost of a sleep.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kChecksPerClockRead = 64;
// How often a sleeping rank looks for conditions that no rank wakes it for: a process that has ended, or a deadlock.
constexpr std::chrono::milliseconds kCheckInterval{20};
// How long a rank that has claimed the fault block may take to write it.
constexpr std::chrono::milliseconds kFaultTextTimeout{500};

// std::atomic::wait works only within a process.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds most) {
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(most.count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Records are copied word by word, as one may be read while its rank writes it. CallRecord::valid() checks the copy.
constexpr std::size_t kWords = sizeof(CallRecord) / sizeof(std::uint64_t);

void store_record(CallRecord& to, const CallRecord& from) {
  std::uint64_t words[kWords];
  std::memcpy(words, &from, sizeof words);
  auto* target = reinterpret_cast<std::uint64_t*>(&to);
  for (std::size_t i = 0; i < kWords; ++i) {
    std::atomic_ref(target[i]).store(words[i], std::memory_order_relaxed);
  }
}

CallRecord load_record(const CallRecord& from) {
  std::uint64_t words[kWords];
  auto* source = const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(&from));
  for (std::size_t i = 0; i < kWords; ++i) {
    words[i] = std::atomic_ref(source[i]).load(std::memory_order_relaxed);
  }
  CallRecord record;
  std::memcpy(&record, words, sizeof words);
  record.site[CallRecord::kSite] = '\0';
  return record;
}

}  // namespace

HostGroup::HostGroup(Segment segment, int rank, std::chrono::milliseconds timeout,
                     std::unique_ptr<Liveness> liveness)
    : segment_(segment),
      rank_(rank),
      timeout_(timeout),
      liveness_(std::move(liveness)),
      core_quota_(usable_cores().by_quota),
      heartbeats_(static_cast<std::size_t>(segment.size())) {
  record_cores(own_block());
  own_block().presence.store(Presence::joined, std::memory_order_release);
}

HostGroup::~HostGroup() {
  own_block().presence.store(Presence::left, std::memory_order_seq_cst);
  for (int other = 0; other < size(); ++other) wake(other);
}

void HostGroup::wake(int other) const {
  RankBlock& rank_block = segment_.rank_block(other);
  rank_block.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(rank_block.bell);
}

// The cores of all ranks together count, since ranks that are bound to one core each do not oversubscribe
// them.
void HostGroup::count_cores() {
  if (const auto cores = cores_of_ranks(segment_)) {
    oversubscribed_ = size() > *cores || (core_quota_ > 0 && size() > core_quota_);
    cores_known_ = true;
  }
}

bool HostGroup::spin(const Alternatives& alternatives) {
  if (!cores_known_) [[unlikely]]
    count_cores();
  const auto any = [&] {
    for (int i = 0; i < alternatives.count; ++i) {
      const Awaited& awaited = alternatives.of[i];
      if (awaited.counter->load(std::memory_order_acquire) >= awaited.target) return true;
    }
    return false;
  };
  const auto end = Clock::now() + kSpin;
  do {
    for (int check = 0; check < kChecksPerClockRead; ++check) {
      if (any()) return true;
      if (oversubscribed_) break;
      __builtin_ia32_pause();
    }
    core_.yield(!oversubscribed_);
  } while (Clock::now() < end);
  return false;
}

void HostGroup::await_any(const Alternatives& alternatives) {
  if (!spin(alternatives)) sleep(alternatives);
}

void HostGroup::sleep(const Alternatives& alternatives) {
  RankBlock& rank_block = own_block();
  for (int i = 0; i < alternatives.count; ++i) {
    const Awaited& awaited = alternatives.of[i];
    rank_block.waits[i].target.store(awaited.target, std::memory_order_release);
    rank_block.waits[i].rank.store(static_cast<std::uint32_t>(awaited.rank), std::memory_order_release);
    rank_block.waits[i].counter.store(segment_.offset_of(*awaited.counter), std::memory_order_release);
    heartbeats_[static_cast<std::size_t>(awaited.rank)].changed = Clock::now();
  }
  last_check_ = Clock::now();
  const std::uint64_t version = rank_block.wait_version.load(std::memory_order_relaxed) + 1;
  rank_block.wait_version.store(version, std::memory_order_release);
  struct Awake {
    RankBlock& rank_block;
    const std::uint64_t version;
    ~Awake() {
      // The version is stored before the waits change, so that a reader that sees a changed wait sees a new version.
      rank_block.wait_version.store(version + 1, std::memory_order_release);
      for (Wait& wait : rank_block.waits) wait.counter.store(0, std::memory_order_release);
      rank_block.sleeping.store(0, std::memory_order_relaxed);
    }
  } const awake{rank_block, version};
  for (auto next_check = Clock::now() + kCheckInterval;;) {
    const std::uint32_t seen = rank_block.bell.load(std::memory_order_seq_cst);
    rank_block.sleeping.store(1, std::memory_order_seq_cst);
    for (int i = 0; i < alternatives.count; ++i) {
      if (alternatives.of[i].reached()) return;
    }
    check();
    if (Clock::now() >= next_check) {
      check_peers(alternatives);
      next_check = Clock::now() + kCheckInterval;
    }
    futex_wait(rank_block.bell, seen, kCheckInterval);
  }
}

bool HostGroup::alive(int rank) const {
  return segment_.rank_block(rank).presence.load(std::memory_order_acquire) == Presence::joined &&
         !liveness_->ended(rank);
}

void HostGroup::check_peers(const Alternatives& alternatives) {
  // After a pause of its own, such as a stop by a signal, this rank cannot tell how long another one has been silent.
  if (const auto now = Clock::now();
      now - std::exchange(last_check_, now) > timeout_ / 4 + 2 * kCheckInterval) {
    for (Heartbeat& heartbeat : heartbeats_) heartbeat.changed = now;
  }
  for (int i = 0; i < alternatives.count; ++i) {
    const int rank = alternatives.of[i].rank;
    if (rank == rank_) continue;
    const bool left = segment_.rank_block(rank).presence.load(std::memory_order_acquire) == Presence::left;
    if (!left && !liveness_->ended(rank)) {
      check_heartbeat(rank);
      continue;
    }
    // The rank may have published the awaited value just before it ended.
    if (alternatives.of[i].reached()) return;
    fail(Fault::lost, rank,
         rank_name(rank) + (left ? " left the communicator" : "'s process has ended") + " while " +
             rank_name(rank_) + " waited for it in " + last_record(rank_).to_string() +
             (last_record(rank).kind == Kind::none ? "; it had made no call"
                                                   : "; its last call was " + last_record(rank).to_string()));
  }
  check_deadlock();
}

void HostGroup::check_heartbeat(int rank) {
  if (!liveness_->has_heartbeats()) return;
  Heartbeat& heartbeat = heartbeats_[static_cast<std::size_t>(rank)];
  const std::uint64_t count = segment_.rank_block(rank).heartbeat.load(std::memory_order_relaxed);
  if (std::exchange(heartbeat.count, count) != count) {
    heartbeat.changed = Clock::now();
  } else if (Clock::now() - heartbeat.changed > timeout_) {
    fail(Fault::silent, rank,
         rank_name(rank) + " has shown no sign of life for " + std::to_string(timeout_.count()) +
             " ms: it is stopped, or starved of processor time; " + rank_name(rank_) + " waited for it in " +
             last_record(rank_).to_string());
  }
}

void HostGroup::check_deadlock() {
  const std::vector<bool> stuck = stuck_ranks(segment_);
  if (!stuck[static_cast<std::size_t>(rank_)]) return;
  fail(Fault::mismatch, rank_, describe_cycle(cycle_of(segment_, stuck)));
}

// If a rank in a collective waits for one in a send or recv, the two make different calls: that is reported
// instead of the cycle.
std::string HostGroup::describe_cycle(const std::vector<int>& cycle) const {
  std::string steps;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const int rank = cycle[i], next = cycle[(i + 1) % cycle.size()];
    const CallRecord call = last_record(rank), other = last_record(next);
    if (!is_point_to_point(call.kind) && is_point_to_point(other.kind))
      return different_calls({rank, call}, {next, other});
    steps += (steps.empty() ? "" : kWaitSeparator) + wait_of({rank, call}, next);
  }
  return cycle_of_waits(steps);
}

void HostGroup::record(CallRecord& call) {
  check();
  call.nanoseconds = nanoseconds_now();
  RankBlock& rank_block = own_block();
  const std::uint64_t count = rank_block.recorded.load(std::memory_order_relaxed);
  store_record(rank_block.records[count % kRecords], call);
  rank_block.recorded.store(count + 1, std::memory_order_release);
}

void HostGroup::record_end(const CallRecord& call, bool failed) {
  RankBlock& rank_block = own_block();
  CallRecord ended = call;
  ended.state = failed ? 2 : 1;
  // Only the word that contains `state` has changed.
  constexpr std::size_t kWord = offsetof(CallRecord, state) / sizeof(std::uint64_t);
  std::uint64_t words[kWords];
  std::memcpy(words, &ended, sizeof words);
  CallRecord& last = rank_block.records[(rank_block.recorded.load(std::memory_order_relaxed) - 1) % kRecords];
  std::atomic_ref(reinterpret_cast<std::uint64_t*>(&last)[kWord])
      .store(words[kWord], std::memory_order_relaxed);
}

CallRecord HostGroup::last_record(int rank) const {
  const RankBlock& rank_block = segment_.rank_block(rank);
  const std::uint64_t count = rank_block.recorded.load(std::memory_order_acquire);
  return count ? load_record(rank_block.records[(count - 1) % kRecords]) : CallRecord{};
}

std::string HostGroup::flight_recorder() const {
  std::string text;
  for (int rank = 0; rank < size(); ++rank) {
    const RankBlock& rank_block = segment_.rank_block(rank);
    const std::uint64_t count = rank_block.recorded.load(std::memory_order_acquire);
    text += rank_name(rank) + ": " + std::to_string(count) + " calls\n";
    for (std::uint64_t i = count > kRecords ? count - kRecords : 0; i < count; ++i) {
      text += line_of(load_record(rank_block.records[i % kRecords]));
    }
  }
  return text;
}

void HostGroup::report_fault(Fault fault, int rank, std::string_view why) noexcept {
  FaultBlock& fault_block = segment_.fault();
  Taken nobody = Taken::no;
  if (fault_block.taken.compare_exchange_strong(nobody, Taken::yes)) write_fault(fault, rank, why);
}

void HostGroup::write_fault(Fault fault, int rank, std::string_view why) noexcept {
  FaultBlock& fault_block = segment_.fault();
  fault_block.rank = rank;
  const std::size_t length = std::min(why.size(), kText - 1);
  std::memcpy(fault_block.text, why.data(), length);
  fault_block.text[length] = '\0';
  fault_block.fault.store(fault, std::memory_order_seq_cst);
  for (int other = 0; other < size(); ++other) wake(other);
}

void HostGroup::throw_fault() const {
  const FaultBlock& fault_block = segment_.fault();
  switch (fault_block.fault.load(std::memory_order_acquire)) {
    case Fault::mismatch:
      throw CommMismatch(fault_block.text);
    case Fault::lost:
      throw peer_lost(fault_block.text, fault_block.rank);
    case Fault::silent:
      throw PeerSilent(fault_block.text, fault_block.rank);
    default:
      throw CommAborted(fault_block.text);
  }
}

void HostGroup::fail(Fault fault, int rank, std::string_view why) {
  report_fault(fault, rank, why);
  // Another rank may have claimed the fault block first and be writing it, or have been killed before the end.
  const auto await_fault = [this] {
    for (const auto end = Clock::now() + kFaultTextTimeout; !has_fault() && Clock::now() < end;)
      sched_yield();
    return has_fault();
  };
  FaultBlock& fault_block = segment_.fault();
  Taken once = Taken::yes;
  if (!await_fault() && fault_block.taken.compare_exchange_strong(once, Taken::again))
    write_fault(fault, rank, why);
  if (!await_fault()) fault_block.fault.store(fault, std::memory_order_seq_cst);
  throw_fault();
}

// seq_cst, like the accesses in report_fault and await_peer_access_end: either this rank sees the fault, or
// await_peer_access_end sees that this rank accesses its peers.
HostGroup::PeerAccess::PeerAccess(HostGroup& group) : own_block_(group.own_block().accessing_peers) {
  own_block_.store(1, std::memory_order_seq_cst);
  if (group.segment_.fault().fault.load(std::memory_order_seq_cst) == Fault::none) return;
  own_block_.store(0, std::memory_order_release);
  group.throw_fault();
}

HostGroup::PeerAccess::~PeerAccess() { own_block_.store(0, std::memory_order_release); }

void HostGroup::await_peer_access_end() {
  for (int other = 0; other < size(); ++other) {
    const RankBlock& rank_block = segment_.rank_block(other);
    std::uint64_t count = rank_block.heartbeat.load(std::memory_order_relaxed);
    for (auto changed = Clock::now();
         other != rank_ && rank_block.accessing_peers.load(std::memory_order_seq_cst);) {
      if (!alive(other) || (liveness_->has_heartbeats() && Clock::now() - changed > timeout_)) break;
      if (const auto next = rank_block.heartbeat.load(std::memory_order_relaxed); next != count) {
        count = next;
        changed = Clock::now();
      }
      sched_yield();
    }
  }
}

}  // namespace heddle::comm_detail
