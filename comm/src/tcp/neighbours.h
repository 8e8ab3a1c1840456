// Connects ranks that share a host, in a job of several hosts, through shared memory instead of sockets.
#pragma once

#include <string>
#include <vector>

#include "tcp/mesh.h"

namespace heddle::comm_detail {

// Collective. Returns the number of each rank's host; hosts are numbered in the order of their first ranks.
// In a job of several hosts, ranks of `mesh` that share memory get a ring buffer as their data connection.
// Ranks that pass different names count as being on different hosts.
std::vector<int> connect_neighbours(Rendezvous& rendezvous, Mesh& mesh, const std::string& name);

}  // namespace heddle::comm_detail
