#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/checkpoint.h>
#include <heddle/safetensors.h>

#include "training/checkpoint_content.h"
#include "training/residual_files.h"

namespace heddle {

using ndarray_detail::in_file_call;

namespace {

constexpr std::string kParameter = "parameter.", kTrainer = "trainer.", kArray = "array.";
constexpr std::string kCounter = "counter.", kSeed = "seed.", kPosition = "position.", kNote = "note.";
constexpr const char* kFormatKey = "format";
constexpr const char* kCheckpointFormat = "heddle checkpoint 1";

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw Error("checkpoint '" + path + "' " + problem);
}

using Metadata = std::map<std::string, std::string>;

void check_format(const std::string& path, const Metadata& metadata) {
  auto format = metadata.find(kFormatKey);
  if (format == metadata.end()) fail(path, "is no checkpoint: its metadata have no 'format'");
  if (format->second != kCheckpointFormat)
    fail(path, "has format '" + format->second + "', not '" + kCheckpointFormat + "'");
}

Metadata notes_in(const Metadata& metadata) {
  Metadata notes;
  for (const auto& [name, text] : metadata) {
    if (name.starts_with(kNote)) notes[name.substr(kNote.size())] = text;
  }
  return notes;
}

void check_generators(const char* call, const Checkpoint& checkpoint) {
  for (const auto& [name, generator] : checkpoint.generators) {
    if (!generator) throw InvalidArgument(std::string(call) + ": generator '" + name + "' is null");
  }
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), content_(load_safetensors(path)) {
    check_format(path_, content_.metadata);
  }

  [[noreturn]] void fail(const std::string& problem) const { heddle::fail(path_, problem); }
  const Metadata& metadata() const { return content_.metadata; }

  // All arrays whose names begin with `prefix`, by their names without the prefix.
  std::map<std::string, NDArray> arrays(const std::string& prefix) const {
    std::map<std::string, NDArray> all;
    for (const auto& [name, array] : content_.arrays) {
      if (name.starts_with(prefix)) all[name.substr(prefix.size())] = array;
    }
    return all;
  }

  template <class T> T number(const std::string& name) const {
    auto found = content_.metadata.find(name);
    if (found == content_.metadata.end()) fail("has no '" + name + "'");
    const std::string& text = found->second;
    T value{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail("has '" + text + "' as '" + name + "'");
    return value;
  }

 private:
  std::string path_;
  Safetensors content_;
};

std::map<std::string, NDArray> matching_parameters(const Reader& reader,
                                                   const std::vector<Parameter>& parameters) {
  std::map<std::string, NDArray> saved = reader.arrays(kParameter);
  for (const auto& [name, value] : parameters) {
    if (!value.defined())
      throw InvalidArgument("load_checkpoint: parameter '" + name + "' is an undefined array");
    auto found = saved.find(name);
    if (found == saved.end()) reader.fail("has no parameter '" + name + "': it is of another model");
    const NDArray& other = found->second;
    if (other.shape() == value.shape() && other.dtype() == value.dtype()) continue;
    reader.fail("has parameter '" + name + "' as " + name_of(other.dtype()) + " " +
                other.shape().to_string() + ", the model as " + name_of(value.dtype()) + " " +
                value.shape().to_string());
  }
  if (saved.size() != parameters.size()) {
    reader.fail("has " + std::to_string(saved.size()) + " parameters, the model " +
                std::to_string(parameters.size()));
  }
  return saved;
}

void check_arrays(const Reader& reader, const std::map<std::string, NDArray>& arrays,
                  const std::map<std::string, NDArray>& saved) {
  for (const auto& [name, value] : arrays) {
    if (!saved.contains(name)) reader.fail("has no array '" + name + "'");
  }
}

// Fills arrays of the saved shape and dtype in place, so that a layer which holds the array sees the saved
// values.
void fill_arrays(std::map<std::string, NDArray>& arrays, std::map<std::string, NDArray> saved) {
  for (auto& [name, value] : saved) {
    const auto mine = arrays.find(name);
    if (mine == arrays.end() || !mine->second.defined() || mine->second.shape() != value.shape() ||
        mine->second.dtype() != value.dtype())
      continue;
    mine->second.detach().assign(value);
    value = mine->second;
  }
  arrays = std::move(saved);
}

}  // namespace

Safetensors checkpoint_content(const char* call, const Checkpoint& checkpoint) {
  check_generators(call, checkpoint);
  Safetensors content;
  content.metadata[kFormatKey] = kCheckpointFormat;
  for (const auto& [name, value] : checkpoint.parameters) {
    if (content.arrays.try_emplace(kParameter + name, value).second) continue;
    throw InvalidArgument(std::string(call) + ": two parameters are called '" + name + "'");
  }
  if (checkpoint.trainer) {
    for (const auto& [name, value] : checkpoint.trainer->state()) content.arrays[kTrainer + name] = value;
    content.metadata[kCheckpointSteps] = std::to_string(checkpoint.trainer->steps());
    content.metadata[kCheckpointWorkers] = std::to_string(checkpoint.trainer->store().workers());
  }
  for (const auto& [name, value] : checkpoint.arrays) content.arrays[kArray + name] = value;
  for (const auto& [name, generator] : checkpoint.generators) {
    content.metadata[kSeed + name] = std::to_string(generator->seed());
    content.metadata[kPosition + name] = std::to_string(generator->position());
  }
  for (const auto& [name, value] : checkpoint.counters)
    content.metadata[kCounter + name] = std::to_string(value);
  for (const auto& [name, text] : checkpoint.notes) content.metadata[kNote + name] = text;
  return content;
}

