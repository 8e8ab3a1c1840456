// pushwait: pushes one op and waits for it, repeatedly. OpenMP uses taskwait inside a parallel region.
#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

double iteration_time(Peer& peer, std::uint32_t ops) {
  double seconds = 0;
  peer.session([&](Session& session) {
    const double start = now();
    for (std::uint32_t i = 0; i < ops; ++i) {
      session.push(i, i + 1);
      session.wait(0);
    }
    seconds = now() - start;
  });
  return seconds * 1e9 / ops;
}

void run(const Setting& setting) {
  Stage stage(chain(setting.ops_of(20'000, 1'000)));
  run_case(setting, {"engine", "pushwait", "ns", setting.workers,
                     subjects(setting, stage, pushing_peer,
                              [&](Peer& peer) { return iteration_time(peer, stage.ops()); })});
}

}  // namespace

Workload pushwait_workload() { return {"pushwait", run}; }

}  // namespace heddle::bench
