// Parses Slurm's lists of hosts and of tasks.
#pragma once

#include <string>

namespace heddle::comm_detail {

// The first host of a list, "node01" for "node[01-04,7],other"; empty if `list` is invalid.
std::string first_host(const std::string& list);

// The number of tasks on node number `node`, counted from 0: 1 for node 3 of "2(x3),1". 0 if `list` is
// invalid or too short.
int tasks_of_node(const std::string& list, long node);

}  // namespace heddle::comm_detail
