#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include <heddle/average_weights.h>
#include <heddle/graph.h>
#include <heddle/number_text.h>
#include <heddle/optimizer_update.h>

#include "module/module_node.h"

namespace heddle {
namespace {

constexpr std::string kAverage = "average.", kUpdates = "updates";

[[noreturn]] void fail_average(const std::string& problem) {
  throw InvalidArgument("AverageWeights: " + problem);
}

void check_averaged(const std::vector<Parameter>& parameters) {
  if (parameters.empty()) fail_average("there are no parameters");
  std::set<std::string> names;
  const NDArray& first = parameters[0].value;
  for (const auto& [name, value] : parameters) {
    const std::string who = "parameter '" + name + "' ";
    if (!names.insert(name).second) fail_average("two parameters are called '" + name + "'");
    if (!value.defined()) fail_average(who + "is an undefined array");
    if (value.dtype() != DType::f32 && value.dtype() != DType::f64)
      fail_average(who + "is " + name_of(value.dtype()) + "; want f32 or f64");
    if (!value.is_contiguous()) fail_average(who + "is not contiguous");
    if (value.device() != first.device() || &value.engine() != &first.engine())
      fail_average(who + "is on another device or engine than the first one");
  }
}

}  // namespace

AverageWeights::AverageWeights(std::vector<Parameter> parameters, const AverageOptions& options, Where where)
    : options_(options) {
  const CallSite site(where);
  check_averaged(parameters);
  if (!(options.decay >= 0 && options.decay < 1))
    fail_average("decay must be in [0, 1), not " + number_text(options.decay));
  for (auto& [name, value] : parameters) {
    values_.push_back(value.detach());
    of_averages_.push_back(value.detach().copy());
    averages_.push_back({std::move(name), of_averages_.back()});
  }
  const EngineScope scope(values_[0].engine());
  updates_ = zeros({1}, DType::i64);
}

// Moves the averages to the device to which Module::to() has moved the parameters, all of them.
void AverageWeights::follow(const char* call) {
  const Device device = values_[0].device();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].device() == device) continue;
    throw InvalidArgument(std::string("AverageWeights::") + call + ": parameter '" + averages_[i].name +
                          "' is on " + values_[i].device().to_string() + ", '" + averages_[0].name + "' on " +
                          device.to_string() + "; want all on one device");
  }
  if (std::all_of(of_averages_.begin(), of_averages_.end(),
                  [device](const NDArray& one) { return one.device() == device; }))
    return;
  if (is_capturing())
    throw Error(with_call_site(std::string("AverageWeights::") + call +
                               ": the first call after the parameters came to " + device.to_string() +
                               ", where the averages follow, must come before a capture"));
  nn_detail::move_arrays(of_averages_, device);
}

void AverageWeights::refuse_swapped(const char* call) const {
  if (swapped_)
    throw InvalidArgument(std::string("AverageWeights::") + call +
                          ": the parameters have the averages' values; swap() back before");
}

void AverageWeights::update(Where where) {
  const CallSite site(where);
  refuse_swapped("update");
  follow("update");
  operators_detail::average_update(of_averages_, values_, updates_, options_.decay, options_.warm_up);
}

void AverageWeights::swap(Where where) {
  const CallSite site(where);
  follow("swap");
  operators_detail::swap_values(of_averages_, values_);
  swapped_ = !swapped_;
}

std::map<std::string, NDArray> AverageWeights::state() const {
  refuse_swapped("state");
  std::map<std::string, NDArray> all{{kUpdates, updates_}};
  for (const auto& [name, value] : averages_) all[kAverage + name] = value;
  return all;
}

void AverageWeights::set_state(const std::map<std::string, NDArray>& state, Where where) {
  const CallSite site(where);
  refuse_swapped("set_state");
  const std::map<std::string, NDArray> own = this->state();
  for (const auto& [name, value] : own) {
    const auto given = state.find(name);
    const std::string who = "AverageWeights::set_state: '" + name + "' ";
    if (given == state.end()) throw InvalidArgument(who + "is missing");
    if (!given->second.defined()) throw InvalidArgument(who + "is an undefined array");
    if (given->second.shape() != value.shape() || given->second.dtype() != value.dtype()) {
      throw InvalidArgument(who + "is " + name_of(given->second.dtype()) + " " +
                            given->second.shape().to_string() + "; want " + name_of(value.dtype()) + " " +
                            value.shape().to_string());
    }
  }
  for (const auto& [name, value] : state) {
    if (!own.contains(name)) throw InvalidArgument("AverageWeights::set_state: what is '" + name + "'?");
  }
  for (const auto& [name, value] : own) value.assign(state.at(name).detach().copy_to(value.device()));
}

UseAverages::UseAverages(AverageWeights& average, Where where) : average_(average), where_(where) {
  const CallSite site(where);
  if (average.swapped())
    throw InvalidArgument("UseAverages: the parameters have the averages' values already");
  average_.swap(where);
}

// A destructor does not throw: if the op cannot be pushed, the engine is gone.
UseAverages::~UseAverages() {
  try {
    if (average_.swapped()) average_.swap(where_);
  } catch (const std::exception&) {  // ignored: see above
  }
}

}  // namespace heddle
