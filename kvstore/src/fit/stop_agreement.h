// Ranks end a training after the same step.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <heddle/array_creation.h>
#include <heddle/communicator.h>

namespace heddle::fit_detail {

enum class StopKind : std::int32_t { none, stop, interrupt };

// What one rank wants reaches all, some steps later: the ranks ask every kEvery steps, and read the answer to the question
// before, which is there by then.
class StopAgreement {
 public:
  static constexpr std::int64_t kEvery = 8;
  explicit StopAgreement(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  // After each step, on all ranks.
  StopKind after_step(StopKind wanted) {
    if (!ranks_ || ranks_->size() == 1) return wanted;
    if (++steps_ % kEvery != 0) return StopKind::none;
    const StopKind answer = asked_.defined() ? read() : StopKind::none;
    ask(wanted);
    return answer;
  }
  // At the end of each epoch, on all ranks; waits.
  StopKind after_epoch(StopKind wanted) {
    if (!ranks_ || ranks_->size() == 1) return wanted;
    ask(wanted);
    return read();
  }

 private:
  void ask(StopKind wanted) {
    asked_ = full({}, static_cast<std::int32_t>(wanted), DType::i32);
    ranks_->all_reduce(asked_, ReduceOp::max);
  }
  StopKind read() { return static_cast<StopKind>(std::exchange(asked_, {}).item<std::int32_t>()); }
  std::shared_ptr<Communicator> ranks_;
  NDArray asked_{};
  std::int64_t steps_ = 0;
};

}  // namespace heddle::fit_detail
