// wakeup: time from the push of an op until it starts, on an engine that was idle for ten milliseconds. The
// pushing thread spins before and after the push, so that only a worker's wake-up is measured. wakeup_spin:
// the same with workers that spin (HEDDLE_SPIN) for longer than the engine is idle. The difference is
// clearest with one worker and two idle cores: taskset -c 0,1 engine_bench --filter wakeup --workers 1
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

using namespace std::chrono_literals;

class Stamp {
 public:
  static void set(void* stamp) {
    auto& self = *static_cast<Stamp*>(stamp);
    self.time_ = now();
    self.is_set_.store(true, std::memory_order_release);
  }
  double get() const {
    while (!is_set_.load(std::memory_order_acquire)) {
    }
    return time_;
  }

 private:
  double time_ = 0;
  std::atomic<bool> is_set_{false};
};

void spin_for(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
  }
}

double median_wakeup(Peer& peer, const Stage& stage, int tries) {
  std::vector<double> times;
  peer.session([&](Session& session) {
    session.push(0, stage.ops());
    session.wait_all();
    for (int i = 0; i < tries; ++i) {
      spin_for(10ms);
      Stamp stamp;
      const double start = now();
      session.push_call(Stamp::set, &stamp, 0);
      times.push_back((stamp.get() - start) * 1e9);
      session.wait_all();
    }
  });
  std::nth_element(times.begin(), times.begin() + tries / 2, times.end());
  return times[static_cast<std::size_t>(tries / 2)];
}

// Heddle's engine reads HEDDLE_SPIN from the environment when it is created.
std::vector<Subject> spinning(const Setting& setting, Stage& stage, int tries) {
  setenv("HEDDLE_SPIN", "1", 1);
  const auto is_heddle = [](const PeerKind& kind) { return kind.name == "heddle"; };
  std::vector<Subject> all = subjects(
      setting, stage, is_heddle, [&stage, tries](Peer& peer) { return median_wakeup(peer, stage, tries); });
  unsetenv("HEDDLE_SPIN");
  return all;
}

void run(const Setting& setting) {
  const int tries = setting.options.quick ? 3 : 21;
  Stage stage(chain(1000));
  // A peer whose only worker is the pushing thread is left out: there is no other thread to wake up.
  const auto fits = [&](const PeerKind& kind) {
    return queueing_peer(kind) || (pushing_peer(kind) && setting.workers > 1);
  };
  run_case(setting,
           {"engine", "wakeup", "ns", setting.workers,
            subjects(setting, stage, fits, [&](Peer& peer) { return median_wakeup(peer, stage, tries); })});
  run_case(setting, {"engine", "wakeup_spin", "ns", setting.workers, spinning(setting, stage, tries)});
}

}  // namespace

Workload wakeup_workload() { return {"wakeup", run}; }

}  // namespace heddle::bench
