// The rank of this process in its job, read from the environment variables that launchers set.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace heddle {

// A process's place in its job. It is read from the variables of the first of these launchers that sets a
// rank or a size (docs/launch.md has the table): HEDDLE_RANK, HEDDLE_SIZE (`heddle launch`); RANK, WORLD_SIZE
// (torchrun); OMPI_COMM_WORLD_* (Open MPI); PMI_* (MPICH); SLURM_PROCID, SLURM_NTASKS, but not in the batch
// script's own shell; DMLC_*; a Kubernetes pod's name. If none does, it is a job of one rank.
struct LaunchEnvironment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // this rank's number among the ranks on its host
  int local_size = 1;
  // The address at which rank 0 listens for the others: "unix:/path" (one host) or "tcp:host:port". Empty if size is 1.
  std::string rendezvous;
  std::string source = "alone";  // the launcher whose variables were used

  // Reads the environment variables of this process. Throws InvalidArgument naming a variable that is
  // missing, no number or out of range.
  static LaunchEnvironment from_environment();
  // Like from_environment(), but some variables can be replaced: a text that `instead` returns for a name is
  // the variable's value (an empty text: the variable is not set); null: the environment has the value.
  static LaunchEnvironment from_environment(const std::function<const char*(std::string_view name)>& instead);
  // Like from_environment(), but reads all variables from `lookup`; null or an empty text: the variable is
  // not set.
  static LaunchEnvironment from(const std::function<const char*(const char* name)>& lookup);
};

}  // namespace heddle
