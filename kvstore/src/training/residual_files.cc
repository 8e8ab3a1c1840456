#include "training/residual_files.h"

#include <charconv>
#include <concepts>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include <heddle/array_error.h>
#include <heddle/checkpoint.h>
#include <heddle/safetensors.h>

namespace heddle {
namespace {

constexpr const char *kFormatEntry = "format", *kResidualsFormat = "heddle residuals 1";
constexpr std::string kMark = ".residuals-", kParameters = "parameters";

struct FileName {
  std::int64_t steps = 0;
  int rank = 0, workers = 0;
  bool operator==(const FileName&) const = default;
};

template <std::integral T> bool take(std::string_view& text, T& number) {
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(stopped - text.data()));
  return error == std::errc();
}

bool take(std::string_view& text, std::string_view wanted) {
  const bool good = text.starts_with(wanted);
  if (good) text.remove_prefix(wanted.size());
  return good;
}

// Parses the end of a residual file's name, "STEPS-RANK-of-WORKERS". It may be the name of a temporary file,
// which ends with ".tmp-" and more.
std::optional<FileName> file_name_from(std::string_view text) {
  FileName name;
  const bool good = take(text, name.steps) && take(text, "-") && take(text, name.rank) &&
                    take(text, "-of-") && take(text, name.workers) &&
                    (text.empty() || text.starts_with(".tmp-"));
  return good ? std::optional(name) : std::nullopt;
}

// Whether a worker removes this file: its own, and rank 0 those of ranks that there are no longer.
bool is_for(const FileName& name, const FileName& worker) {
  return name.rank == worker.rank || (worker.rank == 0 && name.rank >= worker.workers);
}

// Counts of steps and workers of the checkpoint at `path`. -1: there is no checkpoint, or it does not have
// the count.
FileName of_checkpoint(const std::string& path) {
  FileName name{.steps = -1, .workers = -1};
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return name;
  try {
    const auto metadata = load_safetensors_metadata(path);
    const auto number = [&](const char* key, auto& value) {
      const auto found = metadata.find(key);
      if (found == metadata.end()) return;
      std::string_view text = found->second;
      take(text, value);
    };
    number(kCheckpointSteps, name.steps);
    number(kCheckpointWorkers, name.workers);
  } catch (const Error&) {  // ignored: the checkpoint is damaged, but it is about to be replaced
  }
  return name;
}

// Calls use(file, name) for each residual file of the checkpoint at `path`, temporary ones too.
template <class Use> void for_residual_files(const std::string& path, Use use) {
  const std::filesystem::path whole(path);
  const std::filesystem::path folder = whole.has_parent_path() ? whole.parent_path() : ".";
  const std::string prefix = whole.filename().string() + kMark;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string text = entries->path().filename().string();
    if (!text.starts_with(prefix)) continue;
    if (const auto name = file_name_from(std::string_view(text).substr(prefix.size())))
      use(entries->path(), *name);
  }
}

// Removes this worker's residual files of other counts of steps, except those of the checkpoint at `path`.
// Rank 0 also removes files of ranks that there are no longer, after the run has continued with fewer
// workers.
void remove_others(const std::string& path, const FileName& mine) {
  const FileName current = of_checkpoint(path);
  std::vector<std::filesystem::path> old;
  for_residual_files(path, [&](const std::filesystem::path& file, const FileName& name) {
    const auto is_of = [&](const FileName& other) {
      return name.steps == other.steps && (other.workers < 0 || name.workers == other.workers);
    };
    if (is_for(name, mine) && !is_of(mine) && !is_of(current)) old.push_back(file);
  });
  std::error_code error;
  for (const auto& one : old) std::filesystem::remove(one, error);
}

std::string names_of(const Trainer& trainer) {
  std::string names;
  for (const Parameter& parameter : trainer.parameters())
    names += (names.empty() ? "" : ", ") + parameter.name;
  return names;
}

}  // namespace

std::string residual_file(const std::string& path, std::int64_t steps, const KVStore& store) {
  return path + kMark + std::to_string(steps) + "-" + std::to_string(store.rank()) + "-of-" +
         std::to_string(store.workers());
}

std::optional<std::string> checkpoint_of_residuals(const std::string& name, int rank) {
  const std::size_t at = name.rfind(kMark);
  if (at == std::string::npos || at == 0) return std::nullopt;
  const std::string_view end = std::string_view(name).substr(at + kMark.size());
  const auto file = file_name_from(end);
  if (!file || end.find(".tmp-") != std::string_view::npos || (rank >= 0 && file->rank != rank))
    return std::nullopt;
  return name.substr(0, at);
}

void remove_residuals(const std::string& path, const KVStore& store) {
  const FileName worker{0, store.rank(), store.workers()};
  std::vector<std::filesystem::path> old;
  for_residual_files(path, [&](const std::filesystem::path& file, const FileName& name) {
    if (is_for(name, worker)) old.push_back(file);
  });
  std::error_code error;
  for (const auto& one : old) std::filesystem::remove(one, error);
}

// Residuals are saved by key. A key is the index of a parameter, so the parameters must be in the same order.
std::map<std::string, NDArray> load_residuals(const std::string& path, std::int64_t steps,
                                              const Trainer& trainer) {
  const KVStore& store = trainer.store();
  const std::string file = residual_file(path, steps, store);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  Safetensors content = load_safetensors(file);
  if (content.metadata[kFormatEntry] != kResidualsFormat)
    throw Error("'" + file + "' has format '" + content.metadata[kFormatEntry] + "', not '" +
                kResidualsFormat + "'");
  const auto saved = content.metadata.find(kParameters);
  if (saved != content.metadata.end() && saved->second != names_of(trainer))
    throw InvalidArgument("it was saved with other parameters, or in another order: " + saved->second +
                          "; now they are " + names_of(trainer));
  return std::move(content.arrays);
}

// If there are no residuals, removes a file of the same count of steps, which a former run may have left.
void save_residuals(const std::string& path, const Trainer& trainer, Where where) {
  const CallSite site(where);
  KVStore& store = trainer.store();
  const std::string file = residual_file(path, trainer.steps(), store);
  // check_residuals() returns when all workers have written their files. If one worker cannot, all workers
  // throw, so that none waits for it for ever.
  store.check_residuals([&] {
    Safetensors content{.arrays = store.residuals(),
                        .metadata = {{kFormatEntry, kResidualsFormat}, {kParameters, names_of(trainer)}}};
    if (content.arrays.empty()) {
      std::error_code error;
      std::filesystem::remove(file, error);
    } else {
      ndarray_detail::in_file_call("save_residuals",
                                   [&] { save_safetensors(file, content, {.checksums = true}); });
    }
    return std::map<std::string, NDArray>();
  });
  remove_others(path, {trainer.steps(), store.rank(), store.workers()});
}

}  // namespace heddle
