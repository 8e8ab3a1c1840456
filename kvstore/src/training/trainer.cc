#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/graph.h>
#include <heddle/name_pattern.h>
#include <heddle/number_text.h>
#include <heddle/optimizer_update.h>
#include <heddle/trainer.h>

#include "stores/agreement.h"

namespace heddle {
namespace {

constexpr const char* kSteps = "steps";
// A version that no storage has.
constexpr std::uint64_t kUnknownVersion = ~std::uint64_t{0};
// Prefix of a state entry that names its parameter, such as "state.0.weight.velocity".
constexpr std::string kState = "state.";
// Prefix of a state entry that names its key of the store, such as "optimizer.0.velocity". It is for keys
// without a parameter, and in states that older versions have saved.
constexpr std::string kOptimizer = "optimizer.";
// Prefix of an entry of the loss scaler's state.
constexpr std::string kScaler = "scaler.";

// The range [first, last] of elements of its storage in which a parameter lies.
struct Part {
  const Parameter* parameter;
  std::int64_t first, last;
};

Part part_of(const Parameter& parameter) {
  Part part{&parameter, parameter.value.offset(), parameter.value.offset()};
  for (int axis = 0; axis < parameter.value.ndim(); ++axis) {
    const std::int64_t way = (parameter.value.shape()[axis] - 1) * parameter.value.strides()[axis];
    (way < 0 ? part.first : part.last) += way;
  }
  return part;
}

void for_each_element(const NDArray& array, int axis, std::int64_t place,
                      const std::function<void(std::int64_t)>& body) {
  if (axis == array.ndim()) return body(place);
  for (std::int64_t i = 0; i < array.shape()[axis]; ++i)
    for_each_element(array, axis + 1, place + i * array.strides()[axis], body);
}

// Throws InvalidArgument: two parameters share elements. `a` and `b` point into one vector, and the message
// names them in the order of the vector.
[[noreturn]] void refuse_shared(const Parameter* a, const Parameter* b) {
  throw InvalidArgument("Trainer: parameters '" + std::min(a, b)->name + "' and '" + std::max(a, b)->name +
                        "' share elements; make the array that they are parts of the parameter");
}

// Throws if two parameters share an element. For parameters whose ranges overlap, as those of the columns of
// a matrix do.
void check_elements(const std::vector<Part>& parts) {
  std::unordered_map<std::int64_t, const Parameter*> owners;
  for (const Part& part : parts) {
    for_each_element(part.parameter->value, 0, part.parameter->value.offset(), [&](std::int64_t place) {
      const auto [owner, is_new] = owners.emplace(place, part.parameter);
      if (!is_new && owner->second != part.parameter) refuse_shared(owner->second, part.parameter);
    });
  }
}

// Refuses parameters that share elements, since a store keeps a value for each parameter, and one parameter's
// update of a shared element would be overwritten by the other's. The same array may come twice, as it has
// one gradient.
void check_apart(const std::vector<Parameter>& parameters) {
  std::unordered_set<const GradMeta*> seen;
  std::unordered_map<const Storage*, std::size_t> index;
  std::vector<std::vector<Part>> storages;  // the parts of each storage, in the order of the parameters
  for (const Parameter& parameter : parameters) {
    if (parameter.value.size() == 0 || !seen.insert(parameter.value.grad_meta().get()).second) continue;
    const auto [at, is_new] = index.emplace(parameter.value.storage().get(), storages.size());
    if (is_new) storages.emplace_back();
    storages[at->second].push_back(part_of(parameter));
  }
  for (std::vector<Part>& parts : storages) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.first < b.first; });
    bool interleave = false;
    const Part* farthest = nullptr;
    for (const Part& part : parts) {
      if (farthest && part.first <= farthest->last) {
        if (part.parameter->value.is_contiguous() && farthest->parameter->value.is_contiguous())
          refuse_shared(farthest->parameter, part.parameter);
        interleave = true;
      }
      if (!farthest || part.last > farthest->last) farthest = &part;
    }
    if (interleave) check_elements(parts);
  }
}

