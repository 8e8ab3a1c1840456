// How Slurm writes lists of hosts and of tasks.
#pragma once

#include <string>

namespace heddle::comm_detail {

// "node01" of "node[01-04,7],other"; empty if the list is none.
std::string first_host(const std::string& list);

// 1 for node 3 of "2(x3),1"; 0 if the list is none or too short.
int tasks_of_node(const std::string& list, long node);

}  // namespace heddle::comm_detail
