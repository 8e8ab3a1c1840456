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

std::string names_in(const OptimizerParams& params) {
  std::string names;
  for (const auto& [name, value] : params) names += (names.empty() ? "" : ", ") + name;
  return names;
}

void check_range(const std::string& optimizer, const std::string& name, double value) {
  bool fraction = name == "momentum" || name == "beta1" || name == "beta2";
  bool good =
      std::isfinite(value) && value >= 0 && !(fraction && value >= 1) && !(name == "epsilon" && value == 0);
  if (good) return;
  throw InvalidArgument("optimizer " + optimizer + ": " + name + " must be " +
                        (fraction            ? "in [0, 1)"
                         : name == "epsilon" ? "positive"
                                             : "finite and not negative") +
                        ", not " + number_text(value));
}

// Row counts before the first row-sparse update: all -1. When that update runs, it replaces them by the number of
// earlier updates, which is not known before; an update that is skipped leaves them.
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

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerParams& params)
      : Optimizer("sgd", {{"lr", 0.01}, {"momentum", 0}, {"nesterov", 0}, {"weight_decay", 0}}, params) {
    if (param("nesterov") != 0 && param("momentum") == 0) {
      throw InvalidArgument("optimizer sgd: nesterov needs a momentum above 0");
    }
  }

 private:
  std::vector<std::string> state_names() const override {
    return param("momentum") > 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{};
  }

  void push_update(const NDArray& weight, const NDArray& grad, const Slot& slot, double lr,
                   double grad_scale) const override {
    sgd_update(weight, grad, state_of(slot), step_of(lr, grad_scale));
  }

  bool counts_rows() const override { return false; }

  void push_row_update(const NDArray& weight, const RowSparse& grad, Slot& slot, double lr,
                       double grad_scale) const override {
    sgd_update(weight, grad, state_of(slot), step_of(lr, grad_scale));
  }

  static SgdState state_of(const Slot& slot) {
    return {slot.arrays.empty() ? NDArray() : slot.arrays[0], slot.updates};
  }

  SgdStep step_of(double lr, double grad_scale) const {
    return {lr, grad_scale, param("momentum"), param("weight_decay"), param("nesterov") != 0};
  }
};

class Adam : public Optimizer {
 public:
  Adam(const std::string& name, bool decoupled, double weight_decay, const OptimizerParams& params)
      : Optimizer(name,
                  {{"lr", 0.001},
                   {"beta1", 0.9},
                   {"beta2", 0.999},
                   {"epsilon", 1e-8},
                   {"weight_decay", weight_decay}},
                  params),
        decoupled_(decoupled) {}

 private:
  std::vector<std::string> state_names() const override { return {"mean", "variance"}; }

  void push_update(const NDArray& weight, const NDArray& grad, const Slot& slot, double lr,
                   double grad_scale) const override {
    adam_update(weight, grad, state_of(slot), step_of(lr, grad_scale));
  }

  bool counts_rows() const override { return true; }

  void push_row_update(const NDArray& weight, const RowSparse& grad, Slot& slot, double lr,
                       double grad_scale) const override {
    if (!slot.row_updates.defined()) slot.row_updates = no_row_counts(weight);
    adam_update(weight, grad, state_of(slot), step_of(lr, grad_scale));
  }

  static AdamState state_of(const Slot& slot) {
    return {slot.arrays[0], slot.arrays[1], slot.updates, slot.row_updates};
  }

  AdamStep step_of(double lr, double grad_scale) const {
    return {.lr = lr,
            .grad_scale = grad_scale,
            .beta1 = param("beta1"),
            .beta2 = param("beta2"),
            .epsilon = param("epsilon"),
            .weight_decay = param("weight_decay"),
            .decoupled = decoupled_,
            .mean_unbias = 1,
            .variance_unbias = 1};
  }

  bool decoupled_;
};

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

Optimizer::Optimizer(std::string name, OptimizerParams defaults, const OptimizerParams& given)
    : name_(std::move(name)), params_(std::move(defaults)) {
  for (const auto& [key, value] : given) {
    auto known = params_.find(key);
    if (known == params_.end()) {
      throw InvalidArgument("optimizer " + name_ + " has no parameter '" + key + "'; it has " +
                            names_in(params_));
    }
    check_range(name_, key, value);
    known->second = value;
  }
}

