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

#include "core/mismatch.h"
#include "core/recorder.h"
#include "host/host_cores.h"
#include "host/stuck.h"

namespace heddle::comm_detail {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a thread takes some 50 us: who looks for that long has lost no more than by sleeping at once.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kLooks = 64;  // between two questions for the time
// A sleeper looks for what nobody rings for, a process that ended or ranks that wait for each other.
constexpr std::chrono::milliseconds kNap{20};
constexpr std::chrono::milliseconds kLastWords{500};

// Between processes, which std::atomic::wait is not made for.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds most) {
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(most.count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// A record may be read while its rank writes it: word by word, and nobody believes it before it is valid.
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

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

HostGroup::HostGroup(Segment segment, int rank, std::chrono::milliseconds timeout,
                     std::unique_ptr<Liveness> liveness)
    : segment_(segment),
      rank_(rank),
      timeout_(timeout),
      liveness_(std::move(liveness)),
      core_quota_(usable_cores().by_quota),
      pulses_(static_cast<std::size_t>(segment.size())) {
  say_cores(mine());
  mine().presence.store(Presence::there, std::memory_order_release);
}

HostGroup::~HostGroup() {
  mine().presence.store(Presence::left, std::memory_order_seq_cst);
  for (int other = 0; other < size(); ++other) ring_bell(other);
}

void HostGroup::ring_bell(int other) const {
  RankBlock& rank_block = segment_.rank_block(other);
  rank_block.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(rank_block.bell);
}

// Ranks that are bound to cores of their own are no crowd, though each of them may use fewer cores than there are ranks.
void HostGroup::look_at_crowd() {
  if (const auto cores = cores_of_ranks(segment_)) {
    crowded_ = size() > *cores || (core_quota_ > 0 && size() > core_quota_);
    crowd_known_ = true;
  }
}

bool HostGroup::spin(const Alternatives& alternatives) {
  if (!crowd_known_) [[unlikely]]
    look_at_crowd();
  const auto any = [&] {
    for (int i = 0; i < alternatives.count; ++i) {
      const Awaited& awaited = alternatives.of[i];
      if (awaited.counter->load(std::memory_order_acquire) >= awaited.target) return true;
    }
    return false;
  };
  const auto end = Clock::now() + kSpin;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (any()) return true;
      if (crowded_) break;
      __builtin_ia32_pause();
    }
    crowded_ ? static_cast<void>(sched_yield()) : core_.yield();
  } while (Clock::now() < end);
  return false;
}

void HostGroup::await_any(const Alternatives& alternatives) {
  if (!spin(alternatives)) sleep(alternatives);
}

void HostGroup::sleep(const Alternatives& alternatives) {
  RankBlock& rank_block = mine();
  for (int i = 0; i < alternatives.count; ++i) {
    const Awaited& awaited = alternatives.of[i];
    rank_block.waits[i].target.store(awaited.target, std::memory_order_release);
    rank_block.waits[i].whom.store(static_cast<std::uint32_t>(awaited.whom), std::memory_order_release);
    rank_block.waits[i].counter.store(segment_.offset_of(*awaited.counter), std::memory_order_release);
    pulses_[static_cast<std::size_t>(awaited.whom)].since = Clock::now();
  }
  looked_ = Clock::now();
  const std::uint64_t nap = rank_block.naps.load(std::memory_order_relaxed) + 1;
  rank_block.naps.store(nap, std::memory_order_release);
  struct Awake {
    RankBlock& rank_block;
    const std::uint64_t nap;
    ~Awake() {
      // Before anything else, and the waits after it: who sees one of them changed sees this.
      rank_block.naps.store(nap + 1, std::memory_order_release);
      for (Wait& wait : rank_block.waits) wait.counter.store(0, std::memory_order_release);
      rank_block.sleeping.store(0, std::memory_order_relaxed);
    }
  } const awake{rank_block, nap};
  for (auto next_look = Clock::now() + kNap;;) {
    const std::uint32_t heard = rank_block.bell.load(std::memory_order_seq_cst);
    rank_block.sleeping.store(1, std::memory_order_seq_cst);
    for (int i = 0; i < alternatives.count; ++i) {
      if (alternatives.of[i].there()) return;
    }
    check();
    if (Clock::now() >= next_look) {
      look_around(alternatives);
      next_look = Clock::now() + kNap;
    }
    futex_wait(rank_block.bell, heard, kNap);
  }
}

bool HostGroup::alive(int rank) const {
  return segment_.rank_block(rank).presence.load(std::memory_order_acquire) == Presence::there &&
         !liveness_->ended(rank);
}

void HostGroup::look_around(const Alternatives& alternatives) {
  // Who has been stopped itself, with the others or alone, cannot tell how long they have been silent.
  if (const auto now = Clock::now(); now - std::exchange(looked_, now) > timeout_ / 4 + 2 * kNap) {
    for (Pulse& pulse : pulses_) pulse.since = now;
  }
  for (int i = 0; i < alternatives.count; ++i) {
    const int whom = alternatives.of[i].whom;
    if (whom == rank_) continue;
    const bool left = segment_.rank_block(whom).presence.load(std::memory_order_acquire) == Presence::left;
    if (!left && !liveness_->ended(whom)) {
      look_for_silence(whom);
      continue;
    }
    // What it did before it went counts.
    if (alternatives.of[i].there()) return;
    fail(Fault::lost, whom,
         rank_name(whom) + (left ? " left the communicator" : "'s process has ended") + " while " +
             rank_name(rank_) + " waited for it in " + last_record(rank_).to_string() +
             "; its last call was " + last_record(whom).to_string());
  }
  look_for_deadlock();
}