// Checks the names of a replica's parameters. They may differ from those of the first replica, but must not
// be the same names in another order.
void check_order(const std::vector<Parameter>& first, const std::vector<Parameter>& replica) {
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : first) names.insert(parameter.name);
  for (std::size_t i = 0; i < replica.size(); ++i) {
    if (replica[i].name == first[i].name || !names.contains(replica[i].name)) continue;
    throw InvalidArgument("Trainer: a replica has parameter '" + replica[i].name +
                          "' where the first one has '" + first[i].name + "'");
  }
}

// The parameters as text for KVStore::set_optimizer(): "weight f32 (3,), bias f32 ()".
std::string describe(const std::vector<Parameter>& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text +=
        (text.empty() ? "" : ", ") + name + " " + name_of(value.dtype()) + " " + value.shape().to_string();
  }
  return text;
}

// Splits "KEY.NAME" or "PARAMETER.NAME" at the last dot: names of an optimizer's arrays have no dots.
std::pair<std::string, std::string> split(const std::string& entry) {
  const std::size_t dot = entry.rfind('.');
  if (dot == std::string::npos) return {"", entry};
  return {entry.substr(0, dot), entry.substr(dot + 1)};
}

void check_factor(const std::string& who, const char* name, double factor) {
  if (std::isfinite(factor) && factor >= 0) return;
  throw InvalidArgument(who + ": the factor of " + name + " must be finite and not negative, not " +
                        number_text(factor));
}

// A unique name for each parameter: the second parameter "name" is "name#2".
std::vector<std::string> state_names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  std::unordered_set<std::string> taken;
  for (const Parameter& parameter : parameters) {
    std::string name = parameter.name;
    for (int number = 2; !taken.insert(name).second; ++number)
      name = parameter.name + "#" + std::to_string(number);
    names.push_back(name);
  }
  return names;
}

// Returns the optimizer state in a trainer's state, with entries named by keys of the store.
std::map<std::string, NDArray> by_key(const std::map<std::string, NDArray>& state,
                                      const std::vector<std::string>& names) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i) places.emplace(names[i], i);
  std::map<std::string, NDArray> all;
  for (const auto& [name, value] : state) {
    if (name.starts_with(kState)) {
      const auto [parameter, array] = split(name.substr(kState.size()));
      const auto place = places.find(parameter);
      if (place == places.end())
        throw InvalidArgument("Trainer::set_state: '" + name + "' is of no parameter of this trainer");
      all[std::to_string(place->second) + "." + array] = value;
    } else if (name.starts_with(kOptimizer)) {
      all[name.substr(kOptimizer.size())] = value;
    } else if (name != kSteps && !name.starts_with(kScaler)) {
      throw InvalidArgument("Trainer::set_state: what is '" + name + "'?");
    }
  }
  return all;
}

// The entries of the loss scaler.
std::map<std::string, NDArray> scaler_part(const std::map<std::string, NDArray>& state) {
  std::map<std::string, NDArray> part;
  for (const auto& [name, value] : state)
    if (name.starts_with(kScaler)) part[name.substr(kScaler.size())] = value;
  return part;
}

}  // namespace

Trainer::Trainer(std::vector<Parameter> parameters, TrainerOptions options, Where where)
    : Trainer(std::vector<std::vector<Parameter>>{std::move(parameters)}, std::move(options), where) {}

Trainer::Trainer(std::vector<std::vector<Parameter>> replicas, TrainerOptions options, Where where)
    : replicas_(std::move(replicas)), options_(std::move(options)) {
  const CallSite site(where);
  check_replicas();
  if (!options_.store) options_.store = KVStore::create("local");
  check_scaler();
  if (options_.scaler) {
    LossScaler::Shared& scaler = *options_.scaler->shared_;
    scaler.trainer = token_ = std::make_shared<const int>(0);
    // The scaler may have skipped steps of an earlier trainer.
    steps_before_updates_ = -scaler.arrays.skipped.item<std::int64_t>();
  }
  const auto optimizer = create_optimizer(options_.optimizer, options_.params);
  needs_whole_ = optimizer->needs_whole();
  if (!options_.schedule) options_.schedule = constant_schedule(optimizer->params().at("lr"));
  assign_groups(optimizer->params().at("weight_decay"));
  init_store();
}

