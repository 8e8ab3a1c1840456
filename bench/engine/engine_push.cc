// push, push1 .. push4: nanoseconds of the pushing thread per op, for ops with one var, and with 1 to 4 more.
// The ops queue behind a blocked op, so that workers do nothing meanwhile. push_a_var: the cost of each
// additional var.
#include <string>

#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

constexpr std::uint32_t kMostBeside = 4;

double push_time(Peer& peer, std::uint32_t ops) {
  double seconds = 0;
  peer.session([&](Session& session) {
    Gate gate;
    session.push_call(Gate::pass, &gate, 0);
    gate.wait_for_op();
    const double start = now();
    session.push(0, ops);
    seconds = now() - start;
    gate.open();
    session.wait_all();
  });
  return seconds * 1e9 / ops;
}

std::vector<Result> run_beside(const Setting& setting, std::uint32_t beside) {
  Stage stage(chain_beside(setting.ops_of(1'000'000, 20'000), beside));
  const std::string name = beside == 0 ? "push" : "push" + std::to_string(beside);
  return run_case(setting, {"engine", name, "ns/op", setting.workers,
                            subjects(setting, stage, queueing_peer,
                                     [&](Peer& peer) { return push_time(peer, stage.ops()); })});
}

// The least-squares slope of the medians over 0 .. kMostBeside additional vars.
Result slope(const std::vector<std::vector<Result>>& by_vars, std::size_t subject) {
  const double middle = kMostBeside / 2.0;
  double products = 0, squares = 0;
  for (std::size_t vars = 0; vars < by_vars.size(); ++vars) {
    const double distance = static_cast<double>(vars) - middle;
    squares += distance * distance;
    products += distance * by_vars[vars][subject].median;
  }
  Result result = by_vars[0][subject];
  result.case_name = "push_a_var";
  result.unit = "ns/var";
  result.median = result.min = result.max = products / squares;
  return result;
}

void run(const Setting& setting) {
  std::vector<std::vector<Result>> by_vars;
  for (std::uint32_t beside = 0; beside <= kMostBeside; ++beside) {
    by_vars.push_back(run_beside(setting, beside));
  }
  std::vector<Result> slopes;
  for (std::size_t subject = 0; subject < by_vars[0].size(); ++subject)
    slopes.push_back(slope(by_vars, subject));
  report(setting, slopes);
}

}  // namespace

Workload push_workload() { return {"push", run}; }

}  // namespace heddle::bench