void HostGroup::look_for_silence(int whom) {
  if (!liveness_->beats()) return;
  Pulse& pulse = pulses_[static_cast<std::size_t>(whom)];
  const std::uint64_t beat = segment_.rank_block(whom).heartbeat.load(std::memory_order_relaxed);
  if (std::exchange(pulse.beat, beat) != beat) {
    pulse.since = Clock::now();
  } else if (Clock::now() - pulse.since > timeout_) {
    fail(Fault::silent, whom,
         rank_name(whom) + " has shown no sign of life for " + std::to_string(timeout_.count()) +
             " ms: it is stopped, or starved of processor time; " + rank_name(rank_) + " waited for it in " +
             last_record(rank_).to_string());
  }
}

void HostGroup::look_for_deadlock() {
  const std::vector<bool> stuck = stuck_ranks(segment_);
  if (!stuck[static_cast<std::size_t>(rank_)]) return;
  fail(Fault::mismatch, rank_, words_of(circle_of(segment_, stuck)));
}

// A collective that waits for a send or a recv shows without the circle that the ranks call different things.
std::string HostGroup::words_of(const std::vector<int>& circle) const {
  std::string steps;
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const int rank = circle[i], next = circle[(i + 1) % circle.size()];
    const CallRecord call = last_record(rank), other = last_record(next);
    if (!is_pair(call.kind) && is_pair(other.kind)) return different_calls({rank, call}, {next, other});
    steps += (steps.empty() ? "" : kNextWait) + wait_of({rank, call}, next);
  }
  return circle_of_waits(steps);
}

void HostGroup::record(CallRecord& call) {
  check();
  call.nanoseconds = nanoseconds_now();
  RankBlock& rank_block = mine();
  const std::uint64_t count = rank_block.recorded.load(std::memory_order_relaxed);
  store_record(rank_block.records[count % kRecords], call);
  rank_block.recorded.store(count + 1, std::memory_order_release);
}

void HostGroup::record_end(const CallRecord& call, bool failed) {
  RankBlock& rank_block = mine();
  CallRecord ended = call;
  ended.state = failed ? 2 : 1;
  // Only the word that has changed.
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

void HostGroup::give_up(Fault fault, int rank, std::string_view why) noexcept {
  FaultBlock& fault_block = segment_.fault();
  Taken nobody = Taken::no;
  if (fault_block.taken.compare_exchange_strong(nobody, Taken::yes)) declare(fault, rank, why);
}

void HostGroup::declare(Fault fault, int rank, std::string_view why) noexcept {
  FaultBlock& fault_block = segment_.fault();
  fault_block.rank = rank;
  const std::size_t length = std::min(why.size(), kText - 1);
  std::memcpy(fault_block.text, why.data(), length);
  fault_block.text[length] = '\0';
  fault_block.fault.store(fault, std::memory_order_seq_cst);
  for (int other = 0; other < size(); ++other) ring_bell(other);
}

void HostGroup::throw_fault() const {
  const FaultBlock& fault_block = segment_.fault();
  switch (fault_block.fault.load(std::memory_order_acquire)) {
    case Fault::mismatch:
      throw CommMismatch(fault_block.text);
    case Fault::lost:
      throw PeerLost(fault_block.text, fault_block.rank);
    case Fault::silent:
      throw PeerSilent(fault_block.text, fault_block.rank);
    default:
      throw CommAborted(fault_block.text);
  }
}

void HostGroup::fail(Fault fault, int rank, std::string_view why) {
  give_up(fault, rank, why);
  // Somebody else may have been first, and be about to say why; or have been killed before it could.
  const auto listen = [this] {
    for (const auto end = Clock::now() + kLastWords; !given_up() && Clock::now() < end;) sched_yield();
    return given_up();
  };
  FaultBlock& fault_block = segment_.fault();
  Taken once = Taken::yes;
  if (!listen() && fault_block.taken.compare_exchange_strong(once, Taken::again)) declare(fault, rank, why);
  if (!listen()) fault_block.fault.store(fault, std::memory_order_seq_cst);
  throw_fault();
}

// seq_cst, with give_up and await_withdrawal: either the group is seen to be given up here, or this is seen there.
HostGroup::Reaching::Reaching(HostGroup& group) : mine_(group.mine().reaching) {
  mine_.store(1, std::memory_order_seq_cst);
  if (group.segment_.fault().fault.load(std::memory_order_seq_cst) == Fault::none) return;
  mine_.store(0, std::memory_order_release);
  group.throw_fault();
}

HostGroup::Reaching::~Reaching() { mine_.store(0, std::memory_order_release); }

void HostGroup::await_withdrawal() {
  for (int other = 0; other < size(); ++other) {
    const RankBlock& rank_block = segment_.rank_block(other);
    std::uint64_t beat = rank_block.heartbeat.load(std::memory_order_relaxed);
    for (auto since = Clock::now(); other != rank_ && rank_block.reaching.load(std::memory_order_seq_cst);) {
      if (!alive(other) || (liveness_->beats() && Clock::now() - since > timeout_)) break;
      if (const auto next = rank_block.heartbeat.load(std::memory_order_relaxed); next != beat) {
        beat = next;
        since = Clock::now();
      }
      sched_yield();
    }
  }
}

}  // namespace heddle::comm_detail
