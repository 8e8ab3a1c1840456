// Finds out whether a wait inside an op could only end after that op: by a search through the ops that come after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "op/op_node.h"

namespace heddle::detail {

// The waits inside ops of one engine.
struct OpWaits {
  // Guards WaitState::resumes, WaitState::beneath and all below; vars' locks may be taken inside.
  std::mutex mutex;
  std::uint64_t given_up = 0;  // how many waits were given up before the op that they waited for had ended
  // Call with the mutex held. From now on the op inside which the thread waited may end.
  void give_up(WaitState& state) {
    state.resumes = nullptr;
    state.beneath.clear();
    ++given_up;
  }
};

// Preconditions: the wait op of `target` is entered, and `from` does not end during the search. So no op that comes
// after `from` can end, and its memory stays valid, unless a wait is given up. Then the search starts again. The whole
// search takes time linear in the number of ops that come after `from`, so it is made in steps.
class WaitSearch {
 public:
  // give_up: the wait for `target` counts as given up, because its thread is going to throw.
  enum class IfFound { leave, give_up };

  WaitSearch(WaitState& target, OpNode& from, OpWaits& waits) : target_(target), from_(from), waits_(waits) {}

  // Takes up to `steps` more steps, of one op or one queued access each. True if the wait op cannot run before `from`
  // ends, false if it can, none if that is not known yet.
  std::optional<bool> look(std::size_t steps, IfFound if_found);
  std::size_t seen() const { return seen_.size(); }  // number of ops visited

 private:
  // The queued accesses that wait for `access` directly, from `next` on. The accesses that wait for these are found
  // from their ops. `next` is valid as long as `access` mutates or is not granted.
  struct Followers {
    const AccessNode* access;
    AccessNode* next;
  };
  // Identifies a queued read, whose memory may have been freed and reused.
  struct Read {
    std::uint64_t sequence;  // sequence of the read's op
    const VarState* var;
    bool operator==(const Read&) const = default;
  };
  struct HashOfRead {
    std::size_t operator()(const Read& read) const {
      return std::hash<std::uint64_t>()(read.sequence * 31) ^ std::hash<const VarState*>()(read.var);
    }
  };
  void restart();
  void visit(OpNode* op);
  void visit_waiter(const WaitState& wait);
  void expand(OpNode& op);
  void step();

  WaitState& target_;
  OpNode& from_;
  OpWaits& waits_;
  bool started_ = false;
  std::uint64_t given_up_ = 0;  // OpWaits::given_up when the search started
  bool found_ = false;
  std::unordered_set<Read, HashOfRead> passed_;  // queued reads from which the search has gone on already
  std::unordered_set<const OpNode*> seen_;
  std::vector<OpNode*> ops_;
  std::vector<Followers> followers_;
};

}  // namespace heddle::detail
