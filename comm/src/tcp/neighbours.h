// Ranks of one host among ranks of several: they talk through memory instead of their sockets.
#pragma once

#include <string>
#include <vector>

#include "tcp/mesh.h"

namespace heddle::comm_detail {

// Collective. By rank, the number of its host; hosts are counted in the order of their first ranks. Where two ranks of
// `mesh` share one of several hosts, and its memory, a ring takes the place of their data connection. `name` tells
// hosts apart beside what the system says; ranks that say different ones share nothing.
std::vector<int> meet_neighbours(Rendezvous& rendezvous, Mesh& mesh, const std::string& name);

}  // namespace heddle::comm_detail