// Checks the groups, and finds the first one of each parameter.
void Trainer::assign_groups(double weight_decay) {
  const std::vector<ParameterGroup>& groups = options_.groups;
  std::vector<bool> fits(groups.size(), false);
  for (const Parameter& parameter : replicas_[0]) {
    std::size_t first = groups.size();
    for (std::size_t i = groups.size(); i-- > 0;) {
      if (groups[i].max_axes >= 0 && parameter.value.ndim() > groups[i].max_axes) continue;
      if (!fits_pattern(groups[i].pattern, parameter.name)) continue;
      fits[i] = true;
      first = i;
    }
    group_of_.push_back(first);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string who = "Trainer: group '" + groups[i].pattern + "'";
    check_factor(who, "lr", groups[i].lr);
    check_factor(who, "weight_decay", groups[i].weight_decay);
    if (!fits[i]) {
      throw InvalidArgument(
          who +
          (groups[i].max_axes < 0 ? "" : " with at most " + std::to_string(groups[i].max_axes) + " axes") +
          " fits no parameter; the first one is '" + replicas_[0][0].name + "'");
    }
    const bool on_servers = options_.store->type().starts_with("dist");
    if (on_servers && groups[i].weight_decay != 1 && weight_decay != 0) {
      throw InvalidArgument(who + " has a factor of weight_decay; servers of a '" + options_.store->type() +
                            "' store have one weight_decay for all values");
    }
  }
}

UpdateOptions Trainer::update_of(std::size_t index, const UpdateOptions& all) const {
  UpdateOptions update = all;
  const bool is_in_group = group_of_[index] < options_.groups.size();
  operators_detail::LaunchedRates::set_lr_factor(is_in_group ? options_.groups[group_of_[index]].lr : 1);
  if (!is_in_group) return update;
  const ParameterGroup& group = options_.groups[group_of_[index]];
  update.lr = *all.lr * group.lr;
  update.decay_scale = group.weight_decay;
  return update;
}

void Trainer::check_replicas() const {
  if (replicas_.empty() || replicas_[0].empty()) throw InvalidArgument("Trainer: there are no parameters");
  for (const auto& replica : replicas_) {
    if (replica.size() != replicas_[0].size()) {
      throw InvalidArgument("Trainer: a replica has " + std::to_string(replica.size()) +
                            " parameters, the first one " + std::to_string(replicas_[0].size()));
    }
    check_order(replicas_[0], replica);
    for (const Parameter& parameter : replica) {
      if (!parameter.value.defined())
        throw InvalidArgument("Trainer: parameter '" + parameter.name + "' is an undefined array");
      if (!requires_grad(parameter.value)) {
        throw InvalidArgument("Trainer: parameter '" + parameter.name + "' requires no gradient");
      }
    }
    check_apart(replica);
  }
}

// Initialises the keys before it sets the optimizer: a store that is in use refuses the keys, and so keeps
// its optimizer's state.
void Trainer::init_store() {
  std::map<const GradMeta*, int> times;
  for (const Parameter& parameter : replicas_[0]) ++times[parameter.value.grad_meta().get()];
  for (std::size_t i = 0; i < replicas_[0].size(); ++i) {
    auto key = static_cast<KVStore::Key>(i);
    const NDArray& value = replicas_[0][i].value;
    if (replicas_.size() == 1 && options_.store->workers() == 1) {
      // An array that comes twice has a stored value for each time, since each is updated.
      times[value.grad_meta().get()] > 1 ? options_.store->init(key, value)
                                         : options_.store->adopt(key, value);
    } else {
      options_.store->broadcast(key, value, values(i));
    }
  }
  options_.store->set_optimizer(options_.optimizer, options_.params, describe(replicas_[0]));
  find_memory();
  for (const auto& replica : replicas_) {  // takes back gradient memory that another trainer may have lent
    for (const Parameter& parameter : replica) lend_gradient_memory(parameter.value, {});
  }
  lend_memory();
  remember_versions();
}

