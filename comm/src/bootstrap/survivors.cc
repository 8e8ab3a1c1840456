#include "bootstrap/survivors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include <heddle/comm_error.h>

namespace heddle::comm_detail {
namespace {

constexpr std::size_t kMaxText = 3 << 10;  // bytes of a text: a message holds two texts and a set of ranks

// How long a rank waits after a failed attempt before it aborts, since the cause may be a rank whose failure is
// detected only later, because its whole host is lost.
constexpr std::chrono::milliseconds kFailureDetection{3000};

// The first part of a message, in memory and on the wire. The set of live ranks (one bit for each rank) and
// the two texts follow.
struct RawMessage {
  std::uint64_t round = 0;
  std::uint32_t ranks = 0;
  std::uint16_t text = 0, previous_text = 0;  // lengths of the two texts in bytes
  std::uint64_t phase = 0;
};
static_assert(sizeof(RawMessage) == 24);

std::string name(int rank) { return "rank " + std::to_string(rank); }

// The message of the exception that `build` throws; empty if it returns.
std::string problem_of(const std::function<void()>& build) {
  try {
    build();
  } catch (const std::exception& error) {
    const std::string why = error.what();
    return why.empty() ? "an exception that says nothing" : why;
  }
  return "";
}

}  // namespace

std::string encode(const SurvivorMessage& message) {
  RawMessage raw;
  raw.round = message.round;
  raw.ranks = static_cast<std::uint32_t>(message.alive.size());
  raw.text = static_cast<std::uint16_t>(message.text.size());
  raw.previous_text = static_cast<std::uint16_t>(message.previous_text.size());
  raw.phase = static_cast<std::uint64_t>(message.phase);
  std::string bits((message.alive.size() + 7) / 8, '\0');
  for (std::size_t rank = 0; rank < message.alive.size(); ++rank) {
    if (message.alive[rank]) bits[rank / 8] = static_cast<char>(bits[rank / 8] | 1 << rank % 8);
  }
  return std::string(reinterpret_cast<const char*>(&raw), sizeof raw) + bits + message.text +
         message.previous_text;
}

bool decode(const std::string& bytes, int ranks, SurvivorMessage& message) {
  RawMessage raw;
  if (bytes.size() < sizeof raw) return false;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.ranks != static_cast<std::uint32_t>(ranks)) return false;
  const std::size_t bits = sizeof raw, text = bits + (raw.ranks + 7) / 8, previous = text + raw.text;
  if (raw.phase > static_cast<std::uint64_t>(Phase::aborted) ||
      bytes.size() != previous + raw.previous_text) {
    return false;
  }
  message.alive.assign(raw.ranks, false);
  for (std::size_t rank = 0; rank < raw.ranks; ++rank) {
    message.alive[rank] = bytes[bits + rank / 8] >> rank % 8 & 1;
  }
  message.round = raw.round;
  message.phase = static_cast<Phase>(raw.phase);
  message.text = bytes.substr(text, raw.text);
  message.previous_text = bytes.substr(previous);
  return true;
}

Survivors::Survivors(ControlChannel& channel, std::chrono::milliseconds timeout, std::uint32_t epoch)
    : control_channel_(channel),
      timeout_(timeout),
      epoch_(epoch),
      received_(static_cast<std::size_t>(channel.size())) {
  own_.alive.assign(received_.size(), true);
}

