// Files beside a checkpoint with the workers' residuals of compression: PATH.residuals-STEPS-RANK-of-WORKERS.
#pragma once

#include <cstdint>
#include <map>
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

}  // namespace heddle