// Finds gradient memory for the parameters. With several replicas there is none, since the sum of their
// gradients is pushed. There is none for a parameter that comes twice either: its gradient is pushed twice,
// and the first push would overwrite the gradient in that memory with a sum.
void Trainer::find_memory() {
  const std::vector<Parameter>& parameters = replicas_[0];
  memory_.resize(parameters.size());
  if (replicas_.size() > 1) return;
  std::map<const GradMeta*, int> times;
  for (const Parameter& parameter : parameters) ++times[parameter.value.grad_meta().get()];
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (times[parameters[i].value.grad_meta().get()] > 1) continue;
    memory_[i] = options_.store->gradient_memory(static_cast<KVStore::Key>(i));
  }
}

void Trainer::lend_memory() const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const NDArray& value = replicas_[0][i].value;
    // A frozen parameter, which requires no gradient, is lent no memory, nor is one that Module::to() has moved away from it.
    if (memory_[i].defined() && requires_grad(value) && memory_[i].device() == value.device())
      lend_gradient_memory(value, memory_[i]);
  }
}

void Trainer::remember_versions() {
  versions_.clear();
  for (const auto& replica : replicas_) {
    for (const Parameter& parameter : replica) versions_.push_back(parameter.value.storage()->version());
  }
}

std::vector<std::size_t> Trainer::changed() const {
  std::vector<std::size_t> all;
  std::size_t index = 0;
  for (const auto& replica : replicas_) {
    for (const Parameter& parameter : replica) {
      if (parameter.value.storage()->version() != versions_[index]) all.push_back(index);
      ++index;
    }
  }
  return all;
}

void Trainer::mark_changed(const std::vector<std::size_t>& indices) {
  for (const std::size_t index : indices) versions_[index] = kUnknownVersion;
}

void Trainer::take_over_changes() {
  const std::size_t count = replicas_[0].size();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      const NDArray& value = replicas_[r][i].value;
      if (value.storage()->version() == versions_[r * count + i]) continue;
      options_.store->assign(static_cast<KVStore::Key>(i), value);
      break;
    }
  }
}

Trainer::Gradients Trainer::gradients(std::size_t index) const {
  Gradients all;
  all.whole.reserve(replicas_.size());
  for (const auto& replica : replicas_) {
    all.whole.push_back(grad(replica[index].value));
    if (all.whole.back().defined()) [[likely]]
      continue;
    const RowSparse rows = row_sparse_grad(replica[index].value);
    if (!rows.defined()) {
      throw InvalidArgument("Trainer::step: parameter '" + replica[index].name +
                            "' has no gradient; call backward() on a loss that depends on it first");
    }
    if (needs_whole_) {
      all.whole.back() = to_dense(rows);
    } else {
      all.rows.push_back(rows);
    }
  }
  if (all.rows.empty()) return all;
  if (all.rows.size() == all.whole.size()) return {.rows = std::move(all.rows)};
  auto next = all.rows.begin();
  for (NDArray& whole : all.whole)
    if (!whole.defined()) whole = to_dense(*next++);
  return {.whole = std::move(all.whole)};
}

std::vector<NDArray> Trainer::values(std::size_t index) const {
  std::vector<NDArray> all;
  for (const auto& replica : replicas_) all.push_back(replica[index].value);
  return all;
}

double Trainer::learning_rate() const { return options_.schedule(steps_); }

void Trainer::set_schedule(Schedule schedule) {
  if (!schedule) throw InvalidArgument("Trainer::set_schedule: the schedule is empty");
  options_.schedule = std::move(schedule);
}

// Pushes gradients in the order in which the backward pass computes them, so that the store handles the first
// gradients while later ones are computed.
void Trainer::exchange(const std::vector<Gradients>& gradients, const UpdateOptions& update) {
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const auto key = static_cast<KVStore::Key>(i);
    if (gradients[i].rows.empty()) {
      options_.store->push(key, gradients[i].whole, update_of(i, update));
    } else {
      options_.store->push(key, gradients[i].rows, update_of(i, update));
    }
  }
  for (std::size_t i = 0; i < gradients.size(); ++i)
    options_.store->pull(static_cast<KVStore::Key>(i), values(i));
}

