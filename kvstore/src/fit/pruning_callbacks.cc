#include <heddle/number_text.h>
#include <heddle/pruning_callbacks.h>

#include "fit/pending_step.h"

namespace heddle {

void KeepPruned::on_train_begin(FitRun& run) {
  if (const std::string path = pruning_.missing_in(run.net()); !path.empty())
    throw InvalidArgument(
        "KeepPruned: the weight '" + path +
        "' of its Pruning is none of the network's; make a new Pruning once layers have been replaced");
  pruning_.apply();
}

void KeepPruned::on_batch_end(FitRun&) { pruning_.apply(); }

CallbackState KeepPruned::state() const {
  return {.numbers = {}, .texts = {}, .arrays = pruning_.state(), .of_rank = {}};
}

void KeepPruned::set_state(const CallbackState& state) { pruning_.set_state(state.arrays); }

void KeepPruned::clear_errors() {
  for (const Parameter& mask : pruning_.masks()) fit_detail::clear_error(mask.value);
}

GradualPruning::GradualPruning(Pruning pruning, const GradualSparsity& sparsity)
    : KeepPruned(std::move(pruning)), sparsity_(sparsity) {
  if (const PruningOptions& options = this->pruning().options(); options.of > 0)
    throw InvalidArgument("GradualPruning: its Pruning keeps " + std::to_string(options.keep) + " of " +
                          std::to_string(options.of) + " whatever the sparsity; want a Pruning without `of`");
  for (const double share : {sparsity.initial_sparsity, sparsity.final_sparsity})
    if (!(share >= 0 && share <= 1))
      throw InvalidArgument("GradualPruning: a sparsity is " + number_text(share) + "; want 0 to 1");
  if (sparsity.begin < 0 || sparsity.end <= sparsity.begin || sparsity.every < 1)
    throw InvalidArgument("GradualPruning: steps from " + std::to_string(sparsity.begin) + " to " +
                          std::to_string(sparsity.end) + ", every " + std::to_string(sparsity.every) +
                          "; want a first one of 0 or more, a later last one, and 1 or more");
}

void GradualPruning::on_batch_end(FitRun& run) {
  const std::int64_t step = run.step();
  const bool changes = step >= sparsity_.begin && step <= sparsity_.end &&
                       ((step - sparsity_.begin) % sparsity_.every == 0 || step == sparsity_.end);
  pruning().apply();  // before a choice: what the step has made of pruned weights does not bring them back
  if (changes) pruning().prune(sparsity_.at(step));
}

}  // namespace heddle
