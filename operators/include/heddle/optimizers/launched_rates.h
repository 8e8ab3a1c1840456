// What the launches of a captured graph give the updates of optimizers in it.
#pragma once

#include <cstddef>
#include <utility>

#include <heddle/graph.h>

namespace heddle::operators_detail {

// What each launch of a captured graph gives the updates in it.
struct UpdateRates {
  double lr, grad_scale;
};

// While one lives, updates that its thread pushes take their rates from this slot, at each launch of the graph that the
// thread captures.
class LaunchedRates {
 public:
  explicit LaunchedRates(Slot<UpdateRates> rates);
  ~LaunchedRates();
  LaunchedRates(const LaunchedRates&) = delete;
  LaunchedRates& operator=(const LaunchedRates&) = delete;
  std::size_t updates() const { return updates_; }  // how many updates were pushed so far
  // What the learning rate of the updates that follow is multiplied by, as of groups of parameters. Without a
  // LaunchedRates does nothing.
  static void set_lr_factor(double factor);

  struct OfUpdate {
    Slot<UpdateRates> rates{};  // of no graph if no LaunchedRates lives
    double lr_factor = 1;
  };
  static OfUpdate take(std::size_t updates);  // for so many updates

 private:
  Slot<UpdateRates> rates_;
  double lr_factor_ = 1;
  std::size_t updates_ = 0;
  LaunchedRates* const previous_;
};

// The `step` of an update, whose members lr and grad_scale may be given by each launch. Made when the update is pushed.
template <class Step> class LaunchedStep {
 public:
  explicit LaunchedStep(const Step& step, std::size_t updates = 1)
      : step_(step), launched_(LaunchedRates::take(updates)) {}
  Step now() const {  // only inside the op
    Step now = step_;
    if (!launched_.rates.cell()) return now;
    now.lr = launched_.rates->lr * launched_.lr_factor;
    now.grad_scale = launched_.rates->grad_scale;
    return now;
  }

 private:
  Step step_;
  LaunchedRates::OfUpdate launched_;
};

}  // namespace heddle::operators_detail