// exchange() for one replica: pushes and pulls all whole values of a group by one call with a list, so that
// the store may send small values together. Pushes of rows, which may block, come last.
void Trainer::exchange_list(const std::vector<Gradients>& gradients, const UpdateOptions& update) {
  std::vector<KVStore::Key> keys_of_rows;
  for (std::size_t group = 0; group <= options_.groups.size(); ++group) {
    std::vector<KVStore::Key> keys;
    std::vector<NDArray> pushed, pulled;
    keys.reserve(gradients.size()), pushed.reserve(gradients.size()), pulled.reserve(gradients.size());
    std::size_t last = 0;
    for (std::size_t i = gradients.size(); i-- > 0;) {
      if (group_of_[i] != group) continue;
      last = i;
      const auto key = static_cast<KVStore::Key>(i);
      if (!gradients[i].rows.empty()) {
        keys_of_rows.push_back(key);
        continue;
      }
      keys.push_back(key);
      pushed.push_back(gradients[i].whole[0]);
      pulled.push_back(replicas_[0][i].value);
    }
    if (!keys.empty()) options_.store->push_pull(keys, pushed, pulled, update_of(last, update));
  }
  for (const KVStore::Key key : keys_of_rows) {
    const auto index = static_cast<std::size_t>(key.number());
    options_.store->push(key, gradients[index].rows, update_of(index, update));
    options_.store->pull(key, values(index));
  }
}

const Trainer*& Trainer::capturing() {
  thread_local const Trainer* trainer = nullptr;
  return trainer;
}

// Checks the rate, and its product with the factor of each group, as the optimizers do outside of launches.
void Trainer::check_rates(double lr) const {
  const auto check = [this](double rate) {
    if (std::isfinite(rate) && rate >= 0) return;
    throw InvalidArgument("optimizer " + options_.optimizer + ": lr must be finite and not negative, not " +
                          number_text(rate));
  };
  check(lr);
  for (const std::size_t group : group_of_)
    if (group < options_.groups.size()) check(lr * options_.groups[group].lr);
}

// In a capture, each launch begins a step of its own: with the learning rate of that step, and with what has changed
// the parameters since the last one.
void Trainer::exchange_all(const std::vector<Gradients>& gradients, const UpdateOptions& update) {
  const auto run = [&] {
    replicas_.size() == 1 ? exchange_list(gradients, update) : exchange(gradients, update);
  };
  if (!is_capturing()) return run();
  using operators_detail::LaunchedRates, operators_detail::UpdateRates;
  const LaunchedRates rates(
      launch_slot<UpdateRates>({*update.lr, update.grad_scale}, [this, scale = update.grad_scale] {
        const double lr = learning_rate();
        check_rates(lr);
        take_over_changes();
        ++steps_;
        return UpdateRates{lr, scale};
      }));
  run();
  if (rates.updates() < gradients.size())
    throw Error("Trainer::step: the updates of a " + options_.store->type() +
                " store cannot be captured: each has the learning rate of its call");
}

bool Trainer::has_gradients() const {
  for (const auto& replica : replicas_) {
    for (const Parameter& parameter : replica) {
      if (grad(parameter.value).defined() || row_sparse_grad(parameter.value).defined()) return true;
    }
  }
  return false;
}

void Trainer::forget_capture(std::int64_t steps) {
  for (const auto& replica : replicas_) {
    for (const Parameter& parameter : replica) clear_grad(parameter.value);
  }
  lend_memory();
  if (options_.scaler) options_.scaler->shared_->unscaled = false;
  steps_ = steps;
}

// The number of successful updates of the parameter that has had the most, and of steps that the scaler has skipped.
std::int64_t Trainer::counted_steps() const {
  std::int64_t most = 0;
  for (const auto& [name, value] : options_.store->optimizer_state()) {
    if (name.ends_with(".updates")) most = std::max(most, value.item<std::int64_t>());
  }
  if (options_.scaler) most += options_.scaler->shared_->arrays.skipped.item<std::int64_t>();
  return most;
}