bool is_checkpoint_of_fit(const std::map<std::string, std::string>& metadata) {
  const auto format = metadata.find(kFormatKey);
  return format != metadata.end() && format->second == kCheckpointFormat &&
         metadata.contains(kCounter + "fit.epoch");
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, Where where) {
  const CallSite site(where);
  return in_file_call("save_checkpoint", [&] {
    save_safetensors(path, checkpoint_content("save_checkpoint", checkpoint), {.checksums = true});
  });
}

namespace {

// What a file has for a checkpoint, which has been checked against it.
struct Content {
  std::map<std::string, NDArray> parameters, arrays, trainer, residuals;
  std::map<std::string, Generator> generators;
  std::map<std::string, std::int64_t> counters;
  Metadata metadata;
};

Content read_content(const std::string& path, const Checkpoint& checkpoint) {
  const Reader reader(path);
  Content content{.parameters = matching_parameters(reader, checkpoint.parameters),
                  .arrays = reader.arrays(kArray),
                  .trainer = reader.arrays(kTrainer),
                  .residuals = {},
                  .generators = {},
                  .counters = {},
                  .metadata = reader.metadata()};
  for (const auto& [name, generator] : checkpoint.generators) {
    Generator& loaded =
        content.generators.insert_or_assign(name, Generator(reader.number<std::uint64_t>(kSeed + name)))
            .first->second;
    loaded.set_position(reader.number<std::uint64_t>(kPosition + name));
  }
  for (const auto& [name, value] : checkpoint.counters)
    content.counters[name] = reader.number<std::int64_t>(kCounter + name);
  check_arrays(reader, checkpoint.arrays, content.arrays);
  return content;
}

// The residuals of this worker. If the checkpoint was saved with another number of workers, residual files of this
// number belong to another run that has reached the same count of steps.
std::map<std::string, NDArray> residuals_of(const std::string& path, const Trainer& trainer,
                                            const Content& content) {
  const auto steps = content.trainer.find("steps");
  const auto workers = content.metadata.find(kCheckpointWorkers);
  const bool has_any =
      workers == content.metadata.end() || workers->second == std::to_string(trainer.store().workers());
  if (steps == content.trainer.end() || !has_any) return {};
  return load_residuals(path, steps->second.item<std::int64_t>(), trainer);
}

// Looks at all of a trainer's state that no other worker has to be asked about.
void check_trainer(const std::string& path, const Trainer& trainer,
                   const std::map<std::string, NDArray>& state) {
  try {
    trainer.check_state(state);
  } catch (const InvalidArgument& error) {
    fail(path, "does not fit: " + error.message());
  }
}

// All workers throw if one of them cannot read its checkpoint, or if that does not fit.
Content read_on_all_workers(const std::string& path, const Checkpoint& checkpoint) {
  const Trainer& trainer = *checkpoint.trainer;
  Content content;
  bool has_read = false;
  try {
    trainer.store().check_residuals([&] {
      content = read_content(path, checkpoint);
      check_trainer(path, trainer, content.trainer);
      has_read = true;
      return std::map<std::string, NDArray>();
    });
  } catch (const InvalidArgument& error) {
    if (!has_read) throw;
    const std::string text = error.message(), call = "KVStore::set_residuals: ";  // of another worker
    fail(path, "cannot be loaded: " + (text.starts_with(call) ? text.substr(call.size()) : text));
  }
  return content;
}

// All workers call this function, and all throw if one of them cannot read its files, or they do not fit: else the
// others would wait for it.
Content read_together(const std::string& path, const Checkpoint& checkpoint) {
  Trainer& trainer = *checkpoint.trainer;
  Content content = read_on_all_workers(path, checkpoint);
  try {
    content.residuals = trainer.store().check_residuals([&] { return residuals_of(path, trainer, content); });
  } catch (const InvalidArgument& error) {
    const auto steps = content.trainer.at("steps").item<std::int64_t>();
    const std::string file = residual_file(path, steps, trainer.store());
    fail(path, "does not fit with '" + file + "': " + error.message() +
                   ". Without these files of all workers residuals begin at 0");
  }
  return content;
}

void load(const std::string& path, Checkpoint& checkpoint) {
  check_generators("load_checkpoint", checkpoint);
  Content content = checkpoint.trainer ? read_together(path, checkpoint) : read_content(path, checkpoint);
  if (checkpoint.trainer) {
    // Checks the whole state before parameters are changed. set_state() is called again when they are
    // assigned, since it also assigns the parameters' values to the store.
    try {
      checkpoint.trainer->set_state(content.trainer);
    } catch (const InvalidArgument& error) {
      fail(path, "does not fit: " + error.message());
    }
  }
  for (const auto& [name, value] : checkpoint.parameters) value.detach().assign(content.parameters.at(name));
  if (checkpoint.trainer) {
    checkpoint.trainer->set_state(content.trainer);
    checkpoint.trainer->store().set_residuals(content.residuals);
  }
  for (const auto& [name, generator] : checkpoint.generators) *generator = content.generators.at(name);
  for (auto& [name, value] : checkpoint.counters) value = content.counters.at(name);
  fill_arrays(checkpoint.arrays, std::move(content.arrays));
  checkpoint.notes = notes_in(content.metadata);
}

}  // namespace

void load_checkpoint(const std::string& path, Checkpoint& checkpoint, Where where) {
  const CallSite site(where);
  in_file_call("load_checkpoint", [&] { load(path, checkpoint); });
}

std::map<std::string, std::string> checkpoint_notes(const std::string& path, Where where) {
  const CallSite site(where);
  return in_file_call("checkpoint_notes", [&] {
    const Metadata metadata = load_safetensors_metadata(path);
    check_format(path, metadata);
    return notes_in(metadata);
  });
}

}  // namespace heddle
