// The files beside a checkpoint in which each worker has what compression has left out: PATH.residuals-STEPS-RANK-of-WORKERS.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <heddle/trainer.h>

namespace heddle {

// The name under which the metadata of a checkpoint have the count of steps. It says which of these files belong to it.
constexpr const char *kCheckpointSteps = "steps", *kCheckpointWorkers = "workers";

std::string residual_file(const std::string& path, std::int64_t steps, const KVStore& store);

// This worker's for the checkpoint at `path`; empty: there is no such file. Throws Error for one that is damaged,
// InvalidArgument for one of parameters in another order.
std::map<std::string, NDArray> load_residuals(const std::string& path, std::int64_t steps,
                                              const Trainer& trainer);

}  // namespace heddle
