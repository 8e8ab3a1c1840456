// engine_bench's ops, pushed on Heddle.
#include <memory>
#include <vector>

#include <heddle/engine.h>

#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

class HeddlePeer : public Peer, Session {
 public:
  HeddlePeer(const Program& program, Cell* cells, int workers)
      : program_(program), cells_(cells), engine_(options(workers)) {
    for (std::uint32_t i = 0; i < program.cells; ++i) vars_.push_back(engine_.new_var());
  }

  void session(const std::function<void(Session&)>& body) override {
    body(*this);
    engine_.wait_all();
  }

 private:
  static EngineOptions options(int workers) {
    EngineOptions options = EngineOptions::from_environment();
    options.workers = workers;
    return options;
  }

  void push(std::uint32_t first, std::uint32_t last) override {
    const Program* program = &program_;
    Cell* cells = cells_;
    for (std::uint32_t i = first; i < last; ++i) {
      const ProgramOp& op = program->ops[i];
      Access access{.mutate = {vars_[op.mutate]}};
      for (std::uint32_t read : program->reads(op)) access.read.add(vars_[read]);
      engine_.push([program, cells, i] { run_op(*program, cells, i); }, access);
    }
  }

  void push_call(void (*call)(void*), void* argument, std::uint32_t cell) override {
    engine_.push([call, argument] { call(argument); }, {.mutate = {vars_[cell]}});
  }

  void wait(std::uint32_t cell) override { engine_.wait(vars_[cell]); }
  void wait_all() override { engine_.wait_all(); }

  const Program& program_;
  Cell* cells_;
  Engine engine_;
  std::vector<Var> vars_;
};

}  // namespace

PeerKind heddle_peer() {
  return {"heddle", Pushing::queues, [](const Program& program, Cell* cells, int workers) {
            return std::make_unique<HeddlePeer>(program, cells, workers);
          }};
}

}  // namespace heddle::bench
