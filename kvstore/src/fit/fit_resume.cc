// A training that is resumed from a checkpoint.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <heddle/log.h>
#include <heddle/random.h>

#include "fit/fit_run.h"
#include "fit/losses.h"
#include "fit/path_pattern.h"
#include "fit/state_names.h"
#include "stores/agreement.h"

namespace heddle {

using namespace fit_detail;

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw Error("fit: checkpoint '" + path + "' " + problem);
}

// The entries of a map whose names begin with a prefix, by what follows it.
template <class Value>
std::map<std::string, Value> with_prefix(const std::map<std::string, Value>& all, const std::string& prefix) {
  std::map<std::string, Value> found;
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at)
    found.emplace(at->first.substr(prefix.size()), at->second);
  return found;
}

// What a resume changes, to put it back if the checkpoint does not fit.
class Former {
 public:
  Former(const Module& net, const Trainer& trainer,
         const std::vector<std::pair<std::string, Generator*>>& generators) {
    for (const Parameter& one : net.state())
      values_.emplace_back(one.value.detach(), one.value.detach().copy());
    for (const auto& [name, array] : trainer.state()) state_[name] = array.detach().copy();
    for (const auto& [name, array] : trainer.store().residuals()) residuals_[name] = array.detach().copy();
    for (const auto& [name, generator] : generators) generators_.emplace_back(generator, *generator);
  }
  void restore(Trainer& trainer) const {
    for (const auto& [array, value] : values_) array.assign(value);
    trainer.set_state(state_);
    trainer.store().set_residuals(residuals_);
    for (const auto& [generator, value] : generators_) *generator = value;
  }

 private:
  std::vector<std::pair<NDArray, NDArray>> values_;
  std::map<std::string, NDArray> state_, residuals_;
  std::vector<std::pair<Generator*, Generator>> generators_;
};

// The part of this rank of what all ranks have, (ranks, ...); undefined if the run that was saved did not have this rank.
NDArray part_of(const NDArray& saved, int rank) { return saved.shape()[0] > rank ? saved[rank] : NDArray(); }

CallbackState copy_of(const CallbackState& state) {
  CallbackState copy = state;
  for (auto* const arrays : {&copy.arrays, &copy.of_rank})
    for (auto& [name, array] : *arrays)
      if (array.defined()) array = array.detach().copy();
  return copy;
}

bool has_function(const std::string& loss) { return loss.find(kFunctionLoss) != std::string::npos; }

bool has_state_of(const Checkpoint& from, const std::string& place) {
  return !with_prefix(from.notes, kText + place).empty() ||
         !with_prefix(from.arrays, kCallback + place).empty() ||
         !with_prefix(from.arrays, kNumber + place).empty() ||
         !with_prefix(from.arrays, kOfRank + place).empty();
}

std::string listed(const std::vector<std::string>& paths) {
  constexpr std::size_t kMost = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(paths.size(), kMost); ++i)
    text += (i > 0 ? ", '" : "'") + paths[i] + "'";
  return text + (paths.size() > kMost ? " and others" : "");
}

}  // namespace

bool FitRun::Impl::exists_on_rank_0(const std::string& path) const {
  std::error_code error;
  std::int32_t answer = std::filesystem::exists(path, error) ? 1 : 0;
  if (error) answer = -error.value();
  if (has_others()) {
    const NDArray first = full({}, answer, DType::i32);
    ranks->broadcast(first, 0);
    answer = first.item<std::int32_t>();
  }
  if (answer < 0)
    fail(path.size() > 200 ? path.substr(0, 200) + "..." : path,
         "cannot be read: " + std::generic_category().message(-answer));
  return answer != 0;
}

// The newest file of a path with {epoch} or {step} that all ranks have.
std::string FitRun::Impl::path_to_resume() const {
  const std::string& path = options.resume;
  const PathPattern pattern(path);
  const bool is_there = exists_on_rank_0(path);
  if (is_there && (pattern.counts().empty() || !pattern.has_known_folder())) return path;
  if (!pattern.has_known_folder())
    throw InvalidArgument("fit: resume is '" + path +
                          "'; a place such as {epoch} may be in the file's name, not in its folder's");
  if (pattern.places() == 0) return "";
  if (pattern.counts().empty())
    throw InvalidArgument("fit: resume is '" + path + "'; want a path, or one with {epoch} or {step}");
  NumberedFiles found;
  together("resume", [&] {
    found = pattern.numbered_files();
    std::erase(found.others, path);  // see below
    if (is_there || !found.files.empty() || found.others.empty()) return;
    throw Error("fit: resume is '" + path +
                "', and the files of such names are no checkpoints of fit(): " + listed(found.others));
  });
  const std::map<std::int64_t, std::string>& files = found.files;
  std::int64_t least = files.empty() ? -1 : files.rbegin()->first, most = least;
  bool has_any = !files.empty();
  while (has_others()) {
    const NDArray smallest = full({}, least, DType::i64), largest = full({}, most, DType::i64);
    ranks->all_reduce(smallest, ReduceOp::min);
    ranks->all_reduce(largest, ReduceOp::max);
    const auto low = smallest.item<std::int64_t>(), high = largest.item<std::int64_t>();
    has_any = has_any || high >= 0;
    if (low == high) break;
    const auto behind = files.upper_bound(low);  // the newest that may be on all of them is not above `low`
    least = most = behind == files.begin() ? -1 : std::prev(behind)->first;
  }
  if (least >= 0 && !found.others.empty())
    write_log("fit: files that fit '" + path +
              "', but are no checkpoints of fit(), are left out: " + listed(found.others));
  if (least >= 0) return files.at(least);
  if (is_there) return path;  // earlier versions left the places in the name at an interrupt
  if (has_any) fail(path, "is on some ranks alone: there is no number of which all have a file");
  return "";
}