Optimizer::Slot& Optimizer::slot_of(Key key, const NDArray& weight) {
  auto entry = slots_.find(key);
  if (entry == slots_.end()) {
    if (is_capturing() && !state_names().empty())
      throw Error(with_call_site(text_of(key) +
                                 ": its first update, which makes its state, must come before a capture"));
    Slot fresh;
    for (std::size_t i = 0; i < state_names().size(); ++i) fresh.arrays.push_back(zeros_like(weight));
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
  if (slot.row_updates.defined()) {
    check_row_counts("optimizer " + name_ + ": weight " + key.text() + "'s row_updates", slot.row_updates,
                     weight);
  }
  return slot;
}

std::string Optimizer::text_of(Key key) const { return "optimizer " + name_ + ", weight " + key.text(); }

void Optimizer::check(Key key, const NDArray& weight, const UpdateOptions& options) const {
  if (!weight.defined()) ndarray_detail::refuse_undefined(text_of(key).c_str());
  check_like_weight(key, weight, weight.dtype(), weight.shape());
  check_options(options);
}

void Optimizer::check_options(const UpdateOptions& options) const {
  check_range(name_, "lr", options.lr.value_or(param("lr")));
  if (!std::isfinite(options.grad_scale)) {
    throw InvalidArgument("optimizer " + name_ + ": grad_scale must be finite, not " +
                          number_text(options.grad_scale));
  }
}

// `dtype` and `shape` are those of the gradient.
void Optimizer::check_like_weight(Key key, const NDArray& weight, DType dtype, const Shape& shape) const {
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

void Optimizer::update(Key key, const NDArray& weight, const NDArray& grad, UpdateOptions options,
                       Where where) {
  const CallSite site(where);
  if (!weight.defined() || !grad.defined()) ndarray_detail::refuse_undefined(text_of(key).c_str());
  check_like_weight(key, weight, grad.dtype(), grad.shape());
  check_options(options);
  const double lr = options.lr.value_or(param("lr"));
  Slot& slot = slot_of(key, weight);
  NDArray whole = grad.detach().contiguous();
  if (whole.storage() == weight.storage()) whole = whole.copy();  // the gradient may overlap the weight
  if (slot.row_updates.defined()) {
    push_row_update(weight.detach(), all_rows(whole), slot, lr, options.grad_scale);
  } else {
    push_update(weight.detach(), whole, slot, lr, options.grad_scale);
  }
}

void Optimizer::update(Key key, const NDArray& weight, const RowSparse& grad, UpdateOptions options,
                       Where where) {
  const CallSite site(where);
  if (!weight.defined() || !grad.defined()) ndarray_detail::refuse_undefined(text_of(key).c_str());
  check_like_weight(key, weight, grad.dtype(), grad.shape());
  check_options(options);
  const double lr = options.lr.value_or(param("lr"));
  Slot& slot = slot_of(key, weight);
  if (grad.values().storage() != weight.storage())
    return push_row_update(weight.detach(), grad, slot, lr, options.grad_scale);
  const RowSparse apart(grad.shape(), grad.rows(), grad.values().copy(), grad.count());
  push_row_update(weight.detach(), apart, slot, lr, options.grad_scale);
}

std::map<std::string, NDArray> Optimizer::state() const {
  std::map<std::string, NDArray> all;
  std::vector<std::string> names = state_names();
  for (const auto& [key, slot] : slots_) {
    std::string prefix = key.text() + ".";
    for (std::size_t i = 0; i < names.size(); ++i) all[prefix + names[i]] = slot.arrays[i];
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
  if (name == "row_updates" && counts_rows()) {
    if (weight.defined()) check_row_counts(what, value, weight);
    for (const std::int64_t count : value.to_vector<std::int64_t>())
      if (count < -1) throw InvalidArgument(what + " has " + std::to_string(count));
    slot.row_updates = value.detach().copy_to(device);
    return;
  }
  const std::vector<std::string> names = state_names();
  const auto known = std::find(names.begin(), names.end(), name);
  if (known == names.end())
    throw InvalidArgument("optimizer " + name_ + " keeps no state called '" + entry + "'");
  if (weight.defined()) check_like(what, value, weight);
  slot.arrays[static_cast<std::size_t>(known - names.begin())] = value.detach().copy_to(device);
}

void Optimizer::replace_state(const std::map<std::string, NDArray>& state, const Weights* weights) {
  const std::string who = "optimizer " + name_ + ": ";
  std::map<Key, Slot> slots;
  const std::vector<std::string> names = state_names();
  for (const auto& [entry, value] : state) {
    const Key key = key_of(entry);
    if (!value.defined()) ndarray_detail::refuse_undefined((who + "'" + entry + "'").c_str());
    if (weights && !weights->contains(key)) throw InvalidArgument(who + "'" + entry + "' is of no weight");
    Slot& slot = slots[key];
    slot.arrays.resize(names.size());
    set_entry(slot, entry, value, weights ? weights->at(key) : NDArray());
  }
  for (const auto& [key, slot] : slots) {
    auto want = [&](const NDArray& array, const std::string& name) {
      if (!array.defined()) throw InvalidArgument(who + "'" + key.text() + "." + name + "' is missing");
    };
    for (std::size_t i = 0; i < names.size(); ++i) want(slot.arrays[i], names[i]);
    want(slot.updates, "updates");
  }
  slots_ = std::move(slots);
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
  if (name == "sgd") return std::make_unique<Sgd>(params);
  if (name == "adam") return std::make_unique<Adam>(name, false, 0.0, params);
  if (name == "adamw") return std::make_unique<Adam>(name, true, 0.01, params);
  throw InvalidArgument("there is no optimizer '" + name + "'; there are sgd, adam and adamw");
}

}  // namespace heddle
