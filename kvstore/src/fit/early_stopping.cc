#include <utility>

#include <heddle/early_stopping.h>
#include <heddle/module_buffers.h>
#include <heddle/number_text.h>

#include "fit/buffer_copies.h"
#include "fit/fit_access.h"
#include "fit/monitor.h"

namespace heddle {

using namespace fit_detail;

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  if (options_.patience < 0)
    throw InvalidArgument("EarlyStopping: patience is " + std::to_string(options_.patience) +
                          "; want 0 or more epochs");
}

void EarlyStopping::on_train_begin(FitRun& run) {
  check_monitor("EarlyStopping", run, options_.monitor);
  if (run.has_state(*this)) {
    if (waited_ > options_.patience && !run.stopping()) waited_ = 0;  // it has ended the run, which goes on
    return;
  }
  best_ = options_.baseline;
  waited_ = 0;
  weights_.clear();
  buffers_.clear();
}

void EarlyStopping::on_epoch_end(FitRun& run, const FitValues& values) {
  const double value = values.at(options_.monitor);
  if (is_better(value, best_, wants_more(options_.monitor, options_.mode), options_.min_delta)) {
    best_ = value;
    waited_ = 0;
    if (!options_.restore_best) return;
    for (const Parameter& one : buffers_of(run.net())) buffers_[one.name] = one.value.detach().copy();
    for (const Parameter& one : run.net().state())
      if (!buffers_.contains(one.name)) weights_[one.name] = one.value.detach().copy();
    return;
  }
  if (++waited_ <= options_.patience) return;
  run.stop("EarlyStopping: " + options_.monitor + " is " +
           (best_ ? "no better than " + number_text(*best_) : "NaN") + " for " + std::to_string(waited_) +
           (waited_ == 1 ? " epoch" : " epochs"));
}

void EarlyStopping::on_train_end(FitRun& run) {
  for (const Parameter& one : run.net().state()) {
    const NDArray value = one.value.detach();
    if (const auto found = weights_.find(one.name); found != weights_.end()) value.assign(found->second);
    const auto found = buffers_.find(one.name);
    if (found != buffers_.end() && can_put_back(value, found->second, FitAccess::given(run)))
      value.assign(found->second);
  }
}

CallbackState EarlyStopping::state() const {
  CallbackState state{.numbers = {{"waited", static_cast<double>(waited_)}},
                      .texts = {},
                      .arrays = weights_,
                      .of_rank = buffers_};
  if (best_) state.numbers["best"] = *best_;
  return state;
}

void EarlyStopping::set_state(const CallbackState& state) {
  waited_ = static_cast<std::int64_t>(state.numbers.at("waited"));
  best_ = state.numbers.contains("best") ? std::optional(state.numbers.at("best")) : std::nullopt;
  weights_ = state.arrays;
  buffers_ = state.of_rank;
}

}  // namespace heddle
