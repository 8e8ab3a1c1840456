// What a trainer does with a loss scaler.
#include <string>
#include <vector>

#include <heddle/gradient_clipping.h>
#include <heddle/trainer.h>

namespace heddle {

void Trainer::check_scaler() const {
  if (!options_.scaler) return;
  if (options_.store->type().starts_with("dist"))
    throw InvalidArgument("Trainer: a loss scaler is not for a '" + options_.store->type() +
                          "' store, whose servers update the values");
  if (replicas_.size() > 1) throw InvalidArgument("Trainer: a loss scaler is not for several replicas");
  if (&options_.scaler->shared_->arrays.scale.engine() != &replicas_[0][0].value.engine())
    throw InvalidArgument("Trainer: the loss scaler belongs to another engine than the parameters");
}

// With a scaler, updates change nothing if a gradient of any worker has inf or NaN.
void Trainer::exchange_scaled(const std::vector<Gradients>& gradients, const UpdateOptions& update) {
  if (!options_.scaler) return exchange_all(gradients, update);
  LossScaler::Shared& scaler = *options_.scaler->shared_;
  options_.store->do_max(scaler.arrays.nonfinite);
  {
    const operators_detail::SkippedUpdates skips(scaler.arrays.nonfinite);
    exchange_all(gradients, update);
  }
  operators_detail::update_loss_scale(scaler.arrays, scaler.options.growth, scaler.options.backoff,
                                      scaler.options.interval);
  scaler.unscaled = false;
}

}  // namespace heddle
