#include <utility>

#include <heddle/random_replay.h>

namespace heddle {
namespace {

constinit thread_local DrawScope* current = nullptr;

}  // namespace

DrawScope::DrawScope(RandomDraws& recorded) : recorded_(&recorded), outer_(std::exchange(current, this)) {}

DrawScope::DrawScope(const RandomDraws& replayed)
    : replayed_(&replayed), outer_(std::exchange(current, this)) {}

DrawScope::~DrawScope() { current = outer_; }

bool DrawScope::replays() noexcept {
  const DrawScope* scope = current;
  while (scope && !scope->replayed_) scope = scope->outer_;
  return scope != nullptr;
}

const RandomDraw* DrawScope::next() {
  DrawScope* scope = current;
  while (scope && !scope->replayed_) scope = scope->outer_;
  if (!scope) return nullptr;
  if (scope->at_ == scope->replayed_->size())
    throw Error("recompute: the function draws random numbers more often than when it ran first");
  const RandomDraw& draw = (*scope->replayed_)[scope->at_++];
  record(draw);
  return &draw;
}

void DrawScope::record(const RandomDraw& draw) {
  for (const DrawScope* scope = current; scope && !scope->replayed_; scope = scope->outer_)
    scope->recorded_->push_back(draw);
}

}  // namespace heddle
