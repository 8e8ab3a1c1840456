// Checkpoints of a training: how they are saved.
#include <cstring>
#include <map>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/module_buffers.h>
#include <heddle/random.h>

#include "fit/fit_run.h"
#include "fit/state_names.h"
#include "stores/agreement.h"

namespace heddle {

using namespace fit_detail;

namespace {

using NamedArrays = std::map<std::string, NDArray>;

NDArray numbers(const std::vector<double>& all) {
  return array(all, {static_cast<std::int64_t>(all.size())});
}

std::size_t bytes_of(const NDArray& array) {
  return static_cast<std::size_t>(array.size()) * size_of(array.dtype());
}

// "b f32 (3), a i64 (2, 2)": ranks whose texts are equal can gather what they have.
std::string text_of(const NamedArrays& all) {
  std::string text;
  for (const auto& [name, array] : all)
    text +=
        (text.empty() ? "" : ", ") + name + " " + name_of(array.dtype()) + " " + array.shape().to_string();
  return text;
}

// The bytes of all arrays, one behind the other.
NDArray packed(const std::vector<NDArray>& all) {
  std::int64_t size = 0;
  for (const NDArray& one : all) size += static_cast<std::int64_t>(bytes_of(one));
  const NDArray bytes({size}, DType::u8);
  bytes.engine().push(
      [all, bytes] {
        auto* to = bytes.data<std::byte>();
        for (const NDArray& one : all) {
          std::memcpy(to, one.data<const std::byte>(), bytes_of(one));
          to += bytes_of(one);
        }
      },
      array_access("fit_pack", all, std::span(&bytes, 1)), CallSite::current());
  return bytes;
}

// The opposite of packed() for the bytes of several ranks: arrays of axes (ranks, ...).
void unpack(const NDArray& bytes, std::int64_t ranks, const std::vector<NDArray>& all) {
  bytes.engine().push(
      [bytes, ranks, all] {
        const auto* from = bytes.data<const std::byte>();
        for (std::int64_t rank = 0; rank < ranks; ++rank)
          for (const NDArray& one : all) {
            const std::size_t size = bytes_of(one) / static_cast<std::size_t>(ranks);
            std::memcpy(one.data<std::byte>() + static_cast<std::size_t>(rank) * size, from, size);
            from += size;
          }
      },
      array_access("fit_unpack", std::span(&bytes, 1), all), CallSite::current());
}

// Under each name the arrays of all ranks, one below the other: one collective, however many they are.
NamedArrays of_all_ranks(const NamedArrays& own, Communicator* ranks) {
  const std::int64_t count = ranks ? ranks->size() : 1;
  NamedArrays all;
  std::vector<NDArray> from, to;
  for (const auto& [name, array] : own) {
    Shape shape{count};
    for (const std::int64_t size : array.shape()) shape.push_back(size);
    const NDArray whole = all[name] = NDArray(shape, array.dtype());
    if (array.size() == 0) continue;
    const NDArray value = array.detach();
    from.push_back((value.device() == cpu() ? value : value.copy_to(cpu())).contiguous());
    to.push_back(whole);
  }
  if (from.empty()) return all;
  NDArray bytes = packed(from);
  if (count > 1) {
    const NDArray gathered({count * bytes.size()}, DType::u8);
    ranks->all_gather(bytes, gathered);
    bytes = gathered;
  }
  unpack(bytes, count, to);
  return all;
}

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

// What each rank has its own of, but for callbacks.
std::map<std::string, NDArray> FitRun::Impl::own_arrays() const {
  NamedArrays own;
  for (const auto& [name, generator] : generators()) {
    const std::vector<std::int64_t> state{static_cast<std::int64_t>(generator->seed()),
                                          static_cast<std::int64_t>(generator->position())};
    own[kGenerator + name] = array(state, {2});
  }
  if (has_others())
    for (const Parameter& one : buffers_of(net)) own[kBuffer + one.name] = one.value;
  if (batch == 0) return own;
  const std::vector<NDArray> state = values.state();
  for (std::size_t i = 0; i < state.size(); ++i) own[kValues + std::to_string(i)] = state[i];
  return own;
}

void FitRun::Impl::save_callbacks(Checkpoint& to, std::map<std::string, NDArray>& own) const {
  std::size_t index = 0;
  for (const std::shared_ptr<Callback>& one : callbacks) {
    const CallbackState state = one->state();
    const std::string place = std::to_string(index++) + ".";
    to.notes[kCallback + place] = one->name();
    for (const auto& [name, number] : state.numbers) to.arrays[kNumber + place + name] = numbers({number});
    for (const auto& [name, text] : state.texts) to.notes[kText + place + name] = text;
    for (const auto& [name, array] : state.arrays)
      if (array.defined()) to.arrays[kCallback + place + name] = array;
    for (const auto& [name, array] : state.of_rank)
      if (array.defined()) own[kOfRank + place + name] = array;
  }
}

// All ranks call it, since it gathers what each of them has.
Checkpoint FitRun::Impl::checkpoint() {
  Checkpoint all{.parameters = net.state(),
                 .trainer = &trainer,
                 .counters = {{"fit.epoch", epoch}, {"fit.batch", batch}, {"fit.examples", examples}},
                 .notes = options.notes};
  NamedArrays own;
  const auto save = [&] {
    own = own_arrays();
    save_callbacks(all, own);
    return text_of(own);
  };
  has_others() ? agree(*ranks, "fit", "arrays for a checkpoint", save) : void(save());
  all.arrays.merge(of_all_ranks(own, ranks.get()));
  for (const auto& [name, value] : settings) all.notes[kSetting + name] = value;
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
  if (!saves.empty()) use_late_values(true);  // a callback may keep what it makes of them in its state
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

}  // namespace heddle