// is_alive() is called before the message is read, so that the last message of a rank that has failed is seen. The
// message of a failed rank counts only if it says that the attempt is committed: another rank may have seen it and
// committed too.
Survivors::Change Survivors::receive_from(int rank) {
  SurvivorMessage& message = received_[static_cast<std::size_t>(rank)];
  const bool alive = control_channel_.is_alive(rank);
  const std::string bytes = control_channel_.latest_message(rank);
  const bool valid = bytes.empty() || decode(bytes, control_channel_.size(), message);
  const bool committed = valid && message.phase == Phase::committed;
  if (committed && message.alive == candidate_) return Change::committed;
  if (!valid || (!alive && !committed)) return exclude(rank), Change::fewer_ranks;
  if (bytes.empty()) return Change::none;
  if (!message.alive[static_cast<std::size_t>(control_channel_.rank())]) throw_excluded();
  if (!alive) return exclude(rank), Change::fewer_ranks;
  if (message.phase == Phase::aborted) abort(message.text);
  Change change = Change::none;
  for (int other = 0; other < control_channel_.size(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (!own_.alive[at] || message.alive[at]) continue;
    exclude(other);
    change = Change::fewer_ranks;
  }
  return change;
}

void Survivors::throw_excluded() {
  closed_reason_ = "the other ranks took this one for dead, and went on without it";
  // Tells the other ranks that this one is out. Ranks that still take it for alive will exclude it.
  own_.alive[static_cast<std::size_t>(control_channel_.rank())] = false;
  broadcast();
  throw PeerLost("shrink: " + closed_reason_, control_channel_.rank());
}

Survivors::Change Survivors::receive_all() {
  Change change = Change::none;
  for (int rank = 0; rank < control_channel_.size(); ++rank) {
    if (rank == control_channel_.rank() || !own_.alive[static_cast<std::size_t>(rank)]) continue;
    const Change one = receive_from(rank);
    if (one == Change::committed) return one;
    if (one == Change::fewer_ranks) change = one;
  }
  if (change == Change::fewer_ranks) broadcast();
  return change;
}

// Ends the attempt: its round, phase and texts belong to the larger set.
void Survivors::exclude(int rank) {
  own_.alive[static_cast<std::size_t>(rank)] = false;
  own_ = {own_.alive};
  current_ = false;
}

bool Survivors::all_reached(std::uint64_t round) const {
  for (std::size_t rank = 0; rank < received_.size(); ++rank) {
    if (static_cast<int>(rank) == control_channel_.rank() || !own_.alive[rank]) continue;
    if (!in_same_attempt(received_[rank]) || received_[rank].round < round) return false;
  }
  return true;
}

void Survivors::wait(Clock::time_point deadline, const char* what) {
  if (control_channel_.now() <= deadline) return control_channel_.wait();
  std::string missing;
  for (std::size_t rank = 0; rank < received_.size(); ++rank) {
    const bool undecided = own_.phase != Phase::joining && received_[rank].phase == Phase::joining;
    const bool behind = !in_same_attempt(received_[rank]) || received_[rank].round < own_.round || undecided;
    if (static_cast<int>(rank) == control_channel_.rank() || !own_.alive[rank] || !behind) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  throw CommError("these ranks live, but have not " + std::string(what) + ": " + missing);
}

bool Survivors::agree() {
  // This rank may have received its exclusion during the previous attempt, which ended then as after any
  // other failure.
  if (!own_.alive[static_cast<std::size_t>(control_channel_.rank())]) throw_excluded();
  if (!closed_reason_.empty()) throw CommError("shrink: " + closed_reason_);
  broadcast();
  auto deadline = control_channel_.now() + 2 * timeout_;
  for (;;) {
    const Change change = receive_all();
    if (change == Change::committed) return finish(), false;
    if (change == Change::fewer_ranks) deadline = control_channel_.now() + 2 * timeout_;
    if (change == Change::none && all_reached(0)) break;
    wait(deadline, "called shrink");
  }
  // No rank can commit an earlier attempt from here on, since all have published that they have left it.
  candidate_.clear();
  members_.clear();
  for (int rank = 0; rank < control_channel_.size(); ++rank) {
    if (!own_.alive[static_cast<std::size_t>(rank)]) continue;
    if (rank == control_channel_.rank()) rank_ = size();
    members_.push_back(rank);
  }
  return current_ = true;
}

void Survivors::make(const std::function<void()>& build) {
  if (making_.exchange(true, std::memory_order_acquire))
    throw CommError("shrink: another thread is shrinking this communicator");
  struct End {
    std::atomic<bool>& making;
    ~End() { making.store(false, std::memory_order_release); }
  } const end{making_};
  while (agree() && !commit(problem_of(build))) {
  }
}

void Survivors::check() {
  if (!current_ || receive_all() != Change::none)
    throw PeerLost("shrink: another rank has died meanwhile", -1);
  for (const int rank : members_) {
    if (rank == control_channel_.rank()) continue;
    const SurvivorMessage& message = received_[static_cast<std::size_t>(rank)];
    if (message.phase == Phase::failed && in_same_attempt(message))
      throw CommError(name(rank) + ": " + message.text);
  }
}

std::vector<std::string> Survivors::all_gather(const std::string& mine) {
  check();
  next_round(mine);
  const auto deadline = control_channel_.now() + 2 * timeout_;
  while (!all_reached(own_.round)) {
    wait(deadline, "answered in shrink");
    check();
  }
  std::vector<std::string> all;
  for (const int rank : members_) {
    const SurvivorMessage& message = received_[static_cast<std::size_t>(rank)];
    const bool ahead = rank != control_channel_.rank() && message.round > own_.round;
    all.push_back(rank == control_channel_.rank() ? mine : ahead ? message.previous_text : message.text);
  }
  return all;
}

void Survivors::next_round(const std::string& text) {
  if (text.size() > kMaxText) {
    throw CommError("a text of " + std::to_string(text.size()) + " bytes is too long for survivors");
  }
  ++own_.round;
  own_.previous_text = std::exchange(own_.text, text);
  broadcast();
}

bool Survivors::commit(const std::string& problem) {
  if (!current_) return false;
  own_.phase = problem.empty() ? Phase::ready : Phase::failed;
  if (problem.empty()) candidate_ = own_.alive;
  next_round(problem.substr(0, kMaxText));
  const auto begin = control_channel_.now();
  for (;;) {
    const Change change = receive_all();
    if (change == Change::fewer_ranks) return false;
    if (change == Change::committed) return finish(), true;
    std::string why;
    const bool all = all_reported(why);
    if (all && why.empty()) return finish(), true;
    if (all && control_channel_.now() > begin + std::min(timeout_, kFailureDetection)) abort(why);
    try {
      wait(begin + 2 * timeout_, "come to an end with shrink");
    } catch (const CommError& error) {
      abort(error.what());
    }
  }
}

// Whether all ranks are ready or have failed; `problem` becomes the reason of the first that has failed.
bool Survivors::all_reported(std::string& problem) const {
  const auto add = [&problem](int rank, const SurvivorMessage& message) {
    if (message.phase == Phase::failed && problem.empty()) problem = name(rank) + ": " + message.text;
  };
  add(control_channel_.rank(), own_);
  for (const int rank : members_) {
    if (rank == control_channel_.rank()) continue;
    const SurvivorMessage& message = received_[static_cast<std::size_t>(rank)];
    if (!in_same_attempt(message) || message.phase == Phase::joining) return false;
    add(rank, message);
  }
  return true;
}

void Survivors::finish() {
  // The committed set, even if one of its ranks has failed since. The other ranks compare it with theirs.
  own_ = {candidate_, own_.round, Phase::committed};
  closed_reason_ = "this communicator has been shrunk already; what has to shrink is the new one";
  broadcast();
}

void Survivors::abort(const std::string& why) {
  closed_reason_ = why.substr(0, kMaxText);
  own_.phase = Phase::aborted;
  own_.text = closed_reason_;
  own_.previous_text.clear();
  broadcast();
  throw CommError("shrink: " + closed_reason_);
}

}  // namespace heddle::comm_detail
