// Whether a wait inside an op could only end after that op: a search through the ops that come after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "op/op_node.h"

namespace heddle::detail {

// The waits inside ops of one engine.
struct OpWaits {
  std::mutex mutex;            // guards WaitState::resumes and all below; vars' locks may be taken inside
  std::uint64_t given_up = 0;  // how many waits have ended before the op that they waited for
  // Under the mutex. The op that waits may end from now on.
  void give_up(WaitState& state) {
    state.resumes = nullptr;
    ++given_up;
  }
};

// The wait op behind `target` is entered, and `from` does not end during the search. So no op that the search meets can end,
// and none of its memory goes away, unless a wait is given up: then the search starts again. The whole search takes time
// linear in the ops that come after `from`, so it is made in steps.
class WaitSearch {
 public:
  enum class IfFound {
    leave,
    give_up
  };  // the wait for `target` counts as given up: its thread is going to throw

  WaitSearch(WaitState& target, OpNode& from, OpWaits& waits) : target_(target), from_(from), waits_(waits) {}

  // Takes up to `steps` more: an op, or a place in a queue, each. True if the wait op cannot run before `from` ends, false
  // if it can, none if that is not known yet.
  std::optional<bool> look(std::size_t steps, IfFound if_found);
  std::size_t seen() const { return seen_.size(); }  // ops

 private:
  // The queued ops that have to let `access` go first and no other: what is behind them is found from them.
  struct Followers {
    const AccessNode* access;
    AccessNode* next;
  };
  void restart();
  void visit(OpNode* op);
  void expand(OpNode& op);
  void step();

  WaitState& target_;
  OpNode& from_;
  OpWaits& waits_;
  bool started_ = false;
  std::uint64_t given_up_ = 0;  // OpWaits::given_up when the search started
  bool found_ = false;
  std::unordered_set<const AccessNode*> passed_;  // queued reads that were followed by another read's search
  std::unordered_set<const OpNode*> seen_;
  std::vector<OpNode*> ops_;
  std::vector<Followers> followers_;
};

// The same at once.
bool depends(WaitState& target, OpNode& from, OpWaits& waits, WaitSearch::IfFound if_found);

}  // namespace heddle::detail
