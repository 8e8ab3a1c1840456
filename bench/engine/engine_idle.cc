// idle: CPU use of an engine that has worked and now waits for more.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

using namespace std::chrono_literals;

constexpr int kMostRuns = 3;

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double percent_of_a_core(Peer& peer, std::uint32_t ops, std::chrono::milliseconds pause) {
  double percent = 0;
  peer.session([&](Session& session) {
    session.push(0, ops);
    session.wait_all();
    std::this_thread::sleep_for(50ms);  // workers still spin for a while after work: not counted as idle
    const double used = processor_seconds(), start = now();
    std::this_thread::sleep_for(pause);
    percent = 100 * (processor_seconds() - used) / (now() - start);
  });
  return percent;
}

void run(Setting setting) {
  const auto pause = setting.options.quick ? 200ms : 2000ms;
  setting.options.runs = std::min(setting.options.runs, kMostRuns);
  Stage stage(independent(10'000));
  run_case(setting,
           {"engine", "idle", "%", setting.workers, subjects(setting, stage, pushing_peer, [&](Peer& peer) {
              return percent_of_a_core(peer, stage.ops(), pause);
            })});
}

}  // namespace

Workload idle_workload() { return {"idle", run}; }

}  // namespace heddle::bench
