// The parts of examine_host.
#pragma once

#include <vector>

#include <heddle/doctor.h>

namespace heddle::comm_detail {

using Findings = std::vector<Finding>;

void examine_network(Findings& findings);  // the job, names, addresses, ports
void examine_memory(Findings& findings);   // shared memory and limits
void examine_others(Findings& findings);   // cores, other launchers and libraries, GPUs
void examine_gpus(Findings& findings);

}  // namespace heddle::comm_detail
