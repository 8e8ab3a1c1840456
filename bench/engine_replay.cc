// A captured graph, launched again and again, beside the same ops pushed anew and a flow graph run again.
#include "engine_replay.h"

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/graph.h>

#include "engine_program.h"
#include "support.h"

namespace heddle::bench {
namespace {

// A training step: a layer's output, its gradients of input and weight, the gradient's all-reduce, the update.
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
  int launches;  // a run
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

Runner again(const Runner& run, int times) {
  return [run, times] {
    for (int i = 0; i < times; ++i) run();
  };
}

void run_case(const ReplayCase& what, std::uint32_t ops, const Options& options) {
  const Program program = what.make(ops);
  std::vector<Cell> cells(program.cells);
  for (int launch = 0; launch < what.launches; ++launch) {
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) run_op(program, cells.data(), i);
  }
  const std::uint64_t expected = checksum(cells);
  const double all_ops = static_cast<double>(program.ops.size()) * what.launches;
  Case the_case{"engine", what.name, "ns/op", {}};
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
  add("heddle", replay_runner(program, cells.data(), options.workers, what.launches));
  add("heddle_push", again(heddle_runner(program, cells.data(), options.workers), what.launches));
  add("tbb_flow_graph", again(flow_graph_runner(program, cells.data(), options.workers), what.launches));
  const std::vector<Result> results = measure(the_case, options);
  print_table(results);
  append_json(results, options);
}

}  // namespace

void run_replay_cases(std::uint32_t ops, const Options& options) {
  for (const ReplayCase& what : kReplayCases) {
    if (what.name.find(options.filter) == std::string::npos) continue;
    run_case(what, ops > 0 ? ops : options.quick ? what.quick_ops : what.ops, options);
  }
}

}  // namespace heddle::bench
