// The back end 'mpi'.
#include <utility>

#include "core/backend_table.h"
#include "mpi/mpi_connections.h"
#include "tcp/tcp_backend.h"

namespace heddle::comm_detail {
namespace {

std::unique_ptr<Backend> make_mpi_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  TcpOptions tcp;
  tcp.name = "mpi";
  tcp.connect_data = mpi_connections();
  return std::make_unique<TcpBackend>(connect_tcp(rendezvous, options, std::move(tcp)), options);
}

}  // namespace

HEDDLE_BACKENDS(mpi) {
  table.add({.name = "mpi", .make = make_mpi_backend, .library = mpi_library, .option = "HEDDLE_MPI"});
}

}  // namespace heddle::comm_detail
