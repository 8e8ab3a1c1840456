// engine_bench's ops, pushed on Heddle.
#include <memory>
#include <vector>

#include <heddle/engine.h>

#include "engine_program.h"

namespace heddle::bench {

Runner heddle_runner(const Program& program, Cell* cells, int workers) {
  EngineOptions options = EngineOptions::from_environment();
  options.workers = workers;
  auto engine = std::make_shared<Engine>(options);
  std::vector<Var> vars;
  for (std::uint32_t i = 0; i < program.cells; ++i) vars.push_back(engine->new_var());

  return [&program, cells, engine, vars] {
    const Program* all = &program;
    for (std::uint32_t i = 0; i < all->ops.size(); ++i) {
      const ProgramOp& op = all->ops[i];
      Access access{.mutate = {vars[op.mutate]}};
      for (std::uint32_t read : all->reads(op)) access.read.add(vars[read]);
      engine->push([all, cells, i] { run_op(*all, cells, i); }, access);
    }
    engine->wait_all();
  };
}

}  // namespace heddle::bench
