// engine_bench's ops as a oneTBB flow graph: the dependences are found and the graph is built before the first run,
// each run only triggers it. Heddle and OpenMP find them anew in every run.
#include <deque>
#include <memory>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include "engine_program.h"

namespace heddle::bench {

namespace {

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

class StaticGraph {
 public:
  StaticGraph(const Program& program, Cell* cells, int workers) : arena_(workers) {
    arena_.execute([&] {
      graph_ = std::make_unique<tbb::flow::graph>();
      build(program, cells);
    });
  }

  void run() {
    arena_.execute([this] {
      for (Node* root : roots_) root->try_put(tbb::flow::continue_msg());
      graph_->wait_for_all();
    });
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Users {
    std::uint32_t writer = kNone;
    std::vector<std::uint32_t> readers;  // since that writer
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

  // Makes the edges to op i and says whether there are any.
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
    // the readers already come after that writer
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

Runner flow_graph_runner(const Program& program, Cell* cells, int workers) {
  auto graph = std::make_shared<StaticGraph>(program, cells, workers);
  return [graph] { graph->run(); };
}

}  // namespace heddle::bench
