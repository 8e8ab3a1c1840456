// Model of class IssueGate: one thread at a time issues ops, no thread waits at the gate, and no op is left
// there.
#include "model.h"

#define std model_std
#define __builtin_ia32_pause model::step
#include <product/stream/issue_gate.h>
#undef std
#undef __builtin_ia32_pause

namespace {

struct Op {
  Op* next = nullptr;
  model::Plain<int> thread, number;
  Op* next_ready() const { return next; }
  void set_next_ready(Op* op) { next = op; }
};

// Each thread enters `Each` ops into the gate. Each op must be issued once, and the ops of a thread in their
// order.
template <int Threads, int Each> struct Gate : model::Schedule<Gate<Threads, Each>, Threads> {
  heddle::detail::IssueGate<Op> gate;
  Op ops[Threads][Each];
  model::Plain<int> last[Threads], issued;  // accessed only by the thread inside the gate

  void thread(unsigned index) {
    for (int i = 0; i < Each; ++i) {
      Op* op = &ops[index][i];
      op->thread.set(static_cast<int>(index));
      op->number.set(i + 1);
      if (!gate.enter(op)) continue;
      do {
        issue(*op);
      } while ((op = gate.next()));
    }
  }
  void issue(const Op& op) {
    auto& before = last[op.thread.get()];
    model::check(op.number.get() == before.get() + 1, "a thread's order is lost");
    before.set(op.number.get());
    issued.set(issued.get() + 1);
  }
  void after() { model::check(issued.get() == Threads * Each, "an op is forgotten at the gate"); }
};

}  // namespace

int main(int argc, char** argv) {
  using model::program;
  return model::run_models(
      argc, argv, {program<Gate<2, 2>>("2 threads, 2 ops each"), program<Gate<3, 1>>("3 threads, 1 op each")},
      {"SpinLock::lock exchange relaxed", "SpinLock::unlock store relaxed"});
}
