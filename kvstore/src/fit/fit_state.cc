// Checkpoints of a training: what they hold besides those of a network and a trainer, and how a run is resumed.
//
//   fit.history.NAME          f64 (epochs), the values of each epoch; fit.history.epochs i64
//   fit.generator.NAME        i64 (ranks, 2), seed and position
//   fit.buffer.NAME           (ranks, ...), of several ranks: what forward() changes, such as running statistics
//   fit.values.I              f64 (ranks, ...), within an epoch: EpochValues::state()
//   fit.callback.I.NAME       an array of the callback I; numbers as f64 under fit.number.I.NAME
// and as notes fit.callback.I, the name of each callback, fit.text.I.NAME, and fit.stopped.
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <heddle/random.h>

#include "fit/fit_run.h"
#include "fit/path_pattern.h"
#include "stores/agreement.h"

namespace heddle {

using namespace fit_detail;

namespace {

const std::string kHistory = "fit.history.", kEpochs = "fit.history.epochs", kGenerator = "fit.generator.";
const std::string kValues = "fit.values.", kCallback = "fit.callback.", kNumber = "fit.number.";
const std::string kText = "fit.text.", kStopped = "fit.stopped", kBuffer = "fit.buffer.";

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw Error("fit: checkpoint '" + path + "' " + problem);
}

NDArray numbers(const std::vector<double>& all) {
  return array(all, {static_cast<std::int64_t>(all.size())});
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
    for (const auto& [name, generator] : generators) generators_.emplace_back(generator, *generator);
  }
  void restore(Trainer& trainer) const {
    for (const auto& [array, value] : values_) array.assign(value);
    trainer.set_state(state_);
    for (const auto& [generator, value] : generators_) *generator = value;
  }

 private:
  std::vector<std::pair<NDArray, NDArray>> values_;
  std::map<std::string, NDArray> state_;
  std::vector<std::pair<Generator*, Generator>> generators_;
};

}  // namespace

std::vector<std::pair<std::string, Generator*>> FitRun::Impl::generators() const {
  std::vector<std::pair<std::string, Generator*>> all{{"", &default_generator()}};
  for (const auto& [name, generator] : options.generators) all.emplace_back("." + name, generator);
  return all;
}

std::vector<std::uint64_t> FitRun::Impl::random_positions() const {
  std::vector<std::uint64_t> all;
  for (const auto& [name, generator] : generators()) all.push_back(generator->position());
  return all;
}

// The arrays of all ranks, one below the other.
NDArray FitRun::Impl::of_all_ranks(const NDArray& array) const {
  const std::int64_t count = ranks ? ranks->size() : 1;
  Shape shape{count};
  for (const std::int64_t size : array.shape()) shape.push_back(size);
  const NDArray all(shape, array.dtype());
  if (count == 1) {
    all.assign(array.detach());
  } else {
    ranks->all_gather(array.detach().contiguous(), all);
  }
  return all;
}

void FitRun::Impl::save_generators(Checkpoint& to) const {
  for (const auto& [name, generator] : generators()) {
    const std::vector<std::int64_t> state{static_cast<std::int64_t>(generator->seed()),
                                          static_cast<std::int64_t>(generator->position())};
    to.arrays[kGenerator + name] = of_all_ranks(array(state, {2}));
  }
}

// The arrays of the network that are no parameters of the trainer.
std::vector<Parameter> FitRun::Impl::other_state() const {
  std::set<const Storage*> trained;
  for (const Parameter& one : trainer.parameters()) trained.insert(one.value.storage().get());
  std::vector<Parameter> all;
  for (const Parameter& one : net.state())
    if (!trained.contains(one.value.storage().get())) all.push_back(one);
  return all;
}

void FitRun::Impl::note_versions() {
  for (const Parameter& one : other_state()) versions[one.name] = one.value.storage()->version();
}

// Frozen parameters, which never change, are equal on all ranks.
void FitRun::Impl::save_buffers(Checkpoint& to) const {
  if (!ranks || ranks->size() == 1) return;
  for (const Parameter& one : other_state()) {
    const auto before = versions.find(one.name);
    if (before != versions.end() && before->second == one.value.storage()->version()) continue;
    to.arrays[kBuffer + one.name] = of_all_ranks(one.value);
  }
}

void FitRun::Impl::load_buffers(const Checkpoint& from) const {
  const std::int64_t rank = ranks ? ranks->rank() : 0;
  for (const Parameter& one : other_state()) {
    const auto saved = from.arrays.find(kBuffer + one.name);
    if (saved == from.arrays.end() || saved->second.shape()[0] <= rank) continue;
    one.value.detach().assign(saved->second[rank]);
  }
}

void FitRun::Impl::save_callbacks(Checkpoint& to) const {
  std::size_t index = 0;
  for (const std::shared_ptr<Callback>& one : callbacks) {
    const CallbackState state = one->state();
    const std::string place = std::to_string(index++) + ".";
    to.notes[kCallback + place] = one->name();
    for (const auto& [name, number] : state.numbers) to.arrays[kNumber + place + name] = numbers({number});
    for (const auto& [name, text] : state.texts) to.notes[kText + place + name] = text;
    for (const auto& [name, array] : state.arrays) to.arrays[kCallback + place + name] = array;
  }
}

