// Steps of a training that fail, or that are skipped: what is put back.
#include <utility>

#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/module_buffers.h>

#include "fit/fit_run.h"
#include "fit/nan_report.h"

namespace heddle {

using namespace fit_detail;

PendingStep FitRun::Impl::next_pending(const std::vector<Arrays>& group) {
  buffers = copies_of_buffers(net, buffers);
  PendingStep next{group, {}, random_positions(), buffers, {}, epoch, batch};
  if (trainer.scaler()) next.skipped = trainer.scaler()->skipped();
  return next;
}

// Leaves nothing of a step that has not been completed.
void FitRun::Impl::undo_step() {
  step.clear_gradients();
  clear_buffers();
  put_back(pending.back());
  pending.pop_back();
}

// A step that the loss scaler skips changes no statistics.
void FitRun::Impl::undo_if_skipped() {
  const PendingStep& last = pending.back();
  if (!trainer.scaler()) return;
  put_back_if(net, not_equal(trainer.scaler()->skipped(), last.skipped), last.buffers, given_arrays);
}

// Those that are replaced by arrays which cannot be written are free of errors too.
void FitRun::Impl::clear_buffers() const {
  for (const Parameter& one : all_buffers_of(net))
    one.value.engine().clear_error(one.value.var(), CallSite::current());
}

void FitRun::Impl::put_back(const PendingStep& last) const {
  fit_detail::put_back(net, last.buffers, given_arrays);
  put_generators_back(last);
}

void FitRun::Impl::put_generators_back(const PendingStep& last) const {
  const auto all = generators();
  for (std::size_t i = 0; i < all.size(); ++i) all[i].second->set_position(last.random[i]);
}

// Puts back what was before the first batch that has failed. Of a loss that is not finite it throws Error that says which
// batch has it, and where it comes from.
void FitRun::Impl::refuse_loss() {
  for (const PendingStep& one : pending) {
    for (std::size_t i = 0; i < one.losses.size(); ++i) {
      try {
        one.losses[i].wait();
        continue;
      } catch (const LossNotFinite& error) {
        const std::string place = "fit: epoch " + std::to_string(one.epoch) + ", batch " +
                                  std::to_string(one.first_batch + static_cast<std::int64_t>(i)) + ": ";
        restore_before(one);
        throw Error(place + refused_loss(one, error));
      } catch (...) {  // what the caller is told of, such as a label that is none
        restore_before(one);
        return;
      }
    }
  }
}

std::string FitRun::Impl::refused_loss(const PendingStep& failed, const LossNotFinite& error) {
  std::string text = error.what();
  if (has_others() && error.rank() < 0) text += " on rank " + std::to_string(ranks->rank());
  if (error.rank() < 0) {
    text += ": " + report_of_nan(net, step, loss, failed.group, given_arrays);
    put_generators_back(failed);  // forward() has drawn numbers once more
  }
  return text + ". The parameters are those before this batch";
}

void FitRun::Impl::restore_before(const PendingStep& failed) {
  for (const Parameter& one : trainer.parameters()) {
    try {
      one.value.wait();
    } catch (...) {  // of this step, or on other ranks that of the gradients' sum
    }
  }
  trainer.clear_errors();
  step.clear_gradients();
  for (const Parameter& one : net.state())
    one.value.engine().clear_error(one.value.var(), CallSite::current());
  clear_buffers();
  for (const std::shared_ptr<Callback>& one : callbacks) {
    try {
      one->clear_errors();
    } catch (...) {  // ignored: what has made the step fail is the error
    }
  }
  put_back(failed);
}

}  // namespace heddle