void Trainer::clear_errors(Where where) {
  const CallSite site(where);
  for (const auto& replica : replicas_) {
    for (const Parameter& parameter : replica) {
      clear_grad(parameter.value);
      parameter.value.engine().clear_error(parameter.value.var(), CallSite::current());
    }
  }
  options_.store->clear_errors();
  if (options_.scaler) options_.scaler->clear_errors(where);
  ++resets_;
  lend_memory();
  steps_ = steps_before_updates_ + counted_steps();
  // The error may have hit the assignment of a changed parameter to the store. So all parameters count as
  // changed, and the next step assigns them again.
  versions_.assign(versions_.size(), kUnknownVersion);
}

std::map<std::string, NDArray> Trainer::state() const {
  EngineScope scope(replicas_[0][0].value.engine());
  std::map<std::string, NDArray> all{{kSteps, array({steps_})}};
  if (options_.scaler)
    for (const auto& [name, value] : options_.scaler->state()) all[kScaler + name] = value;
  const std::vector<std::string> names = state_names(replicas_[0]);
  for (const auto& [entry, value] : options_.store->optimizer_state()) {
    const auto [text, array] = split(entry);
    const Key key(text);
    const bool is_parameter =
        key.is_number() && key.number() >= 0 && std::cmp_less(key.number(), names.size());
    all[is_parameter ? kState + names[static_cast<std::size_t>(key.number())] + "." + array
                     : kOptimizer + entry] = value;
  }
  return all;
}

// Throws if a parameter has no state although steps were done, since every step updates all parameters.
void Trainer::check_complete(const std::map<std::string, NDArray>& optimizer, std::int64_t steps) const {
  if (optimizer.empty() && steps == 0) return;
  const std::vector<std::string> names = state_names(replicas_[0]);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (optimizer.contains(std::to_string(i) + ".updates")) continue;
    throw InvalidArgument("Trainer::set_state: '" + kState + names[i] + ".updates' is missing");
  }
}

void Trainer::check_state(const std::map<std::string, NDArray>& state, Where where) const {
  const CallSite site(where);
  auto steps = state.find(kSteps);
  if (steps == state.end()) throw InvalidArgument("Trainer::set_state: 'steps' is missing");
  const std::map<std::string, NDArray> optimizer = by_key(state, state_names(replicas_[0]));
  if (!steps->second.defined()) throw InvalidArgument("Trainer::set_state: 'steps' is undefined");
  auto count = steps->second.item<std::int64_t>();
  if (count < 0) throw InvalidArgument("Trainer::set_state: steps is " + std::to_string(count));
  check_complete(optimizer, count);
  const auto of_scaler = scaler_part(state);
  if (options_.scaler && !of_scaler.empty()) options_.scaler->check_state(of_scaler);
}

void Trainer::set_state(const std::map<std::string, NDArray>& state, Where where) {
  const CallSite site(where);
  const std::shared_ptr<Communicator> ranks = options_.store->communicator();
  const auto check = [&] {
    check_state(state);
    return std::string();
  };
  ranks && ranks->size() > 1 ? agree(*ranks, "Trainer::set_state", "state", check) : void(check());
  options_.store->set_optimizer_state(by_key(state, state_names(replicas_[0])));
  const auto of_scaler = scaler_part(state);
  if (options_.scaler && !of_scaler.empty()) options_.scaler->set_state(of_scaler, where);
  ++resets_;
  steps_ = state.at(kSteps).item<std::int64_t>();
  steps_before_updates_ = steps_ - counted_steps();
  for (std::size_t i = 0; i < replicas_[0].size(); ++i) {
    auto key = static_cast<KVStore::Key>(i);
    options_.store->assign(key, replicas_[0][i].value);
    if (replicas_.size() > 1) options_.store->pull(key, values(i));
  }
  remember_versions();
}

}  // namespace heddle
