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
  std::map<std::string, std::int64_t> counters{};  // epoch, step and the like
  std::map<std::string, NDArray> arrays{};         // anything else; loading replaces these whole
  std::map<std::string, std::string> notes{};      // settings of the run and the like; replaced whole too
};

// Blocks until all arrays are there. Atomic, as save_safetensors is. Throws Error, and InvalidArgument if two
// parameters have one name.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, Where where = Where::current());

// Blocks. Throws Error naming the file and what does not fit, or the array whose checksum is not that of its saving,
// before anything is changed. A file without checksums, of earlier versions, is loaded too. Parameters, generators
// and counters must be those that were saved, shapes and dtypes too.
void load_checkpoint(const std::string& path, Checkpoint& checkpoint, Where where = Where::current());

// The notes of a checkpoint: what one must know to build the model that load_checkpoint fills.
// Needs no engine.
std::map<std::string, std::string> checkpoint_notes(const std::string& path);

}  // namespace heddle
