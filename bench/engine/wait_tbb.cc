// wait_bench on oneTBB: one task_group for each set of tasks that is waited for.
#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "engine/wait_peer.h"
#include "support/support.h"

namespace heddle::bench {

namespace {

long call(int n) {
  if (n < 2) return n;
  long one = 0, two = 0;
  tbb::task_group calls;
  calls.run([&] { one = call(n - 1); });
  calls.run([&] { two = call(n - 2); });
  calls.wait();
  return one + two;
}

class TbbWaits : public WaitPeer {
 public:
  explicit TbbWaits(int workers) : arena_(workers) {}

  double step_wait(int steps) override {
    std::array<long, kStepOps> made{};
    long sum = 0;
    const double seconds = time([&] {
      for (int step = 0; step < steps; ++step) {
        tbb::task_group group;
        for (long& cell : made) group.run([&cell] { ++cell; });
        group.wait();
        for (long cell : made) sum += cell;
      }
    });
    const long n = steps;
    if (sum != kStepOps * (n * (n + 1) / 2)) throw std::runtime_error("tbb: step_wait is wrong");
    return seconds;
  }

  double nested_wait(int waits) override {
    std::atomic<long> count{0};
    const double seconds = time([&] {
      tbb::task_group outer;
      for (int i = 0; i < waits; ++i) {
        outer.run([&] {
          tbb::task_group inner;
          inner.run([&] { count.fetch_add(1, std::memory_order_relaxed); });
          inner.wait();
        });
      }
      outer.wait();
    });
    if (count != waits) throw std::runtime_error("tbb: nested_wait is wrong");
    return seconds;
  }

  double fib(int n) override {
    long result = 0;
    const double seconds = time([&] { result = call(n); });
    if (result != fib_of(n)) throw std::runtime_error("tbb: fib is wrong");
    return seconds;
  }

 private:
  template <class Body> double time(Body body) {
    double seconds = 0;
    arena_.execute([&] {
      const double start = now();
      body();
      seconds = now() - start;
    });
    return seconds;
  }

  tbb::task_arena arena_;
};

// wait_bench's step_wait as a oneTBB flow graph, which each step triggers; the ops are its nodes. The other
// programs do not fit a flow graph.
class FlowGraphWaits : public WaitPeer {
 public:
  explicit FlowGraphWaits(int workers) : arena_(workers) {}

  double step_wait(int steps) override {
    using Message = tbb::flow::continue_msg;
    std::array<long, kStepOps> made{};
    long sum = 0;
    double seconds = 0;
    arena_.execute([&] {
      tbb::flow::graph graph;
      tbb::flow::continue_node<Message> join(graph, [&](const Message&) {
        for (long cell : made) sum += cell;
      });
      std::vector<std::unique_ptr<tbb::flow::continue_node<Message>>> parts;
      for (long& cell : made) {
        parts.push_back(
            std::make_unique<tbb::flow::continue_node<Message>>(graph, [&cell](const Message&) { ++cell; }));
        tbb::flow::make_edge(*parts.back(), join);
      }
      const double start = now();
      for (int step = 0; step < steps; ++step) {
        for (const auto& part : parts) part->try_put({});
        graph.wait_for_all();
      }
      seconds = now() - start;
    });
    const long n = steps;
    if (sum != kStepOps * (n * (n + 1) / 2)) throw std::runtime_error("tbb_flow_graph: step_wait is wrong");
    return seconds;
  }

  double nested_wait(int) override { return 0; }
  double fib(int) override { return 0; }

 private:
  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<WaitPeer> tbb_flow_graph_waits(int workers) {
  return std::make_unique<FlowGraphWaits>(workers);
}

std::unique_ptr<WaitPeer> tbb_waits(int workers) { return std::make_unique<TbbWaits>(workers); }

}  // namespace heddle::bench
