// engine_bench's ops as a oneTBB flow graph: dependences are found and the graph is built before the first
// run, and each run only triggers it. Heddle and OpenMP find dependences in every run.
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

class FlowGraphPeer : public Peer, Session {
 public:
  FlowGraphPeer(const Program& program, Cell* cells, int workers) : arena_(workers) {
    arena_.execute([&] {
      graph_ = std::make_unique<tbb::flow::graph>();
      build(program, cells);
    });
  }

  void session(const std::function<void(Session&)>& body) override {
    arena_.execute([&] {
      body(*this);
      graph_->wait_for_all();
    });
  }

 private:
  void push(std::uint32_t first, std::uint32_t last) override {
    if (first != 0 || last != nodes_.size()) throw std::logic_error("a flow graph runs as a whole");
    for (Node* root : roots_) root->try_put(tbb::flow::continue_msg());
  }
  void push_call(void (*)(void*), void*, std::uint32_t) override {
    throw std::logic_error("a flow graph is built before it runs");
  }
  void wait(std::uint32_t) override { graph_->wait_for_all(); }
  void wait_all() override { graph_->wait_for_all(); }

  static constexpr std::uint32_t kNone = ~0U;
  struct Users {
    std::uint32_t writer = kNone;
    std::vector<std::uint32_t> readers;  // ops that read the cell since the last op that writes it
  };

  void build(const Program& program, Cell* cells) {
    std::vector<Users> users(program.cells);
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      const Program* all = &program;
      nodes_.emplace_back(*graph_,
                          [all, cells, i](const tbb::flow::continue_msg&) { run_op(*all, cells, i); });
      if (!add_edges(program, users, i)) roots_.push_back(&nodes_.back());
    }
  }

  // Adds the graph edges from earlier ops to op i. Returns whether op i depends on any.
  bool add_edges(const Program& program, std::vector<Users>& users, std::uint32_t i) {
    const ProgramOp& op = program.ops[i];
    bool any = false;
    const auto after = [&](std::uint32_t other) {
      if (other == kNone) return;
      tbb::flow::make_edge(nodes_[other], nodes_[i]);
      any = true;
    };
    for (std::uint32_t read : program.reads(op)) {
      after(users[read].writer);
      users[read].readers.push_back(i);
    }
    Users& target = users[op.mutate];
    // An edge from each reader is enough: the readers are already ordered after the last writer.
    if (target.readers.empty()) after(target.writer);
    for (std::uint32_t reader : target.readers) after(reader);
    target.readers.clear();
    target.writer = i;
    return any;
  }

  tbb::task_arena arena_;
  std::unique_ptr<tbb::flow::graph> graph_;
  std::deque<Node> nodes_;
  std::vector<Node*> roots_;
};

}  // namespace

PeerKind flow_graph_peer() {
  return {"tbb_flow_graph", Pushing::whole_program, [](const Program& program, Cell* cells, int workers) {
            return std::make_unique<FlowGraphPeer>(program, cells, workers);
          }};
}

}  // namespace heddle::bench
