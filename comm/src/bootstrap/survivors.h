// How the ranks that are left after a fault agree on who they are and build something new together, such as a back end,
// although more of them may fail meanwhile. It is a two-phase commit without a coordinator.
//
// Each rank publishes a state: the set of ranks that it takes for alive, its phase, a round and a text. A newer state
// replaces the older one of the same rank. Sets only shrink: a rank removes failed ranks from its set, and all ranks
// that are missing from the set of another one. A set therefore identifies an attempt, and ranks with different sets
// end up with the same one. An attempt is committed when all ranks of its set are ready. A rank that sees this
// publishes it before it returns. A rank that was ready and sees that a rank it takes for alive has committed commits
// too, even if a rank of the set has failed since.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "bootstrap/rendezvous.h"

namespace heddle::comm_detail {

// Carries the states of the ranks, also after a fault.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether the rank is alive: false once its process has ended or stopped, or the rank has left. What the
  // rank broadcast before that is returned by later calls of latest_message().
  virtual bool is_alive(int rank) = 0;
  // Sends a message to all other ranks. It replaces the message before, and has at most kMaxSurvivorMessage
  // bytes.
  virtual void broadcast(const std::string& message) = 0;
  virtual std::string latest_message(int rank) = 0;  // empty: no message has come
  // Blocks until a message may have come or a rank failed, for some milliseconds at most.
  virtual void wait() = 0;
  // The clock by which deadlines are measured. Tests replace it.
  virtual std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }
};
constexpr std::size_t kMaxSurvivorMessage = 8 << 10;

// Joining: the attempt is under way. Ready: the rank has built its part; failed: the rank could not build it.
// Committed and aborted are final.
enum class Phase : std::uint8_t { joining, ready, failed, committed, aborted };

// The state that a rank publishes.
struct SurvivorMessage {
  std::vector<bool> alive{};  // by rank: whether the sender takes that rank for alive
  std::uint64_t round = 0;    // number of all_gathers in this attempt; 0: none so far
  Phase phase = Phase::joining;
  // Texts of this round and of the round before, since other ranks may be one round behind.
  std::string text{}, previous_text{};
};
std::string encode(const SurvivorMessage& message);
// Decodes a message. False if `bytes` are no message of a job with so many ranks.
bool decode(const std::string& bytes, int ranks, SurvivorMessage& message);

// A rendezvous of the ranks that are alive. One thread at a time, but for make().
class Survivors final : public Rendezvous {
 public:
  Survivors(ControlChannel& channel, std::chrono::milliseconds timeout, std::uint32_t epoch);

  // Begins an attempt. True: all live ranks have joined it with the same set, and are the ranks from now on.
  // False: the attempt before this one is committed, because another rank has committed it. Blocks. Throws
  // CommError naming the ranks that have not joined within twice the timeout, and PeerLost if the others have
  // gone on without this rank.
  bool agree();
  // Ends an attempt: this rank has built its part, or `problem` says why not. True: the attempt is committed. False: a
  // rank has failed; call agree() again. Throws CommError, for good, if a live rank could not build its part.
  bool commit(const std::string& problem);

  // Makes attempts until one is committed. `build` uses this rendezvous, and starts from nothing in each
  // attempt. If `build` throws, the attempt ends, and a new one begins if a rank has failed; otherwise make()
  // throws CommError. Any thread; throws CommError while another thread is in make().
  void make(const std::function<void()>& build);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::uint32_t epoch() const override { return epoch_; }
  // Gathers a text of each live rank. Throws PeerLost when a rank has failed during the attempt. A text is 3
  // KiB at most.
  std::vector<std::string> all_gather(const std::string& mine) override;
  void check() override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Change : std::uint8_t { none, fewer_ranks, committed };
  Change receive_all();
  Change receive_from(int rank);
  void exclude(int rank);
  void next_round(const std::string& text);
  void broadcast() { control_channel_.broadcast(encode(own_)); }
  bool in_same_attempt(const SurvivorMessage& message) const { return message.alive == own_.alive; }
  bool all_reached(std::uint64_t round) const;
  void wait(Clock::time_point deadline, const char* what);
  bool all_reported(std::string& problem) const;
  void finish();
  [[noreturn]] void throw_excluded();
  [[noreturn]] void abort(const std::string& why);

  ControlChannel& control_channel_;
  const std::chrono::milliseconds timeout_;
  const std::uint32_t epoch_;
  SurvivorMessage own_;
  std::vector<SurvivorMessage> received_;  // the latest message of each rank
  // The set of ranks with which this rank was ready, while other ranks may commit it.
  std::vector<bool> candidate_;
  std::vector<int> members_;
  int rank_ = -1;
  std::atomic<bool> making_ = false;
  bool current_ = false;       // whether no rank has failed since members_ was agreed on
  std::string closed_reason_;  // why no further attempt is possible
};

}  // namespace heddle::comm_detail
