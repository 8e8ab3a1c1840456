// What an op is made of: its access list, the arguments of its function, and the Completion of an asynchronous op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <heddle/group.h>
#include <heddle/var.h>

namespace heddle {

// The vars an op touches. Repeats are legal; a var in both lists is mutated, and its old value counts as read:
// list a var in both when the op needs what is there (x += 1), in mutate alone when it overwrites all of it.
struct Access {
  VarList read{};
  VarList mutate{};
  const char* name = "op";  // the op's name; must outlive the op, its error and its traces: a literal
  GroupRef group{};         // the group that the op is cancelled with; see heddle/group.h
  int priority = 0;         // higher runs first among ready ops; -kMostPriority .. kMostPriority, see kAgeing
  std::size_t bytes = 0;    // memory that the op holds until it has ended; see EngineOptions::max_bytes
  // The op takes about a microsecond, locks nothing that a thread holds while it pushes, and waits for
  // nothing: if it is ready, the pushing thread may run it at once, which costs less than queueing it for a
  // worker.
  bool brief = false;
};

inline constexpr int kMostPriority = 10000;
// Each step of priority lets an op overtake about kAgeing ops of priority 0, or lets kAgeing of them overtake it. So no
// op starves.
inline constexpr int kAgeing = 256;

// Passed to the function of an op that runs.
struct RunContext {
  const char* name;  // the op's name
  int worker;  // worker slot at the start, 0 .. workers-1; while the op waits, another op may have the slot
  // The op's position in the engine's serial order: running all ops one by one in this order gives the same
  // result.
  std::uint64_t sequence;
  const detail::GroupState* group = nullptr;
  bool cancelled() const noexcept;  // whether the op's group is cancelled by now: the op may stop early
};

namespace detail {
struct OpNode;
struct EngineCore;
struct PreparedState;
struct StreamLane;
void report(OpNode* op, std::exception_ptr error) noexcept;
void fail(OpNode* op, std::exception_ptr error) noexcept;
void drop(OpNode* op) noexcept;
void release(PreparedState* state) noexcept;
void retain(PreparedState* state) noexcept;
}  // namespace detail

// Ends an asynchronous op: call done or fail once, on any thread. Destroying it before that fails the op with
// DroppedCompletion. Move-only.
class Completion {
 public:
  explicit Completion(detail::OpNode* op) : op_(op) {}
  Completion(Completion&& other) noexcept : op_(std::exchange(other.op_, nullptr)) {}
  Completion& operator=(Completion&& other) noexcept {
    if (this != &other) {
      if (op_) detail::drop(op_);
      op_ = std::exchange(other.op_, nullptr);
    }
    return *this;
  }
  ~Completion() {
    if (op_) detail::drop(op_);
  }
  // After the first call of done or fail, further ones do nothing.
  void done() noexcept {
    if (op_) detail::report(std::exchange(op_, nullptr), nullptr);
  }
  void fail(std::exception_ptr error) noexcept {
    if (op_) detail::fail(std::exchange(op_, nullptr), std::move(error));
  }

 private:
  detail::OpNode* op_;
};

// A shared handle on an op made by Engine::prepare. The closure lives until the last handle is gone and the last op
// that was pushed with it has ended.
class PreparedOp {
 public:
  explicit PreparedOp(detail::PreparedState* state) : state_(state) {}
  PreparedOp(const PreparedOp& other) : state_(other.state_) {
    if (state_) detail::retain(state_);
  }
  PreparedOp(PreparedOp&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  PreparedOp& operator=(PreparedOp other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~PreparedOp() {
    if (state_) detail::release(state_);
  }
  detail::PreparedState* state() const { return state_; }

 private:
  detail::PreparedState* state_;
};

}  // namespace heddle