// All ranks call it, since it gathers what each of them has.
Checkpoint FitRun::Impl::checkpoint() {
  Checkpoint all{.parameters = net.state(),
                 .trainer = &trainer,
                 .counters = {{"fit.epoch", epoch}, {"fit.batch", batch}, {"fit.examples", examples}},
                 .notes = options.notes};
  save_generators(all);
  save_buffers(all);
  together("callbacks", [&] { save_callbacks(all); });
  if (batch > 0) {
    const std::vector<NDArray> state = values.state();
    for (std::size_t i = 0; i < state.size(); ++i)
      all.arrays[kValues + std::to_string(i)] = of_all_ranks(state[i]);
  }
  if (finished) all.notes[kStopped] = stop_reason;
  if (!history.epochs.empty()) {
    all.arrays[kEpochs] = array(history.epochs, {static_cast<std::int64_t>(history.epochs.size())});
    for (const auto& [name, series] : history.values)
      all.arrays[kHistory + "value." + name] = numbers(series);
  }
  return all;
}

// Of several ranks all end in the step of a loss that is not finite, and all if rank 0 cannot write.
void FitRun::Impl::write_saves() {
  if (!saves.empty() && has_others()) limit_pending(0);
  for (const std::string& path : std::exchange(saves, {})) {
    const Checkpoint all = checkpoint();
    if (!trainer.store().residuals().empty()) {
      end_saves();  // the residuals of another count are removed, unless the file at `path` needs them
      save_residuals(path, trainer);
    }
    together("save", [&] {
      if (save_error) std::rethrow_exception(std::exchange(save_error, nullptr));
      if (handle.rank() == 0) writer.save(path, all);
    });
  }
}

void FitRun::Impl::end_saves() {
  together("save", [&] {
    if (save_error) std::rethrow_exception(std::exchange(save_error, nullptr));
    writer.wait();
  });
}

// A callback may call it on one rank alone, whose error then waits for the others.
bool FitRun::Impl::finish_saves() {
  try {
    writer.wait();
  } catch (...) {
    if (!has_others()) throw;
    if (!save_error) save_error = std::current_exception();
  }
  return !save_error;
}

bool FitRun::Impl::exists_on_rank_0(const std::string& path) const {
  std::error_code error;
  std::int32_t answer = std::filesystem::exists(path, error) ? 1 : 0;
  if (error) answer = -error.value();
  if (ranks && ranks->size() > 1) {
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
  if (exists_on_rank_0(path)) return path;
  if (!pattern.has_known_folder())
    throw InvalidArgument("fit: resume is '" + path +
                          "'; a place such as {epoch} may be in the file's name, not in its folder's");
  if (pattern.places() == 0) return "";
  if (pattern.counts().empty())
    throw InvalidArgument("fit: resume is '" + path + "'; want a path, or one with {epoch} or {step}");
  const std::map<std::int64_t, std::string> files = pattern.numbered_files();
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
  if (least >= 0) return files.at(least);
  if (has_any) fail(path, "is on some ranks alone: there is no number of which all have a file");
  return "";
}

void FitRun::Impl::resume() {
  options.resume = path_to_resume();
  if (options.resume.empty()) return;
  Checkpoint all{.parameters = net.state(),
                 .trainer = &trainer,
                 .counters = {{"fit.epoch", 0}, {"fit.batch", 0}, {"fit.examples", 0}}};
  if (trainer.store().workers() > 1 && !ranks) return load(all);  // servers have the state
  const Former former(net, trainer, generators());
  try {
    load(all);
  } catch (...) {
    former.restore(trainer);
    throw;
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
  const int rank = ranks ? ranks->rank() : 0;
  for (const auto& [name, generator] : generators()) {
    const auto saved = from.arrays.find(kGenerator + name);
    if (saved == from.arrays.end())
      fail(options.resume, "has no generator '" + (name.empty() ? name : name.substr(1)) + "'");
    const std::vector<std::int64_t> all = saved->second.to_vector<std::int64_t>();
    const bool is_known = all.size() >= 2 * static_cast<std::size_t>(rank + 1);
    const std::size_t at = is_known ? 2 * static_cast<std::size_t>(rank) : 0;
    Generator loaded(static_cast<std::uint64_t>(all.at(at)));
    loaded.set_position(static_cast<std::uint64_t>(all.at(at + 1)));
    *generator = is_known ? loaded : loaded.jumped(rank);
  }
}

void FitRun::Impl::load_values(const Checkpoint& from) {
  const std::int64_t rank = ranks ? ranks->rank() : 0, count = ranks ? ranks->size() : 1;
  std::vector<NDArray> state;
  for (std::size_t i = 0; from.arrays.contains(kValues + std::to_string(i)); ++i) {
    const NDArray& saved = from.arrays.at(kValues + std::to_string(i));
    if (saved.shape()[0] != count)
      fail(options.resume, "was saved within an epoch by " + std::to_string(saved.shape()[0]) +
                               " ranks, and there are " + std::to_string(count) +
                               "; between epochs the number of ranks may change");
    state.push_back(saved[rank]);
  }
  if (state.size() != values.state_size())
    fail(options.resume, "was saved within an epoch with " + std::to_string(state.size()) +
                             " losses and metrics, and there are " + std::to_string(values.state_size()));
  values.set_state(state);
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
                          .arrays = with_prefix(from.arrays, kCallback + place)};
      for (const auto& [name, number] : with_prefix(from.arrays, kNumber + place))
        state.numbers[name] = number.to_vector<double>().at(0);
      if (state.numbers.empty() && state.texts.empty() && state.arrays.empty()) break;
      try {
        one->set_state(state);
      } catch (const std::out_of_range&) {
        fail(options.resume, "has a state of callback " + one->name() + " in which something is missing");
      }
      break;
    }
  }
}

}  // namespace heddle
