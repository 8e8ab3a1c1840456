// A copy of the state of an engine's ops, made while the engine runs on: which ops run, which wait, and what
// for.
//
// Each op is read under a lock without which it cannot end: the lock of a var whose queue it is in or that it
// mutates, of a queue of ready ops, of the submissions, or of Watch. Only the addresses of its other vars are
// used: an op that ends releases its vars one by one, and each may be deleted then. Ops are read at different
// moments, and identified by their sequence numbers. So each line of a report was true when its op was read;
// if the engine has stalled, all lines are true at the same time.
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

// If an op was seen in several states, the one that is later in this list counts.
enum class PendingState { submitted, granted, deferred, waiting, ready, running, completing, issued };

struct PendingOp {
  PendingState state = PendingState::waiting;
  OpKind kind = OpKind::user;
  std::uint64_t sequence = 0;
  std::string name, where;
  std::string streams;            // stream on which the op is issued, or streams that it is deferred for
  std::optional<double> seconds;  // time since the op was started
  int worker = -1;                // worker that started the op
  std::optional<std::uint64_t> inside;  // for a wait: the op in which the thread waits
  std::vector<const VarState*> reads;   // vars that the op reads and does not mutate; never dereferenced
};

struct PendingAccess {
  std::uint64_t sequence;  // sequence of the accessing op
  bool mutates;
};

// A var that an op waits for.
struct PendingVar {
  std::size_t number = 0;
  std::optional<PendingAccess> writer;
  std::int32_t readers = 0;
  std::vector<PendingAccess> queue;  // the first queued accesses, in push order
};

class Pending {
 public:
  explicit Pending(EngineCore& core);

  std::string text() const;
  std::string dot() const;
  bool empty() const { return ops_.empty() && submitted_.empty(); }

  // Called by visit_pending() of the schedulers. op cannot end during the call. False: enough ops of that
  // state were seen.
  bool see(const OpNode& op, PendingState state);
  PendingOp* see_started(const OpNode& op, PendingState state);

 private:
  // What an op waits for: one access of another op to one of its vars.
  struct Cause {
    std::size_t var;
    bool mutates;
    std::optional<PendingAccess> holder;  // access waited for; none: `unnamed` reads by unknown ops
    std::int32_t unnamed = 0;
  };
  using Causes = std::vector<Cause>;

  void look_at(VarState& var);
  void find_deferred();
  void bound(PendingState state);
  std::vector<PendingAccess> readers_of(const VarState* id, const PendingVar& var) const;
  void add_causes(std::map<std::uint64_t, Causes>& causes, const VarState* id, const PendingVar& var) const;
  std::map<std::uint64_t, Causes> causes() const;
  std::string title(const PendingOp& op) const;
  std::string title(std::uint64_t sequence) const;
  void describe(std::string& out, const PendingOp& op, const Causes& causes) const;
  void draw(std::string& out, const PendingOp& op, const Causes& causes) const;
  std::size_t more() const;

  std::map<std::uint64_t, PendingOp> ops_;  // keyed by sequence
  std::vector<PendingOp> submitted_;        // ops that are not entered yet, and so have no sequence number
  std::map<const VarState*, PendingVar> vars_;
  std::set<const VarState*> written_by_streams_;
  std::map<PendingState, std::size_t> seen_;
  std::int64_t in_flight_ = 0;  // users' ops that were entered and have not ended
  bool forked_ = false;
};

}  // namespace heddle::detail
