// memory: bytes of memory per op, for many ops with one var that are queued behind a blocked op. memory4: the
// same for ops with five vars. memory_kept, memory4_kept: bytes per op that the process still holds 100 ms
// after all ops are done. Each run is a new process, since memory freed by an earlier run would hide growth.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "engine/engine_workload.h"
#include "support/peer_process.h"

namespace heddle::bench {

namespace {

using namespace std::chrono_literals;

constexpr int kMostRuns = 3;
// Ops that run before the first reading of memory, so that stacks and tables already exist.
constexpr std::uint32_t kWarmUp = 1000;

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  if (!(file >> total >> resident)) throw std::runtime_error("cannot read /proc/self/statm");
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Memory {
  double queued, kept;  // bytes of memory per op: while all are queued, and after all are done
};

Memory measure_memory(Peer& peer, std::uint32_t ops) {
  double before = 0, queued = 0, kept = 0;
  peer.session([&](Session& session) {
    session.push(0, kWarmUp);
    session.wait_all();
    Gate gate;
    before = resident_bytes();
    session.push_call(Gate::pass, &gate, 0);
    session.push(kWarmUp, ops);
    queued = resident_bytes();
    gate.open();
    session.wait_all();
    std::this_thread::sleep_for(100ms);
    kept = resident_bytes();
  });
  const double count = ops - kWarmUp;
  return {(queued - before) / count, (kept - before) / count};
}

Memory ask_child(const Setting& setting, const std::string& subject, std::uint32_t beside) {
  std::vector<std::string> command{"/proc/self/exe",
                                   "--memory-of",
                                   subject,
                                   "--vars-beside",
                                   std::to_string(beside),
                                   "--workers",
                                   std::to_string(setting.workers),
                                   "--ops",
                                   std::to_string(std::max(setting.ops_of(1'000'000, 50'000), 2 * kWarmUp))};
  if (!setting.mxnet.empty()) command.insert(command.end(), {"--mxnet", setting.mxnet});
  std::istringstream answer(PeerProcess(command, {}).ask("go"));
  Memory memory{};
  if (!(answer >> memory.queued >> memory.kept)) throw std::runtime_error(subject + " said: " + answer.str());
  return memory;
}

void run_beside(const Setting& setting, const std::string& name, std::uint32_t beside) {
  Case queued{"engine", name, "B/op", setting.workers, {}},
      kept{"engine", name + "_kept", "B/op", setting.workers, {}};
  for (const PeerKind& kind : setting.peers) {
    if (!queueing_peer(kind)) continue;
    // Each child process measures `queued` and `kept` together. The case `kept` runs after the case `queued`
    // and reads what its runs have stored.
    auto measured = std::make_shared<std::vector<Memory>>();
    auto read = std::make_shared<std::size_t>(0);
    queued.subjects.push_back({kind.name, [&setting, beside, measured, name = kind.name] {
                                 measured->push_back(ask_child(setting, name, beside));
                                 return measured->back().queued;
                               }});
    kept.subjects.push_back({kind.name, [measured, read] { return measured->at((*read)++).kept; }});
  }
  run_case(setting, queued);
  run_case(setting, kept);
}

void run(Setting setting) {
  setting.options.runs = setting.options.quick ? 1 : std::min(setting.options.runs, kMostRuns);
  run_beside(setting, "memory", 0);
  run_beside(setting, "memory4", 4);
}

}  // namespace

Workload memory_workload() { return {"memory", run}; }

void run_memory_child(const Setting& setting, const std::string& subject, std::uint32_t beside) {
  std::string line;
  std::getline(std::cin, line);
  Stage stage(chain_beside(setting.ops, beside));
  for (const PeerKind& kind : setting.peers) {
    if (kind.name != subject) continue;
    const auto peer = kind.make(stage.program(), stage.cells(), setting.workers);
    const Memory memory = measure_memory(*peer, setting.ops);
    stage.check(subject);
    std::printf("%.1f %.1f\n", memory.queued, memory.kept);
  }
}

}  // namespace heddle::bench
