#include <algorithm>
#include <cmath>
#include <utility>

#include <heddle/learning_rate_callbacks.h>
#include <heddle/number_text.h>

#include "fit/monitor.h"

namespace heddle {

using namespace fit_detail;

LearningRateScheduler::LearningRateScheduler(Function schedule) : schedule_(std::move(schedule)) {
  if (!schedule_) throw InvalidArgument("LearningRateScheduler: the function is empty");
}

void LearningRateScheduler::on_train_begin(FitRun& run) {
  if (!run.has_state(*this)) lr_.reset();
  if (lr_) run.trainer().set_schedule(constant_schedule(*lr_));
}

void LearningRateScheduler::on_epoch_begin(FitRun& run) {
  if (run.batch() > 0 && lr_) return;  // set by on_train_begin
  const double lr = schedule_(run.epoch(), run.trainer().learning_rate());
  if (!std::isfinite(lr) || lr < 0)
    throw InvalidArgument("LearningRateScheduler: the rate of epoch " + std::to_string(run.epoch()) + " is " +
                          number_text(lr) + "; want a finite number, 0 or more");
  lr_ = lr;
  run.trainer().set_schedule(constant_schedule(lr));
}

CallbackState LearningRateScheduler::state() const {
  return lr_ ? CallbackState{.numbers = {{"lr", *lr_}}, .texts = {}, .arrays = {}} : CallbackState();
}

void LearningRateScheduler::set_state(const CallbackState& state) { lr_ = state.numbers.at("lr"); }

ReduceOnPlateau::ReduceOnPlateau(ReduceOnPlateauOptions options) : options_(std::move(options)) {
  if (!(options_.factor > 0 && options_.factor < 1))
    throw InvalidArgument("ReduceOnPlateau: factor is " + number_text(options_.factor) +
                          "; want one above 0 and below 1");
  if (options_.patience < 0 || options_.cooldown < 0)
    throw InvalidArgument("ReduceOnPlateau: patience is " + std::to_string(options_.patience) +
                          ", cooldown " + std::to_string(options_.cooldown) + "; want 0 or more epochs");
}

void ReduceOnPlateau::apply(FitRun& run) const {
  run.trainer().set_schedule(
      [schedule = schedule_, scale = scale_, least = options_.min_lr](std::int64_t step) {
        const double lr = schedule(step);
        return std::max(lr * scale, std::min(lr, least));
      });
}

void ReduceOnPlateau::on_train_begin(FitRun& run) {
  check_monitor("ReduceOnPlateau", run, options_.monitor);
  schedule_ = run.trainer().schedule();
  if (!run.has_state(*this)) {
    best_.reset();
    waited_ = cooling_ = 0;
    scale_ = 1;
  }
  if (scale_ != 1) apply(run);
}

void ReduceOnPlateau::on_epoch_end(FitRun& run, const FitValues& values) {
  const double value = values.at(options_.monitor);
  if (cooling_ > 0) {
    --cooling_;
    waited_ = 0;
  }
  if (is_better(value, best_, wants_more(options_.monitor, options_.mode), options_.min_delta)) {
    best_ = value;
    waited_ = 0;
    return;
  }
  if (cooling_ > 0 || ++waited_ <= options_.patience) return;
  scale_ *= options_.factor;
  cooling_ = options_.cooldown;
  waited_ = 0;
  apply(run);
}

CallbackState ReduceOnPlateau::state() const {
  CallbackState state{.numbers = {{"waited", static_cast<double>(waited_)},
                                  {"cooling", static_cast<double>(cooling_)},
                                  {"scale", scale_}},
                      .texts = {},
                      .arrays = {}};
  if (best_) state.numbers["best"] = *best_;
  return state;
}

void ReduceOnPlateau::set_state(const CallbackState& state) {
  waited_ = static_cast<std::int64_t>(state.numbers.at("waited"));
  cooling_ = static_cast<std::int64_t>(state.numbers.at("cooling"));
  scale_ = state.numbers.at("scale");
  best_ = state.numbers.contains("best") ? std::optional(state.numbers.at("best")) : std::nullopt;
}

}  // namespace heddle