void FitRun::Impl::resume() {
  options.resume = path_to_resume();
  if (options.resume.empty()) return;
  Checkpoint all{.parameters = net.state(),
                 .trainer = &trainer,
                 .counters = {{"fit.epoch", 0}, {"fit.batch", 0}, {"fit.examples", 0}}};
  std::optional<Former> former;
  if (trainer.store().workers() == 1 || ranks)
    former.emplace(net, trainer, generators());  // else servers have it
  try {
    load(all);
  } catch (...) {
    put_back_callbacks();
    if (former) former->restore(trainer);
    throw;
  }
  former_states.clear();
}

// A callback that cannot take its own state keeps the other one.
void FitRun::Impl::put_back_callbacks() {
  for (const auto& [callback, state] : former_states) {
    try {
      callback->set_state(state);
    } catch (...) {  // ignored: what has made the resume fail is the error
    }
  }
}

void FitRun::Impl::load(Checkpoint& all) {
  load_checkpoint(options.resume, all);
  if (!has_others()) return load_own(all);
  // All ranks throw if one does, and all are put back.
  agree(*ranks, "fit", "checkpoint '" + options.resume + "'", [&] {
    load_own(all);
    return "epoch " + std::to_string(epoch) + ", batch " + std::to_string(batch) + ", step " +
           std::to_string(trainer.steps());
  });
}

// What other ranks need not know of.
void FitRun::Impl::load_own(const Checkpoint& all) {
  epoch = all.counters.at("fit.epoch");
  batch = all.counters.at("fit.batch");
  examples = all.counters.at("fit.examples");
  load_history(all);
  load_generators(all);
  load_buffers(all);
  if (batch > 0) load_values(all);
  load_callbacks(all);
  if (const auto stopped = all.notes.find(kStopped); stopped != all.notes.end() && !options.resume_stopped) {
    finished = wants_stop = true;
    stop_reason = stopped->second;
  }
}

void FitRun::Impl::load_history(const Checkpoint& from) {
  history = {};
  const auto epochs = from.arrays.find(kEpochs);
  if (epochs == from.arrays.end()) return;
  history.epochs = epochs->second.to_vector<std::int64_t>();
  for (const auto& [name, series] : with_prefix(from.arrays, kHistory + "value."))
    history.values[name] = series.to_vector<double>();
}

// A rank that the saved run did not have draws numbers that no other rank draws.
void FitRun::Impl::load_generators(const Checkpoint& from) {
  for (const auto& [name, generator] : generators()) {
    const auto saved = from.arrays.find(kGenerator + name);
    if (saved == from.arrays.end())
      fail(options.resume, "has no generator '" + (name.empty() ? name : name.substr(1)) + "'");
    const std::vector<std::int64_t> all = saved->second.to_vector<std::int64_t>();
    const bool is_known = all.size() >= 2 * static_cast<std::size_t>(rank() + 1);
    const std::size_t at = is_known ? 2 * static_cast<std::size_t>(rank()) : 0;
    Generator loaded(static_cast<std::uint64_t>(all.at(at)));
    loaded.set_position(static_cast<std::uint64_t>(all.at(at + 1)));
    *generator = is_known ? loaded : loaded.jumped(rank());
  }
}

// A rank that the saved run did not have keeps what rank 0 had.
void FitRun::Impl::load_buffers(const Checkpoint& from) const {
  for (const Parameter& one : net.state()) {
    const auto saved = from.arrays.find(kBuffer + one.name);
    if (saved == from.arrays.end()) continue;
    if (const NDArray own = part_of(saved->second, rank()); own.defined()) one.value.detach().assign(own);
  }
}

