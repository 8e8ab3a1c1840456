// What is under way in an engine, copied while it runs on: which ops run, which wait, and what for.
//
// Each op is looked at under a lock without which it cannot end: the lock of a var whose queue it is in or that it
// mutates, of a queue of ready ops, of the submissions, or of Watch. Of its other vars only the addresses are used: an op
// that ends gives its vars back one by one, and each may be gone then. No two ops are looked at at the same moment;
// ops are told apart by their sequence numbers. So each line was true while it was read; of an engine that has
// stalled, all are at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "op/op_node.h"

namespace heddle::detail {

struct EngineCore;

// The later one wins where an op was seen in several.
enum class PendingState { submitted, granted, kept_back, waiting, ready, running, completing, issued };

struct PendingOp {
  PendingState state = PendingState::waiting;
  OpKind kind = OpKind::user;
  std::uint64_t sequence = 0;
  std::string name, where;
  std::string streams;                  // where it was issued, or what it is kept back for
  std::optional<double> seconds;        // since it was started
  int worker = -1;                      // that started it
  std::optional<std::uint64_t> inside;  // of a wait: the op that waits
  std::vector<const VarState*> reads;   // and does not mutate; never dereferenced
};

struct PendingAccess {
  std::uint64_t sequence;  // of the op
  bool mutates;
};

// A var that an op waits for.
struct PendingVar {
  std::size_t number = 0;
  std::optional<PendingAccess> writer;
  std::int32_t readers = 0;
  std::vector<PendingAccess> queue;  // the first few, in push order
};

class Pending {
 public:
  explicit Pending(EngineCore& core);

  std::string text() const;
  std::string dot() const;
  bool empty() const { return ops_.empty() && submitted_.empty(); }

  // For the collecting core: op cannot end during the call. False: enough of that state were seen.
  bool see(const OpNode& op, PendingState state);
  PendingOp* see_started(const OpNode& op, PendingState state);

 private:
  // What an op waits for: one access of another op to one of its vars.
  struct Cause {
    std::size_t var;
    bool mutates;
    std::optional<PendingAccess> holder;  // none: reads that could not be named
    std::int32_t unnamed = 0;
  };
  using Causes = std::vector<Cause>;

  void look_at(VarState& var);
  void find_kept_back();
  void bound(PendingState state);
  std::vector<PendingAccess> readers_of(const VarState* id, const PendingVar& var) const;
  void add_causes(std::map<std::uint64_t, Causes>& causes, const VarState* id, const PendingVar& var) const;
  std::map<std::uint64_t, Causes> causes() const;
  std::string title(const PendingOp& op) const;
  std::string title(std::uint64_t sequence) const;
  void describe(std::string& out, const PendingOp& op, const Causes& causes) const;
  void draw(std::string& out, const PendingOp& op, const Causes& causes) const;
  std::size_t more() const;

  std::map<std::uint64_t, PendingOp> ops_;  // by sequence
  std::vector<PendingOp> submitted_;        // not entered, so without a sequence
  std::map<const VarState*, PendingVar> vars_;
  std::set<const VarState*> written_by_streams_;
  std::map<PendingState, std::size_t> seen_;
  std::int64_t in_flight_ = 0;  // ops of users that were entered and have not ended
  bool forked_ = false;
};

}  // namespace heddle::detail
