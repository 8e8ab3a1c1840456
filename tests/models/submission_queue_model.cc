// Model of class SubmissionQueue: several threads push, and several threads pop under the queue's lock.
#include "model.h"

#define std model_std
#define __builtin_ia32_pause model::step
#include <product/base/submission_queue.h>
#undef std
#undef __builtin_ia32_pause

namespace {

using heddle::detail::OpKind;
using heddle::detail::QueueNode;
using heddle::detail::SubmissionQueue;

struct Node : QueueNode {
  Node(int who, int which) : QueueNode(OpKind::user), pusher(who), number(which) {}
  model::Plain<int> pusher, number;
};

// Several threads push `Each` nodes each, others pop and free them. Every node must be popped once, and the
// nodes of one pusher in order. Once all nodes are pushed, empty() and pop() must see those that are left.
template <int Pushers, int Poppers, int Each>
struct Queue : model::Schedule<Queue<Pushers, Poppers, Each>, Pushers + Poppers> {
  SubmissionQueue queue;
  model::Plain<int> last[Pushers];     // of each pusher, the last node popped; guarded by the queue's lock
  model::Plain<int> popped{0};         // number of popped nodes; guarded by the queue's lock
  model_std::atomic<int> finished{0};  // number of pushers that are done

  void thread(unsigned index) {
    if (index < Pushers) {
      for (int i = 1; i <= Each; ++i) queue.push(new Node(static_cast<int>(index), i));
      finished.fetch_add(1, model_std::memory_order_release);
    } else {
      pop_all();
    }
  }
  void pop_all() {
    for (;;) {
      // This is read before empty() and pop() are called: if it is true, they must see every node.
      const bool all_pushed = finished.load(model_std::memory_order_acquire) == Pushers;
      const bool empty = queue.empty();
      if (!queue.try_lock()) {
        model::step();
        continue;
      }
      if (all_pushed && empty)
        model::check(popped.get() == Pushers * Each, "empty() with a node in the queue");
      if (popped.get() == Pushers * Each) return queue.unlock();
      auto* node = static_cast<Node*>(queue.pop());
      if (node) {
        count(*node);
        delete node;
      } else {
        model::check(!all_pushed, "pop() finds nothing though all are pushed");
      }
      queue.unlock();
      if (!node) model::step();
    }
  }
  void count(Node& node) {
    auto& before = last[node.pusher.get()];
    model::check(node.number.get() == before.get() + 1, "a pusher's order is lost");
    before.set(node.number.get());
    popped.set(popped.get() + 1);
  }
  void after() { model::check(popped.get() == Pushers * Each && queue.empty(), "a node is lost"); }
};

// If one thread pushes after it has seen the push of another thread, the other thread's node must be popped
// first.
struct Causal : model::Schedule<Causal, 3> {
  SubmissionQueue queue;
  model_std::atomic<bool> told{false};
  int order[2] = {};

  void thread(unsigned index) {
    if (index == 0) {
      queue.push(new Node(0, 1));
      told.store(true, model_std::memory_order_release);
    } else if (index == 1) {
      while (!told.load(model_std::memory_order_acquire)) model::step();
      queue.push(new Node(1, 1));
    } else {
      for (int popped = 0; popped < 2;) {
        queue.lock();
        if (auto* node = static_cast<Node*>(queue.pop())) {
          order[popped++] = node->pusher.get();
          delete node;
        }
        queue.unlock();
        model::step();
      }
    }
  }
  void after() { model::check(order[0] == 0 && order[1] == 1, "a later push is popped first"); }
};

// A thread pushes and then looks for sleepers; another counts itself as a sleeper and then looks for nodes.
// At least one of them must see the other, on which IdleWorkers relies.
struct SleepOrSee : model::Schedule<SleepOrSee, 2> {
  SubmissionQueue queue;
  model_std::atomic<int> sleepers{0};
  bool woken = false, saw = false;

  void thread(unsigned index) {
    if (index == 0) {
      queue.push(new Node(0, 1));
      woken = sleepers.load(model_std::memory_order_seq_cst) > 0;
    } else {
      sleepers.fetch_add(1, model_std::memory_order_seq_cst);
      saw = !queue.empty();
    }
  }
  void after() {
    model::check(woken || saw, "neither sees the other");
    queue.lock();
    delete static_cast<Node*>(queue.pop());
    queue.unlock();
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::program;
  using model::random_program;
  return model::run_models(
      argc, argv,
      {program<Queue<2, 1, 2>>("2 pushers, 1 popper"), random_program<Queue<2, 2, 2>>("2 pushers, 2 poppers"),
       random_program<Queue<3, 2, 1>>("3 pushers, 2 poppers"), program<Causal>("causal order"),
       program<SleepOrSee>("sleep or see")},
      {"SubmissionQueue::push exchange acq_rel", "SubmissionQueue::push store relaxed",
       "SubmissionQueue::pop load relaxed", "SubmissionQueue::empty load acquire",
       "SpinLock::try_lock exchange relaxed", "SpinLock::unlock store relaxed"});
}
