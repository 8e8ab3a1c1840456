// What an op is made of: its access list, what its function is given, and how an asynchronous one reports back.
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
  const char* name = "op";  // not null; outlives the op, its error and traces of it: a literal
  GroupRef group{};         // whose cancellation is the op's too; see heddle/group.h
  int priority = 0;       // of ready ops the higher runs first; -kMostPriority .. kMostPriority, see kAgeing
  std::size_t bytes = 0;  // memory that the op holds until it has ended; see EngineOptions::max_bytes
};

inline constexpr int kMostPriority = 10000;
// Each step of priority lets an op overtake about as many ops of priority 0, or lets as many overtake it: none starves.
inline constexpr int kAgeing = 256;

// What a running op is told.
struct RunContext {
  const char* name;  // of this op
  int worker;        // 0 .. workers-1 when it starts; while it waits inside, another op may have that number
  std::uint64_t
      sequence;  // this engine's serial order: running ops one by one by sequence gives the same result
  const detail::GroupState* group = nullptr;
  bool cancelled() const noexcept;  // the op's group is by now: its result is not wanted any more
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

// The other half of an asynchronous op. Exactly one of done and fail, from any thread; destroying it without
// either fails the op with DroppedCompletion. Move-only.
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
  // A second call on the same Completion does nothing.
  void done() noexcept {
    if (op_) detail::report(std::exchange(op_, nullptr), nullptr);
  }
  void fail(std::exception_ptr error) noexcept {
    if (op_) detail::fail(std::exchange(op_, nullptr), std::move(error));
  }

 private:
  detail::OpNode* op_;
};

// A shared handle on an op made by Engine::prepare; the closure lives until the last handle and push are gone.
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
