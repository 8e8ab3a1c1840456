// Model of the engine's dependency tracking: one thread enters ops by enter(), several threads run them and
// call release_accesses().
#include "model.h"
#include "product_engine.h"

namespace {

using namespace heddle::detail;
using heddle::Var;
using model::check;
using model::Plain;

// A scheduler that runs nothing: the model's threads run the ops.
struct NoScheduler final : OpScheduler {
  using OpScheduler::OpScheduler;
  void submit(OpNode*) override {}
  void wait(OpNode*) override {}
  bool wait_until(OpNode*, Deadline) override { return true; }
  void wait_all() override {}
  void completed_elsewhere(std::uint8_t, ReadyList&) noexcept override {}
  void issued(OpNode*) noexcept override {}
  void stream_work_done(OpNode*) noexcept override {}
  void resume(OpNode*) noexcept override {}
  void stop() noexcept override {}
  std::int64_t in_flight() override { return 0; }
};

struct Use {
  int var;
  bool mutates;
};
using Program = std::vector<std::vector<Use>>;  // the vars that each op uses, in push order

const Program kOneVar = {{{0, true}}, {{0, false}}, {{0, false}}, {{0, true}}, {{0, false}}};
const Program kTwoVars = {
    {{0, true}}, {{0, false}, {1, true}}, {{0, false}, {1, false}}, {{1, true}, {0, true}}};
const Program kReadBehindWrite = {
    {{0, false}, {1, false}}, {{1, true}, {0, true}}, {{0, false}}, {{1, false}}};

// Every op must run once, see the writes of the ops before it, and never overlap with a conflicting op.
template <const Program& Ops> struct Grants : model::Schedule<Grants<Ops>, 3> {
  static constexpr int kVars = 2;
  EngineCore* core = new EngineCore({});
  Var vars[kVars];
  Plain<int> writes[kVars];
  std::vector<OpNode*> ops;
  std::vector<int> ran;
  model_std::mutex mutex;  // guards `ready`
  std::vector<OpNode*> ready;
  model_std::atomic<int> left{static_cast<int>(Ops.size())};

  Grants() {
    core->set_scheduler(std::make_unique<NoScheduler>(*core));
    for (Var& var : vars) var = Var::adopt(new VarState(core));
    for (const auto& uses : Ops) ops.push_back(make(uses));
    ran.resize(ops.size());
  }
  OpNode* make(const std::vector<Use>& uses) {
    OpNode* op = allocate_op(core, uses.size(), 0, false);
    op->sequence = ops.size();
    op->access_count = static_cast<std::uint32_t>(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      ::new (op->accesses() + i)
          AccessNode{op, vars[uses[i].var].state(), nullptr, true, uses[i].mutates, false};
    }
    return op;
  }
  void thread(unsigned index) {
    if (index == 0) {
      for (OpNode* op : ops) {
        if (enter(*op)) give(op);
      }
    }
    while (left.load(model_std::memory_order_relaxed) > 0) {
      if (OpNode* op = take()) {
        run(op);
      } else {
        model::step();
      }
    }
  }
  void give(OpNode* op) {
    mutex.lock();
    ready.push_back(op);
    mutex.unlock();
  }
  OpNode* take() {
    mutex.lock();
    OpNode* op = ready.empty() ? nullptr : ready.back();
    if (op) ready.pop_back();
    mutex.unlock();
    return op;
  }
  void run(OpNode* op) {
    const auto number = op->sequence;
    check(++ran[number] == 1, "an op is granted twice");
    for (const Use& use : Ops[number]) {
      auto& count = writes[use.var];
      check(count.get() == writes_before(number, use.var), "an op is granted too early");
      if (use.mutates) count.set(count.get() + 1);
    }
    ReadyList granted;
    release_accesses(*op, nullptr, granted);
    free_op(op);
    while (!granted.empty()) give(granted.pop_front());
    left.fetch_sub(1, model_std::memory_order_relaxed);
  }
  static int writes_before(std::size_t number, int var) {
    int count = 0;
    for (std::size_t i = 0; i < number; ++i) {
      for (const Use& use : Ops[i]) count += use.var == var && use.mutates;
    }
    return count;
  }
  void after() {
    for (int count : ran) check(count == 1, "an op is lost");
    for (Var& var : vars) {
      check(var.state()->idle(), "a var is not idle");
      var = Var();
    }
    core->release();
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(
      argc, argv,
      {random_program<Grants<kOneVar>>("one var"), random_program<Grants<kTwoVars>>("two vars"),
       random_program<Grants<kReadBehindWrite>>("reads behind a write")},
      {"grant fetch_sub acquire", "enter fetch_sub release", "SpinLock::lock exchange relaxed",
       "SpinLock::unlock store relaxed"});
}
