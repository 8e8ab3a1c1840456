#include <algorithm>
#include <cmath>
#include <utility>

#include <heddle/graph.h>
#include <heddle/number_text.h>
#include <heddle/optimizer.h>
#include <heddle/optimizer_update.h>

namespace heddle {

using namespace operators_detail;

namespace {

std::string names_in(const std::vector<OptimizerParam>& params) {
  std::vector<std::string> names;
  for (const OptimizerParam& param : params) names.push_back(param.name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string names_of_rules() {
  std::string text;
  const std::vector<OptimizerRule>& all = optimizer_rules();
  for (std::size_t i = 0; i < all.size(); ++i)
    text += (i == 0 ? "" : i + 1 == all.size() ? " and " : ", ") + all[i].name;
  return text;
}

const char* text_of(ParamRange range) {
  switch (range) {
    case ParamRange::not_negative:
      return "finite and not negative";
    case ParamRange::positive:
      return "positive";
    case ParamRange::fraction:
      return "in [0, 1)";
    case ParamRange::on_or_off:
      return "0 or 1";
  }
  return "";
}

bool is_in(ParamRange range, double value) {
  if (!std::isfinite(value)) return false;
  switch (range) {
    case ParamRange::not_negative:
      return value >= 0;
    case ParamRange::positive:
      return value > 0;
    case ParamRange::fraction:
      return value >= 0 && value < 1;
    case ParamRange::on_or_off:
      return value == 0 || value == 1;
  }
  return false;
}

void check_range(const std::string& optimizer, const std::string& name, ParamRange range, double value) {
  if (is_in(range, value)) return;
  throw InvalidArgument("optimizer " + optimizer + ": " + name + " must be " + text_of(range) + ", not " +
                        number_text(value));
}

// Row counts before the first row-sparse update: all -1. When that update runs, it replaces them by the
// number of earlier updates, which is not known before; an update that is skipped leaves them.
NDArray no_row_counts(const NDArray& weight) {
  const EngineScope scope(weight.engine());
  return full({weight.shape()[0]}, -1, DType::i64, weight.device());
}

// All rows of a dense gradient.
RowSparse all_rows(const NDArray& grad) {
  const EngineScope scope(grad.engine());
  const std::int64_t n = grad.shape()[0];
  return {grad.shape(), arange(0, static_cast<double>(n), 1, DType::i64, grad.device()), grad,
          full({1}, n, DType::i64, grad.device())};
}

// Whether ops on the first array can use the other one.
bool is_within_reach(Device device, Device other) {
  return device == other || (device.kind != DeviceKind::cuda && other.kind != DeviceKind::cuda);
}

void check_like(const std::string& what, const NDArray& state, const NDArray& weight) {
  if (state.shape() == weight.shape() && state.dtype() == weight.dtype()) return;
  throw InvalidArgument(what + " is " + name_of(state.dtype()) + " " + state.shape().to_string() +
                        ", its weight " + name_of(weight.dtype()) + " " + weight.shape().to_string());
}

void check_row_counts(const std::string& what, const NDArray& counts, const NDArray& weight) {
  if (weight.ndim() > 0 && counts.shape() == Shape{weight.shape()[0]}) return;
  throw InvalidArgument(what + " is " + counts.shape().to_string() + ", its weight " +
                        weight.shape().to_string());
}

// Names of keys may have dots, those of an optimizer's arrays have none.
Key key_of(const std::string& entry) {
  const std::size_t dot = entry.rfind('.');
  if (dot == std::string::npos || dot == 0)
    throw InvalidArgument("optimizer state: '" + entry + "' is not KEY.NAME");
  return entry.substr(0, dot);
}

}  // namespace

Optimizer::Optimizer(const OptimizerRule& rule, const OptimizerParams& given)
    : rule_(&rule), name_(rule.name) {
  auto values = std::make_shared<ParamValues>();
  for (const auto& [key, value] : given) {
    const auto known =
        std::find_if(rule.params.begin(), rule.params.end(),
                     [&name = key](const OptimizerParam& param) { return param.name == name; });
    if (known == rule.params.end()) {
      throw InvalidArgument("optimizer " + name_ + " has no parameter '" + key + "'; it has " +
                            names_in(rule.params));
    }
    check_range(name_, key, known->range, value);
  }
  for (const OptimizerParam& param : rule.params) {
    const auto changed = given.find(param.name);
    values->push_back(changed == given.end() ? param.value : changed->second);
    params_[param.name] = values->back();
  }
  const std::string problem = rule.problem(*values);
  if (!problem.empty()) throw InvalidArgument("optimizer " + name_ + ": " + problem);
  state_ = rule.state(*values);
  counts_rows_ = rule.counts(*values);
  values_ = std::move(values);
}

bool Optimizer::needs_whole() const { return rule_->of_rows == nullptr; }

void Optimizer::check_rows(Key key) const {
  if (needs_whole()) {
    throw InvalidArgument(text_of(key) +
                          ": the gradient is row-sparse, and a step needs the norm of the whole "
                          "weight; make the gradient dense with to_dense()");
  }
}

UpdateCall Optimizer::call_of(const UpdateOptions& options) const {
  return {values_, options.lr.value_or(param("lr")), options.grad_scale, options.decay_scale,
          options.scale.defined() ? options.scale.detach() : NDArray()};
}

UpdatedArrays Optimizer::arrays_of(const NDArray& weight, const Slot& slot) const {
  return {weight.detach(), slot.arrays, slot.updates, slot.row_updates};
}

// Copies the state to the device of a weight that Module::to() has moved. Updates that were captured before, and lists of
// weights, have the state that was left behind.
void Optimizer::follow(Key key, const NDArray& weight, Slot& slot) {
  const Device device = weight.device();
  const auto is_elsewhere = [device](const NDArray& array) {
    return array.defined() && array.device() != device;
  };
  if (!is_elsewhere(slot.row_updates) && std::none_of(slot.arrays.begin(), slot.arrays.end(), is_elsewhere))
      [[likely]]
    return;
  if (is_capturing())
    throw Error(with_call_site(text_of(key) + ": the first update after the weight came to " +
                               device.to_string() + ", where its state follows, must come before a capture"));
  for (NDArray& array : slot.arrays) array = array.copy_to(device);
  if (slot.row_updates.defined()) slot.row_updates = slot.row_updates.copy_to(device);
  if (slot.packed) slot.updates = slot.updates.copy();
  slot.packed = slot.used = false;
  lists_.clear();
  ++generation_;
}

Optimizer::Slot& Optimizer::slot_of(Key key, const NDArray& weight) {
  auto entry = slots_.find(key);
  if (entry == slots_.end()) {
    if (is_capturing() && !state_.empty())
      throw Error(with_call_site(text_of(key) +
                                 ": its first update, which makes its state, must come before a capture"));
    Slot fresh;
    for (std::size_t i = 0; i < state_.size(); ++i) fresh.arrays.push_back(zeros_like(weight));
    EngineScope scope(weight.engine());
    fresh.updates = zeros({1}, DType::i64);
    entry = slots_.emplace(key, std::move(fresh)).first;
  }
  Slot& slot = entry->second;
  for (const NDArray& array : slot.arrays) {
    if (array.shape() == weight.shape() && array.dtype() == weight.dtype()) continue;
    throw InvalidArgument("optimizer " + name_ + ": weight " + key.text() + " is " + name_of(weight.dtype()) +
                          " " + weight.shape().to_string() + ", its state is " + name_of(array.dtype()) +
                          " " + array.shape().to_string());
  }
  follow(key, weight, slot);
  if (slot.row_updates.defined()) {
    check_row_counts("optimizer " + name_ + ": weight " + key.text() + "'s row_updates", slot.row_updates,
                     weight);
  }
  slot.used = true;
  return slot;
}

std::string Optimizer::text_of(Key key) const { return "optimizer " + name_ + ", weight " + key.text(); }

void Optimizer::check(Key key, const NDArray& weight, const UpdateOptions& options) const {
  if (!weight.defined()) ndarray_detail::refuse_undefined(text_of(key).c_str());
  check_like_weight(key, weight, weight.dtype(), weight.shape());
  check_options(options);
}

void Optimizer::check_options(const UpdateOptions& options) const {
  check_range(name_, "lr", ParamRange::not_negative, options.lr.value_or(param("lr")));
  check_range(name_, "decay_scale", ParamRange::not_negative, options.decay_scale);
  const NDArray& scale = options.scale;
  const bool scales = !scale.defined() || (scale.size() == 1 && scale.device().kind == DeviceKind::cpu &&
                                           (scale.dtype() == DType::f32 || scale.dtype() == DType::f64));
  if (!scales) {
    throw InvalidArgument("optimizer " + name_ + ": scale is " + name_of(scale.dtype()) + " " +
                          scale.shape().to_string() + " on " + scale.device().to_string() +
                          "; want one element of f32 or f64 on a cpu device");
  }
  if (!std::isfinite(options.grad_scale)) {
    throw InvalidArgument("optimizer " + name_ + ": grad_scale must be finite, not " +
                          number_text(options.grad_scale));
  }
}

// `dtype` and `shape` are those of the gradient.
void Optimizer::check_like_weight(Key key, const NDArray& weight, DType dtype, const Shape& shape) const {
  const bool right = is_floating(weight.dtype()) && !is_half(weight.dtype()) && dtype == weight.dtype() &&
                     shape == weight.shape() && weight.is_contiguous();
  if (right) [[likely]]
    return;
  const std::string who = text_of(key);
  if (is_half(weight.dtype())) {
    throw InvalidArgument(who + ": the weight is " + name_of(weight.dtype()) +
                          ", which steps are too small for; keep it in f32, and cast it where it is used");
  }
  if (!is_floating(weight.dtype()) || dtype != weight.dtype() || shape != weight.shape()) {
    throw InvalidArgument(who + ": the weight is " + name_of(weight.dtype()) + " " +
                          weight.shape().to_string() + ", the gradient " + name_of(dtype) + " " +
                          shape.to_string() + "; both must be f32 or both f64, of one shape");
  }
  if (!weight.is_contiguous()) throw InvalidArgument(who + ": the weight must be contiguous");
}

void Optimizer::check_device(Key key, const NDArray& weight, Device gradient) const {
  if (is_within_reach(weight.device(), gradient)) [[likely]]
    return;
  throw InvalidArgument(text_of(key) + ": the weight is on " + weight.device().to_string() +
                        ", the gradient on " + gradient.to_string() + "; copy_to() one of them");
}

void Optimizer::update(Key key, const NDArray& weight, const NDArray& grad, UpdateOptions options,
                       Where where) {
  const CallSite site(where);
  check_alike(key, weight, grad);
  check_options(options);
  Slot& slot = slot_of(key, weight);
  NDArray whole = grad.detach().contiguous();
  if (whole.storage() == weight.storage()) whole = whole.copy();  // the gradient may overlap the weight
  if (slot.row_updates.defined()) {
    push_update(*rule_, arrays_of(weight, slot), all_rows(whole), call_of(options));
  } else {
    push_update(*rule_, arrays_of(weight, slot), whole, call_of(options));
  }
}

void Optimizer::update(Key key, const NDArray& weight, const RowSparse& grad, UpdateOptions options,
                       Where where) {
  const CallSite site(where);
  if (!weight.defined() || !grad.defined()) ndarray_detail::refuse_undefined(text_of(key).c_str());
  check_like_weight(key, weight, grad.dtype(), grad.shape());
  check_device(key, weight, grad.device());
  check_options(options);
  check_rows(key);
  Slot& slot = slot_of(key, weight);
  if (counts_rows_ && !slot.row_updates.defined()) {
    if (is_capturing())
      throw Error(with_call_site(
          text_of(key) + ": its first update of rows, which makes their counts, must come before a capture"));
    slot.row_updates = no_row_counts(weight);
    lists_.clear();
    ++generation_;
  }
  RowSparse apart = grad;
  if (grad.values().storage() == weight.storage())
    apart = RowSparse(grad.shape(), grad.rows(), grad.values().copy(), grad.count());
  push_update(*rule_, arrays_of(weight, slot), apart, call_of(options));
}

std::map<std::string, NDArray> Optimizer::state() const {
  std::map<std::string, NDArray> all;
  for (const auto& [key, slot] : slots_) {
    std::string prefix = key.text() + ".";
    for (std::size_t i = 0; i < state_.size(); ++i) all[prefix + state_[i]] = slot.arrays[i];
    all[prefix + "updates"] = slot.updates;
    if (slot.row_updates.defined()) all[prefix + "row_updates"] = slot.row_updates;
  }
  return all;
}

void Optimizer::clear_errors(Where where) {
  const CallSite site(where);
  for (const auto& [name, array] : state()) array.engine().clear_error(array.var(), CallSite::current());
}

// `weight` is undefined if it is not known.
void Optimizer::set_entry(Slot& slot, const std::string& entry, const NDArray& value,
                          const NDArray& weight) const {
  const std::string what = "optimizer " + name_ + ": '" + entry + "'";
  const std::string name = entry.substr(entry.rfind('.') + 1);
  const Device device = weight.defined() ? weight.device() : value.device();
  if (name == "updates") {
    if (value.item<std::int64_t>() < 0) throw InvalidArgument(what + " is negative");
    slot.updates = value.detach().copy_to(cpu()).view_as({1});
    return;
  }
  if (name == "row_updates" && counts_rows_) {
    if (weight.defined()) check_row_counts(what, value, weight);
    for (const std::int64_t count : value.to_vector<std::int64_t>())
      if (count < -1) throw InvalidArgument(what + " has " + std::to_string(count));
    slot.row_updates = value.detach().copy_to(device);
    return;
  }
  const auto known = std::find(state_.begin(), state_.end(), name);
  if (known == state_.end())
    throw InvalidArgument("optimizer " + name_ + " keeps no state called '" + entry + "'");
  if (weight.defined()) check_like(what, value, weight);
  slot.arrays[static_cast<std::size_t>(known - state_.begin())] = value.detach().copy_to(device);
}

void Optimizer::replace_state(const std::map<std::string, NDArray>& state, const Weights* weights) {
  const std::string who = "optimizer " + name_ + ": ";
  std::map<Key, Slot> slots;
  for (const auto& [entry, value] : state) {
    const Key key = key_of(entry);
    if (!value.defined()) ndarray_detail::refuse_undefined((who + "'" + entry + "'").c_str());
    if (weights && !weights->contains(key)) throw InvalidArgument(who + "'" + entry + "' is of no weight");
    Slot& slot = slots[key];
    slot.arrays.resize(state_.size());
    set_entry(slot, entry, value, weights ? weights->at(key) : NDArray());
  }
  for (const auto& [key, slot] : slots) {
    auto want = [&](const NDArray& array, const std::string& name) {
      if (!array.defined()) throw InvalidArgument(who + "'" + key.text() + "." + name + "' is missing");
    };
    for (std::size_t i = 0; i < state_.size(); ++i) want(slot.arrays[i], state_[i]);
    want(slot.updates, "updates");
  }
  slots_ = std::move(slots);
  lists_.clear();
}

void Optimizer::set_state(const std::map<std::string, NDArray>& state, Where where) {
  const CallSite site(where);
  replace_state(state, nullptr);
}

void Optimizer::set_state(const std::map<std::string, NDArray>& state, const Weights& weights, Where where) {
  const CallSite site(where);
  replace_state(state, &weights);
}

std::unique_ptr<Optimizer> create_optimizer(const std::string& name, const OptimizerParams& params) {
  for (const OptimizerRule& rule : optimizer_rules())
    if (rule.name == name) return std::unique_ptr<Optimizer>(new Optimizer(rule, params));
  throw InvalidArgument("there is no optimizer '" + name + "'; there are " + names_of_rules());
}

std::vector<OptimizerInfo> optimizers() {
  std::vector<OptimizerInfo> all;
  for (const OptimizerRule& rule : optimizer_rules()) {
    OptimizerInfo info{.name = rule.name,
                       .documentation = rule.documentation,
                       .params = {},
                       .state = {},
                       .needs_whole = rule.of_rows == nullptr};
    ParamValues values;
    for (const OptimizerParam& param : rule.params) {
      info.params.push_back({param.name, param.value, text_of(param.range), param.added_later});
      values.push_back(param.value);
    }
    info.state = rule.state(values);
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace heddle
