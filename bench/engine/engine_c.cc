// engine_bench's ops, pushed on Heddle through the C ABI of libheddle_engine.so.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/c/engine.h>

#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

void check(heddle_status status) {
  if (status == HEDDLE_OK) return;
  const char* name = "";
  heddle_status_name(status, &name);
  throw std::runtime_error(std::string("heddle_c: ") + name);
}

template <class Argument> heddle_status run_argument(void* ctx, const heddle_run*, heddle_error**) {
  static_cast<const Argument*>(ctx)->run();
  return HEDDLE_OK;
}

void delete_call(void* ctx) { delete static_cast<Call*>(ctx); }

class CPeer : public Peer, Session {
 public:
  CPeer(const Program& program, Cell* cells, int workers)
      : program_(program), arguments_(op_arguments(program, cells)), vars_(program.cells) {
    heddle_engine_options options{};
    options.struct_size = sizeof options;
    check(heddle_engine_options_from_environment(&options, nullptr));
    options.workers = workers;
    check(heddle_engine_create(&options, &engine_, nullptr));
    for (heddle_var*& var : vars_) check(heddle_var_create(engine_, &var, nullptr));
  }
  ~CPeer() override {
    for (heddle_var* var : vars_) heddle_var_destroy(var);
    heddle_engine_destroy(engine_, nullptr);
  }
  CPeer(const CPeer&) = delete;
  CPeer& operator=(const CPeer&) = delete;

  void session(const std::function<void(Session&)>& body) override {
    body(*this);
    wait_all();
  }

 private:
  void push(std::uint32_t first, std::uint32_t last) override {
    heddle_op_options options{};
    options.struct_size = sizeof options;
    options.mutate_count = 1;
    for (std::uint32_t i = first; i < last; ++i) {
      const ProgramOp& op = program_.ops[i];
      reads_.clear();
      for (std::uint32_t read : program_.reads(op)) reads_.push_back(vars_[read]);
      options.read = reads_.data();
      options.read_count = reads_.size();
      options.mutate = &vars_[op.mutate];
      check(heddle_push(engine_, run_argument<OpArgument>, &arguments_[i], nullptr, &options, nullptr));
    }
  }

  void push_call(void (*call)(void*), void* argument, std::uint32_t cell) override {
    heddle_op_options options{};
    options.struct_size = sizeof options;
    options.mutate = &vars_[cell];
    options.mutate_count = 1;
    check(heddle_push(engine_, run_argument<Call>, new Call{call, argument}, delete_call, &options, nullptr));
  }

  void wait(std::uint32_t cell) override { check(heddle_wait(engine_, vars_[cell], nullptr)); }
  void wait_all() override { check(heddle_wait_all(engine_, nullptr)); }

  const Program& program_;
  std::vector<OpArgument> arguments_;
  heddle_engine* engine_ = nullptr;
  std::vector<heddle_var*> vars_;
  std::vector<heddle_var*> reads_;
};

}  // namespace

PeerKind c_peer() {
  return {"heddle_c", Pushing::queues, [](const Program& program, Cell* cells, int workers) {
            return std::make_unique<CPeer>(program, cells, workers);
          }};
}

}  // namespace heddle::bench
