#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/loss_scaler.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

namespace heddle {

using operators_detail::LossScaleState;

namespace {

void check_option(bool fits, const char* name, double value, const char* wanted) {
  if (fits && std::isfinite(value)) return;
  throw InvalidArgument(std::string("LossScaler: ") + name + " is " + number_text(value) + "; want " +
                        wanted);
}

// Losses times a subnormal scale are zero where the processor takes such numbers for zero.
bool is_scale(double scale) { return scale >= std::numeric_limits<float>::min() && std::isfinite(scale); }

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options, Where where) {
  const CallSite site(where);
  const auto first = static_cast<float>(options.scale);
  check_option(is_scale(first), "scale", options.scale, "a positive normal number of f32");
  check_option(options.growth >= 1, "growth", options.growth, "1 or more");
  check_option(options.backoff > 0 && options.backoff < 1, "backoff", options.backoff,
               "more than 0 and less than 1");
  check_option(options.interval >= 1, "interval", static_cast<double>(options.interval), "1 or more");
  shared_ = std::make_shared<Shared>();
  shared_->options = options;
  shared_->arrays = {full({}, options.scale, DType::f32), zeros({}, DType::f32), zeros({}, DType::i64),
                     zeros({}, DType::i64)};
}

NDArray LossScaler::scale(const NDArray& loss, Where where) const {
  const CallSite site(where);
  if (!loss.defined()) ndarray_detail::refuse_undefined("LossScaler::scale");
  if (!is_floating(loss.dtype()))
    throw InvalidArgument(std::string("LossScaler::scale: the loss is ") + name_of(loss.dtype()) +
                          "; want a floating dtype");
  if (shared_->unscaled)
    throw Error(
        "LossScaler::scale: the gradients are unscaled already, and those of this loss would not be; call "
        "Trainer::step() or clear_errors() first");
  const NDArray wide = is_half(loss.dtype()) ? cast(loss, DType::f32) : loss;
  const NDArray& scale = shared_->arrays.scale;
  return wide * (loss.device() == scale.device() ? scale : scale.copy_to(loss.device()));
}

void LossScaler::unscale(const std::vector<Parameter>& parameters, Where where) {
  const CallSite site(where);
  if (shared_->unscaled)
    throw Error(
        "LossScaler::unscale: the gradients of this step are unscaled already; call Trainer::step() first");
  std::vector<NDArray> leaves;
  for (const Parameter& parameter : parameters) {
    if (!parameter.value.defined())
      throw InvalidArgument("LossScaler::unscale: parameter '" + parameter.name + "' is an undefined array");
    leaves.push_back(parameter.value);
  }
  operators_detail::unscale_gradients(leaves, shared_->arrays);
  shared_->unscaled = true;
}

NDArray LossScaler::current() const { return shared_->arrays.scale.copy(); }
NDArray LossScaler::skipped() const { return shared_->arrays.skipped.copy(); }

std::map<std::string, NDArray> LossScaler::state() const {
  const LossScaleState& arrays = shared_->arrays;
  return {{"scale", arrays.scale}, {"good_steps", arrays.good}, {"skipped", arrays.skipped}};
}

void LossScaler::check_state(const std::map<std::string, NDArray>& state) const {
  const std::map<std::string, NDArray> own = this->state();
  for (const auto& [name, value] : state)
    if (!own.contains(name)) throw InvalidArgument("LossScaler::set_state: what is '" + name + "'?");
  for (const auto& [name, array] : own) {
    const auto found = state.find(name);
    const std::string who = "LossScaler::set_state: '" + name + "'";
    if (found == state.end() || !found->second.defined()) throw InvalidArgument(who + " is missing");
    const NDArray& value = found->second;
    if (value.dtype() != array.dtype() || value.size() != 1)
      throw InvalidArgument(who + " is " + name_of(value.dtype()) + " " + value.shape().to_string() +
                            "; want one " + name_of(array.dtype()));
    const double number = value.astype(DType::f64).item<double>();
    if (!std::isfinite(number) || number < 0 || (name == "scale" && !is_scale(number)))
      throw InvalidArgument(who + " is " + number_text(number));
  }
}

void LossScaler::set_state(const std::map<std::string, NDArray>& state, Where where) {
  const CallSite site(where);
  check_state(state);
  for (const auto& [name, array] : this->state()) array.assign(reshape(state.at(name).detach(), {}));
  shared_->arrays.nonfinite.fill(0);
  shared_->unscaled = false;
}

void LossScaler::clear_errors(Where where) {
  const CallSite site(where);
  const LossScaleState& arrays = shared_->arrays;
  for (const NDArray& array : {arrays.scale, arrays.nonfinite, arrays.good, arrays.skipped})
    array.engine().clear_error(array.var(), CallSite::current());
  arrays.nonfinite.fill(0);
  shared_->unscaled = false;
}

}  // namespace heddle
