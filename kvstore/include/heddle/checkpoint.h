// Checkpoints: everything that a training run needs to go on as if it had never stopped, in one safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <heddle/layers.h>
#include <heddle/random.h>
#include <heddle/trainer.h>

namespace heddle {

// What is saved, and what loading fills in. Names are the caller's; loading wants the same ones.
struct Checkpoint {
  std::vector<Parameter> parameters{};             // filled in place
  Trainer* trainer = nullptr;                      // its optimizer's state and count of steps; may be null
  std::map<std::string, Generator*> generators{};  // seeds and positions
  std::map<std::string, std::int64_t> counters{};  // epoch, step and the like; filled in place
  // Anything else, such as a layer's running statistics. An array of the saved shape and dtype is filled in place, another
  // one or an undefined one is replaced by what was saved, and what was saved besides is added.
  std::map<std::string, NDArray> arrays{};
  std::map<std::string, std::string> notes{};  // settings of the run and the like; replaced whole
};

// Blocks until all arrays are there. Atomic, as save_safetensors is. Throws Error, and InvalidArgument if two
// parameters have one name or a generator is null.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, Where where = Where::current());

// Blocks. Throws Error naming the file and what does not fit, or the array whose checksum is not that of its saving,
// before anything is changed. A file without checksums, of earlier versions, is loaded too. Parameters, generators
// and counters must be those that were saved, in any order, with their shapes and dtypes; arrays must be in the file. With a
// trainer of several ranks, all of them load.
void load_checkpoint(const std::string& path, Checkpoint& checkpoint, Where where = Where::current());

// What compression has left out of pushes (KVStore::residuals), which each worker has for itself: a file of its own beside
// `path`, of this count of steps. All workers call it at the same count, and then one of them save_checkpoint to `path`:
// load_checkpoint takes the file of its worker, or residuals of 0 where there is none. Blocks until all have written;
// removes those of other counts, but for that of the checkpoint that is at `path`. Throws Error, and what residuals() does.
void save_residuals(const std::string& path, const Trainer& trainer, Where where = Where::current());

// The notes of a checkpoint: what one must know to build the model that load_checkpoint fills.
// Needs no engine.
std::map<std::string, std::string> checkpoint_notes(const std::string& path, Where where = Where::current());

}  // namespace heddle
