// The data connections of the back end 'mpi', which is 'tcp' otherwise: they use the system's MPI and the networks that
// it supports. Failures and mismatches are detected over tcp's control connections.
#pragma once

#include <string>

#include "tcp/tcp_transport.h"

namespace heddle::comm_detail {

// Initialises MPI if the program has not. Throws InvalidArgument if this build has no MPI (no_mpi.cc), or MPI does not
// support several threads. The function that it returns throws CommError if the ranks are not in one MPI_COMM_WORLD.
ConnectData mpi_connections();

// The name and version of the MPI library; empty: this build has none.
std::string mpi_library();

}  // namespace heddle::comm_detail
