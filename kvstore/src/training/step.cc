// A step of the trainer: its gradients, scaled or not, into the store.
#include <string>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/gradient_clipping.h>
#include <heddle/graph.h>
#include <heddle/trainer.h>

namespace heddle {
namespace {

// Ops on a GPU read the factor when they are issued, on the host: not in page-locked memory, into which a copy may still write.
NDArray on_host(const NDArray& factor) {
  return factor.device().kind == DeviceKind::cpu ? factor : factor.copy_to(cpu());
}

}  // namespace

void Trainer::check_scaler() const {
  if (!options_.scaler) return;
  if (options_.store->type().starts_with("dist"))
    throw InvalidArgument("Trainer: a loss scaler is not for a '" + options_.store->type() +
                          "' store, whose servers update the values");
  if (replicas_.size() > 1) throw InvalidArgument("Trainer: a loss scaler is not for several replicas");
  if (&options_.scaler->shared_->arrays.scale.engine() != &replicas_[0][0].value.engine())
    throw InvalidArgument("Trainer: the loss scaler belongs to another engine than the parameters");
  if (!options_.scaler->shared_->trainer.expired())
    throw InvalidArgument(
        "Trainer: the loss scaler is that of another trainer, whose steps it would scale and skip too; make "
        "one "
        "for each");
}

// Throws what the updates of the step would throw.
void Trainer::check_update(const UpdateOptions& update) const {
  check_rates(*update.lr);
  create_optimizer(options_.optimizer, options_.params)->check(0, NDArray({1}, DType::f32), update);
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

void Trainer::step(double grad_scale, Where where) {
  const CallSite site(where);
  update_all({.grad_scale = grad_scale});
}

void Trainer::step(const NDArray& grad_scale, Where where) {
  const CallSite site(where);
  const std::string type = options_.store->type();
  if (!grad_scale.defined()) throw InvalidArgument("Trainer::step: grad_scale is an undefined array");
  if (type != "local" && type != "allreduce")
    throw InvalidArgument("Trainer::step: grad_scale is an array, and requests of a " + type +
                          " store have a number; pass a number");
  update_all({.scale = on_host(grad_scale.detach())});
}

void Trainer::update_all(UpdateOptions update) {
  if (is_capturing() && capturing() && capturing() != this)
    throw Error(
        "Trainer::step: called in the captured step of another trainer, in which only the trainer whose "
        "capture() made the step can step");
  update.lr = learning_rate();
  std::vector<Gradients> all;
  all.reserve(replicas_[0].size());
  for (std::size_t i = 0; i < replicas_[0].size(); ++i) all.push_back(gradients(i));
  if (options_.scaler) {
    check_update(update);  // while nothing is unscaled
    if (!options_.scaler->shared_->unscaled) options_.scaler->unscale(replicas_[0]);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = gradients(i);  // unscaled, perhaps in other memory
  }
  take_over_changes();
  exchange_scaled(all, update);
  for (const auto& replica : replicas_) {
    for (const Parameter& parameter : replica) clear_grad(parameter.value);
  }
  lend_memory();
  remember_versions();
  if (is_capturing()) at_each_launch(&versions_, [this] { remember_versions(); });
  ++steps_;
}

}  // namespace heddle
