// The back end mpi is tcp's with other data connections: messages of the system's MPI, over whatever fabric that knows.
// The control connections stay, and with them all that is found out about ranks that die, stand still or call otherwise.
#pragma once

#include <string>

#include "tcp/tcp_transport.h"

namespace heddle::comm_detail {

// Starts MPI, if the program has not. Throws InvalidArgument if this build has none (no_mpi.cc), or MPI wants one thread
// only. What it gives throws CommError if the ranks are not of one MPI job.
Wires mpi_wires();

// What the library calls itself; empty: not in this build.
std::string mpi_library();

}  // namespace heddle::comm_detail
