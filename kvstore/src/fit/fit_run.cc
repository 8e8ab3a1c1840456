#include "fit/fit_run.h"

#include <algorithm>
#include <cxxabi.h>
#include <typeinfo>
#include <utility>

#include <heddle/array_creation.h>

#include "fit/fit_access.h"

namespace heddle {

const std::vector<double>& History::operator[](const std::string& name) const {
  const auto found = values.find(name);
  if (found != values.end()) return found->second;
  std::string known;
  for (const auto& [one, numbers] : values) known += (known.empty() ? "" : ", ") + one;
  throw InvalidArgument("History: there is no value '" + name + "'; there are " +
                        (known.empty() ? "none" : known));
}

std::string Callback::name() const {
  const char* const mangled = typeid(*this).name();
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : mangled;
  std::free(text);
  return name;
}

void Callback::clear_errors() {
  const CallbackState own = state();
  for (const auto* const arrays : {&own.arrays, &own.of_rank})
    for (const auto& [name, array] : *arrays) fit_detail::clear_error(array);
}

Module& FitRun::net() const { return impl_.net; }
Trainer& FitRun::trainer() const { return impl_.trainer; }
std::int64_t FitRun::epoch() const { return impl_.epoch; }
std::int64_t FitRun::epochs() const { return impl_.options.epochs; }
std::int64_t FitRun::batch() const { return impl_.batch; }
std::int64_t FitRun::batches() const { return impl_.known_size; }
std::int64_t FitRun::step() const { return impl_.trainer.steps(); }
std::int64_t FitRun::examples() const { return impl_.examples; }
int FitRun::rank() const { return impl_.trainer.store().rank(); }
int FitRun::ranks() const { return impl_.trainer.store().workers(); }
const History& FitRun::history() const { return impl_.history; }
const std::vector<std::string>& FitRun::value_names() const { return impl_.value_names; }

NDArray FitRun::value(const std::string& name) const {
  const std::vector<std::string>& names = impl_.values.names();
  const fit_detail::Arrays& results = impl_.epoch_results;  // the validation may have the metrics then
  if (results.empty() && !impl_.values.has_batches())
    throw InvalidArgument("FitRun::value: there is no batch yet in this epoch of which '" + name +
                          "' could be");
  if (name == "batch_loss" && !impl_.last_losses.empty()) return impl_.last_losses.back();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) {
    const auto index = static_cast<std::size_t>(found - names.begin());
    return results.empty() ? impl_.values.result(index) : results[index].copy();
  }
  std::string known = "batch_loss";
  for (const std::string& one : names) known += ", " + one;
  throw InvalidArgument("FitRun::value: there is no value '" + name + "' within an epoch; there are " +
                        known);
}

void FitRun::later(const std::vector<std::string>& names, std::function<void(const FitValues&)> use) {
  if (!use) throw InvalidArgument("FitRun::later: the function is empty");
  fit_detail::LateValues values{names, {}, std::move(use)};
  for (const std::string& name : names) values.arrays.push_back(value(name));
  impl_.late.push_back(std::move(values));
}

void FitRun::stop(const std::string& reason) {
  impl_.wants_stop = true;
  if (impl_.stop_reason.empty()) impl_.stop_reason = reason;
}

bool FitRun::stopping() const { return impl_.wants_stop || impl_.wants_interrupt; }

void FitRun::save(const std::string& path) {
  if (path.empty()) throw InvalidArgument("FitRun::save: the path is empty");
  if (std::find(impl_.saves.begin(), impl_.saves.end(), path) == impl_.saves.end())
    impl_.saves.push_back(path);
}

bool FitRun::saving() const { return !impl_.writer.idle(); }
bool FitRun::finish_saves() { return impl_.finish_saves(); }
bool FitRun::has_state(const Callback& callback) const { return impl_.with_state.contains(&callback); }
const std::string& FitRun::resumed_from() const { return impl_.options.resume; }
bool FitRun::resumes() const { return impl_.resumes; }

FitRun FitAccess::make(FitRun::Impl& impl) { return FitRun(impl); }
const fit_detail::GivenArrays& FitAccess::given(const FitRun& run) { return run.impl_.given_arrays; }

}  // namespace heddle
