// Files beside a checkpoint with the workers' residuals of compression: PATH.residuals-STEPS-RANK-of-WORKERS.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <heddle/trainer.h>

namespace heddle {

// Names of metadata of a checkpoint: its counts of steps and workers, which say which residual files belong
// to it.
constexpr const char *kCheckpointSteps = "steps", *kCheckpointWorkers = "workers";

std::string residual_file(const std::string& path, std::int64_t steps, const KVStore& store);

// Loads this worker's residuals for the checkpoint at `path`; empty: there is no file. Throws Error if the
// file is damaged, and InvalidArgument if it is for other parameters, or for another order of parameters.
std::map<std::string, NDArray> load_residuals(const std::string& path, std::int64_t steps,
                                              const Trainer& trainer);

// The name of the checkpoint beside which a file of this name has residuals of a rank; -1: of any. nullopt: the name is
// another one. Temporary files are none.
std::optional<std::string> checkpoint_of_residuals(const std::string& name, int rank);

// Removes residual files of the checkpoint at `path`, which is gone, of all counts of steps: those of this rank, and on
// rank 0 also those of ranks that there are no longer. Errors are ignored.
void remove_residuals(const std::string& path, const KVStore& store);

}  // namespace heddle
