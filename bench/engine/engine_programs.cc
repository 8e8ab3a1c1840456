// chain, independent, fan, dag and dag10us: nanoseconds per op, from the first push until all are done.
#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

constexpr double kSpinSeconds = 10e-6;

using MakeProgram = Program (*)(std::uint32_t ops);

double nanoseconds_an_op(Peer& peer, std::uint32_t ops) {
  const double start = now();
  peer.session([&](Session& session) {
    session.push(0, ops);
    session.wait_all();
  });
  return (now() - start) * 1e9 / ops;
}

std::vector<Subject> all_subjects(const Setting& setting, Stage& stage) {
  return subjects(setting, stage, any_peer,
                  [&stage](Peer& peer) { return nanoseconds_an_op(peer, stage.ops()); });
}

Workload workload(const std::string& name, MakeProgram make) {
  return {name, [name, make](const Setting& setting) {
            Stage stage(make(setting.ops_of(1'000'000, 20'000)));
            run_case(setting, {"engine", name, "ns/op", setting.workers, all_subjects(setting, stage)});
          }};
}

// The percentage of the workers' time spent inside ops; the serial run gives the time inside ops.
std::vector<Result> efficiencies(const std::vector<Result>& results) {
  const Result& serial = results.back();
  std::vector<Result> shares(results.begin(), results.end() - 1);
  for (Result& share : shares) {
    const auto of = [&](double time) { return 100 * serial.median / (share.workers * time); };
    share = {share.bench,   share.case_name + "_efficiency",
             share.subject, share.workers,
             "%",           of(share.median),
             of(share.max), of(share.min),
             share.runs};
  }
  return shares;
}

void run_dag10us(const Setting& setting) {
  Stage stage(dag(setting.ops_of(20'000, 4'000)));
  stage.set_spin(spin_steps(kSpinSeconds));
  Case the_case{"engine", "dag10us", "ns/op", setting.workers, all_subjects(setting, stage)};
  the_case.subjects.push_back(
      {"unordered", [&] { return stage.run_unordered(setting.workers) * 1e9 / stage.ops(); }});
  the_case.subjects.push_back({"serial", [&] { return stage.run_serially() * 1e9 / stage.ops(); }});
  report(setting, efficiencies(run_case(setting, the_case)));
}

}  // namespace

std::vector<Workload> program_workloads() {
  return {workload("chain", chain),
          workload("independent", independent),
          workload("fan", fan),
          workload("dag", dag),
          {"dag10us", run_dag10us}};
}

}  // namespace heddle::bench