// Checkpoints of earlier versions have no settings. Of a loss that is a function nothing is known, nor of a Batches that does not
// say its size.
void FitRun::Impl::check_settings(const Checkpoint& from) const {
  const std::map<std::string, std::string> saved = with_prefix(from.notes, kSetting);
  if (saved.empty()) return;
  const std::string none = "none";
  const auto value_in = [&](const auto& all, const std::string& name) -> std::string {
    const auto found = all.find(name);
    return found == all.end() ? none : found->second;
  };
  std::map<std::string, std::string> names = saved;
  names.insert(settings.begin(), settings.end());
  for (const auto& [name, ignored] : names) {
    const std::string before = value_in(saved, name), now = value_in(settings, name);
    const bool is_unknown_size = name == kBatches && (before == none || now == none);
    if (name == kMetrics || before == now || is_unknown_size) continue;
    if (has_function(before) || has_function(now)) continue;
    fail(options.resume, "was saved within an epoch, with " + name + " " + before + ", and there is " + now +
                             "; it can be another one between epochs alone");
  }
}

// For each metric its place among those that were saved; of a checkpoint without names the same.
std::vector<std::size_t> FitRun::Impl::places_of_values(const Checkpoint& from) const {
  std::vector<std::size_t> places;
  const auto saved = from.notes.find(kSetting + kMetrics);
  std::vector<std::string> names;
  if (saved != from.notes.end()) {
    std::istringstream lines(saved->second);
    for (std::string name; std::getline(lines, name);) names.push_back(name);
  }
  for (const FitMetric& metric : values.metrics()) {
    const auto found = std::find(names.begin(), names.end(), metric.name);
    if (saved != from.notes.end() && found == names.end())
      fail(options.resume, "was saved within an epoch without the metric '" + metric.name +
                               "'; there can be other ones between epochs alone");
    places.push_back(saved == from.notes.end() ? places.size()
                                               : static_cast<std::size_t>(found - names.begin()));
  }
  return places;
}

void FitRun::Impl::load_values(const Checkpoint& from) {
  check_settings(from);
  const std::int64_t count = ranks ? ranks->size() : 1;
  std::vector<NDArray> state;
  for (std::size_t i = 0; from.arrays.contains(kValues + std::to_string(i)); ++i) {
    const NDArray& saved = from.arrays.at(kValues + std::to_string(i));
    if (saved.shape()[0] != count)
      fail(options.resume, "was saved within an epoch by " + std::to_string(saved.shape()[0]) +
                               " ranks, and there are " + std::to_string(count) +
                               "; between epochs the number of ranks may change");
    state.push_back(saved[rank()]);
  }
  if (state.size() != values.state_size())
    fail(options.resume, "was saved within an epoch with " + std::to_string(state.size()) +
                             " losses and metrics, and there are " + std::to_string(values.state_size()));
  const std::size_t losses = values.state_size() - values.metrics().size();
  std::vector<NDArray> ordered(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(losses));
  for (const std::size_t place : places_of_values(from)) ordered.push_back(state.at(losses + place));
  values.set_state(ordered);
}

// States go by the name of the callback, and of several with one name by their order.
void FitRun::Impl::load_callbacks(const Checkpoint& from) {
  std::set<std::string> used;
  const auto saved = with_prefix(from.notes, kCallback);
  for (const std::shared_ptr<Callback>& one : callbacks) {
    for (std::size_t i = 0; saved.contains(std::to_string(i) + "."); ++i) {
      const std::string place = std::to_string(i) + ".";
      if (saved.at(place) != one->name() || !used.insert(place).second) continue;
      CallbackState state{.numbers = {},
                          .texts = with_prefix(from.notes, kText + place),
                          .arrays = with_prefix(from.arrays, kCallback + place),
                          .of_rank = with_prefix(from.arrays, kOfRank + place)};
      for (const auto& [name, number] : with_prefix(from.arrays, kNumber + place))
        state.numbers[name] = number.to_vector<double>().at(0);
      for (auto& [name, array] : state.of_rank) {
        const NDArray own = part_of(array, rank());
        array = (own.defined() ? own : array[0]).copy();
      }
      set_state(one, state);
      break;
    }
  }
  for (const auto& [place, name] : saved)
    if (!used.contains(place) && has_state_of(from, place))
      write_log("fit: checkpoint '" + options.resume + "' has a state of callback " + name +
                ", and there is none of this name: it is not used");
}

void FitRun::Impl::set_state(const std::shared_ptr<Callback>& callback, const CallbackState& state) {
  if (state.numbers.empty() && state.texts.empty() && state.arrays.empty() && state.of_rank.empty()) return;
  former_states.emplace_back(callback, copy_of(callback->state()));
  try {
    callback->set_state(state);
    with_state.insert(callback.get());
  } catch (const std::out_of_range&) {
    fail(options.resume, "has a state of callback " + callback->name() + " in which something is missing");
  }
}

}  // namespace heddle
