// Who this process is among those of its job: what launchers say in the environment, in one documented precedence.
#pragma once

#include <functional>
#include <string>

namespace heddle {

// From the first of these that names a rank or a size (docs/launch.md has the table): HEDDLE_RANK, HEDDLE_SIZE
// (`heddle launch`); RANK, WORLD_SIZE (torchrun); OMPI_COMM_WORLD_* (Open MPI); PMI_* (MPICH); SLURM_PROCID,
// SLURM_NTASKS, not in the batch script's own shell; DMLC_*; a Kubernetes StatefulSet's pod name. Otherwise a job of one.
struct LaunchEnvironment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks on this host
  int local_size = 1;
  // Where the ranks find each other: "unix:/path" (one host) or "tcp:host:port", which rank 0 listens on. Empty: size is 1.
  std::string rendezvous;
  std::string source = "alone";  // which of the above it was

  // Throws InvalidArgument naming the variable for what is missing, no number or out of range.
  static LaunchEnvironment from_environment();
  // The same of variables from elsewhere; null: not set. An empty one counts as not set.
  static LaunchEnvironment from(const std::function<const char*(const char* name)>& lookup);
};

}  // namespace heddle
