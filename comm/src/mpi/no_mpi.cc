// Replaces mpi_connections.cc in a build without MPI.
#include <heddle/error.h>

#include "mpi/mpi_connections.h"

namespace heddle::comm_detail {

ConnectData mpi_connections() {
  throw InvalidArgument(
      "this build of Heddle has no MPI, which the communication backend 'mpi' needs: install one (Debian: "
      "libopenmpi-dev, openmpi-bin) and build with cmake -DHEDDLE_MPI=ON");
}

std::string mpi_library() { return ""; }

}  // namespace heddle::comm_detail
