// A checkpoint has everything that a training run needs to go on as if it had never stopped, in one file of
// the format safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <heddle/layers.h>
#include <heddle/random.h>
#include <heddle/trainer.h>

namespace heddle {

// The contents of a checkpoint, to save or to load. The caller chooses the names of the entries. An entry is
// loaded under the name that it was saved under.
struct Checkpoint {
  std::vector<Parameter> parameters{};  // loading overwrites the values in place
  Trainer* trainer = nullptr;  // its optimizer state and count of steps are saved and loaded; may be null
  std::map<std::string, Generator*> generators{};  // each generator's seed and position are saved and loaded
  std::map<std::string, std::int64_t> counters{};  // epoch, step and the like; loading overwrites them
  // Arrays that are no parameters, such as a layer's running statistics. Loading fills an array of the saved
  // shape and dtype in place, replaces an array that is undefined or has another shape or dtype, and adds
  // saved arrays that the map lacks.
  std::map<std::string, NDArray> arrays{};
  std::map<std::string, std::string> notes{};  // settings of the run and the like; loading replaces the map
};

// Blocks until all arrays are computed. The file is replaced atomically, as by save_safetensors. Throws
// Error, and InvalidArgument if two parameters have the same name or a generator is null.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, Where where = Where::current());

// Blocks. Throws Error before anything is changed: it names the file and the mismatch, or the array with a
// wrong checksum. A file of an earlier version, without checksums, is loaded too. Parameters, generators and
// counters must be those that were saved, in any order, with the same shapes and dtypes; each entry of
// `arrays` must be in the file. With a trainer of several ranks, all ranks call it.
void load_checkpoint(const std::string& path, Checkpoint& checkpoint, Where where = Where::current());

// Saves this worker's residuals of compressed pushes (KVStore::residuals) to a file of its own beside `path`,
// named after the count of steps. All workers call it at the same count, then one of them calls
// save_checkpoint with `path`; load_checkpoint reads the file of its worker, or uses residuals of 0 if there
// is none. Blocks until all workers have written. Removes residual files of other counts, except those of the
// checkpoint that is at `path`. Throws Error, and what residuals() throws.
void save_residuals(const std::string& path, const Trainer& trainer, Where where = Where::current());

// Reads the notes of a checkpoint, for example to build the model before load_checkpoint fills it. Needs no
// engine.
std::map<std::string, std::string> checkpoint_notes(const std::string& path, Where where = Where::current());

}  // namespace heddle
