// The programs of engine_programs.cc, captured once and launched in each run: what an op costs whose dependences are known.
#include "engine_workload.h"

namespace heddle::bench {

// One workload NAME_replay for each program. The flow graph is the peer: it too is built before the first run.
std::vector<Workload> replay_workloads() { return {}; }

}  // namespace heddle::bench
