// The cost of running the same ops again and again: a captured graph that is launched, a program whose ops
// are pushed each time, and a oneTBB flow graph that is triggered. The captured graph and the flow graph find
// the dependences between ops once, before the first run.
#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/engine.h>
#include <heddle/graph.h>

#include "engine/engine_workload.h"

namespace heddle::bench {
namespace {

using Runner = std::function<void()>;

// The ops of a training step. For each layer: the output, the gradients of its input and weight, the
// all-reduce of the weight's gradient, and the weight's update.
Program step(std::uint32_t ops) {
  const std::uint32_t layers = ops / 5, width = layers + 1;
  const auto value = [](std::uint32_t layer) { return layer; };
  const auto grad = [&](std::uint32_t layer) { return width + layer; };
  const auto weight = [&](std::uint32_t layer) { return 2 * width + layer; };
  const auto weight_grad = [&](std::uint32_t layer) { return 3 * width + layer; };
  Program program;
  for (std::uint32_t i = 0; i < layers; ++i) program.add(value(i + 1), std::array{value(i), weight(i)});
  for (std::uint32_t i = layers; i-- > 0;) {
    program.add(weight_grad(i), std::array{grad(i + 1), value(i)});
    program.add(weight_grad(i), {});
    program.add(grad(i), std::array{grad(i + 1), weight(i)});
    program.add(weight(i), std::array{weight_grad(i)});
  }
  return program;
}

struct ReplayCase {
  std::string name;
  Program (*make)(std::uint32_t ops);
  std::uint32_t ops, quick_ops;
  int launches;  // how often a measured run executes the program
};

const ReplayCase kReplayCases[] = {
    {"chain_replay", chain, 1'000'000, 200'000, 1},
    {"dag_replay", dag, 250'000, 60'000, 1},
    {"step_replay", step, 200, 200, 1000},
};

Runner replay_runner(const Program& program, Cell* cells, int workers, int launches) {
  EngineOptions options = EngineOptions::from_environment();
  options.workers = workers;
  auto engine = std::make_shared<Engine>(options);
  std::vector<Var> vars;
  for (std::uint32_t i = 0; i < program.cells; ++i) vars.push_back(engine->new_var());
  const Program* all = &program;
  Graph graph = engine->capture([&] {
    for (std::uint32_t i = 0; i < all->ops.size(); ++i) {
      const ProgramOp& op = all->ops[i];
      Access access{.mutate = {vars[op.mutate]}};
      for (std::uint32_t read : all->reads(op)) access.read.add(vars[read]);
      engine->push([all, cells, i] { run_op(*all, cells, i); }, access);
    }
  });
  return [engine, graph, launches] {
    for (int i = 0; i < launches; ++i) graph.launch();
    engine->wait_all();
  };
}

// Pushes all ops of the program `times` times in one session.
Runner peer_runner(const PeerKind& kind, const Program& program, Cell* cells, int workers, int times) {
  std::shared_ptr<Peer> peer = kind.make(program, cells, workers);
  const auto ops = static_cast<std::uint32_t>(program.ops.size());
  return [peer, ops, times] {
    peer->session([&](Session& session) {
      for (int i = 0; i < times; ++i) {
        session.push(0, ops);
        session.wait_all();
      }
    });
  };
}

void run_replay(const ReplayCase& what, const Setting& setting) {
  const Program program = what.make(setting.ops_of(what.ops, what.quick_ops));
  std::vector<Cell> cells(program.cells);
  for (int launch = 0; launch < what.launches; ++launch) {
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) run_op(program, cells.data(), i);
  }
  const std::uint64_t expected = checksum(cells);
  const double all_ops = static_cast<double>(program.ops.size()) * what.launches;
  Case the_case{"engine", what.name, "ns/op", setting.workers, {}};
  const auto add = [&](const std::string& name, const Runner& run) {
    the_case.subjects.push_back({name, [&, name, run] {
                                   for (Cell& cell : cells) cell.value = 0;
                                   const double start = now();
                                   run();
                                   const double seconds = now() - start;
                                   if (checksum(cells) != expected)
                                     throw std::runtime_error(name + " computed something else");
                                   return seconds * 1e9 / all_ops;
                                 }});
  };
  add("heddle", replay_runner(program, cells.data(), setting.workers, what.launches));
  for (const PeerKind& kind : setting.peers) {
    if (kind.name != "heddle" && kind.name != "tbb_flow_graph") continue;
    add(kind.name == "heddle" ? "heddle_push" : kind.name,
        peer_runner(kind, program, cells.data(), setting.workers, what.launches));
  }
  run_case(setting, the_case);
}

}  // namespace

std::vector<Workload> replay_workloads() {
  std::vector<Workload> workloads;
  for (const ReplayCase& what : kReplayCases) {
    workloads.push_back({what.name, [&what](const Setting& setting) { run_replay(what, setting); }});
  }
  return workloads;
}

}  // namespace heddle::bench
