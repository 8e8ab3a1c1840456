// metg: METG(50 %), the minimum effective task granularity of Slaughter et al., "Task Bench: A Parameterized Benchmark
// for Evaluating Parallel Runtime Performance", SC 2020. On a stencil as wide as there are workers, it is the smallest
// average task granularity (time x workers / ops) at which at least half of the workers' time is spent in the ops.
#include <cmath>

#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

constexpr double kEnough = 0.5;
// The search range of an op's length, in steps of busy work; a step takes about a nanosecond.
constexpr double kShortest = 8, kLongest = 1 << 16;
constexpr int kHalvings = 7;  // bisection steps; seven give the result to six percent

struct Probe {
  double granularity;  // mean time of an op, in nanoseconds
  // The share of the workers' time that is spent inside ops, 0 to 1. The time inside ops is that of a
  // serial run.
  double efficiency;
};

Probe probe(Peer& peer, Stage& stage, int workers, double steps) {
  const double serial = stage.set_spin(static_cast<std::uint64_t>(steps));
  stage.clear();
  const double start = now();
  peer.session([&](Session& session) {
    session.push(0, stage.ops());
    session.wait_all();
  });
  const double spent = (now() - start) * workers;
  stage.check("a peer in metg");
  return {spent * 1e9 / stage.ops(), serial / spent};
}

// METG(50 %): finds the shortest op length with enough efficiency, by bisection on a logarithmic scale.
double metg(Peer& peer, Stage& stage, int workers) {
  double too_short = kShortest, enough = 1024;
  Probe best = probe(peer, stage, workers, enough);
  while (best.efficiency < kEnough && enough < kLongest) {
    too_short = enough;
    enough *= 4;
    best = probe(peer, stage, workers, enough);
  }
  // Even the longest ops are not efficient enough: the true METG is above the search range.
  if (best.efficiency < kEnough) return best.granularity;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(too_short * enough);
    const Probe tried = probe(peer, stage, workers, middle);
    if (tried.efficiency >= kEnough) {
      enough = middle;
      best = tried;
    } else {
      too_short = middle;
    }
  }
  return best.granularity;
}

void run(const Setting& setting) {
  const auto width = static_cast<std::uint32_t>(setting.workers);
  Stage stage(stencil(setting.ops_of(1000 * width, 250 * width), width));
  run_case(setting,
           {"engine", "metg", "ns", setting.workers, subjects(setting, stage, any_peer, [&](Peer& peer) {
              return metg(peer, stage, setting.workers);
            })});
}

}  // namespace

Workload metg_workload() { return {"metg", run}; }

}  // namespace heddle::bench
