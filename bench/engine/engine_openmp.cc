// engine_bench's ops as OpenMP tasks whose dependences are the cells. Calls no function of the OpenMP library
// by name, so that two compilers' libraries can be in one process.
#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

// Written-out depend clauses are cheaper than an iterator, so the usual numbers of reads have a case each.
// clang-format off
void make_task(const Program& program, Cell* cells, std::uint32_t i) {
  const ProgramOp op = program.ops[i];
  const std::uint32_t* reads = program.read_cells.data() + op.first_read;
  const Program* all = &program;
  Cell* target = cells + op.mutate;
  switch (op.read_count) {
    case 0:
      #pragma omp task depend(inout: *target) firstprivate(all, cells, i)
      run_op(*all, cells, i);
      break;
    case 1:
      #pragma omp task depend(inout: *target) depend(in: cells[reads[0]]) firstprivate(all, cells, i)
      run_op(*all, cells, i);
      break;
    case 2:
      #pragma omp task depend(inout: *target) depend(in: cells[reads[0]], cells[reads[1]]) \
          firstprivate(all, cells, i)
      run_op(*all, cells, i);
      break;
    case 3:
      #pragma omp task depend(inout: *target) depend(in: cells[reads[0]], cells[reads[1]], cells[reads[2]]) \
          firstprivate(all, cells, i)
      run_op(*all, cells, i);
      break;
    case 4:
      #pragma omp task depend(inout: *target) \
          depend(in: cells[reads[0]], cells[reads[1]], cells[reads[2]], cells[reads[3]]) firstprivate(all, cells, i)
      run_op(*all, cells, i);
      break;
    default: {
      const std::uint32_t count = op.read_count;
      #pragma omp task depend(inout: *target) depend(iterator(k = 0:count), in: cells[reads[k]]) \
          firstprivate(all, cells, i)
      run_op(*all, cells, i);
    }
  }
}
// clang-format on

class OpenMpPeer : public Peer, Session {
 public:
  OpenMpPeer(const Program& program, Cell* cells, int workers)
      : program_(program), cells_(cells), workers_(workers), has_reads_(!program.read_cells.empty()) {}

  void session(const std::function<void(Session&)>& body) override {
#pragma omp parallel num_threads(workers_)
#pragma omp single
    body(*this);
  }

 private:
  // For an op that mutates a cell libgomp walks all queued readers of that cell: without a bound on queued
  // tasks the time grows quadratically. Regular taskwaits give libgomp's best time.
  static constexpr std::uint32_t kWindow = 256;

  void push(std::uint32_t first, std::uint32_t last) override {
    for (std::uint32_t i = first; i < last; ++i) {
      if (i % kWindow == kWindow - 1 && has_reads_) wait_all();
      make_task(program_, cells_, i);
    }
  }

  void push_call(void (*call)(void*), void* argument, std::uint32_t cell) override {
    Cell* target = cells_ + cell;
#pragma omp task depend(inout : *target) firstprivate(call, argument)
    call(argument);
  }

  // Waits for all tasks, as taskwait does. This is no disadvantage: workloads that wait for one cell have
  // pushed only ops of that cell.
  void wait(std::uint32_t) override { wait_all(); }

  void wait_all() override {
#pragma omp taskwait
  }

  const Program& program_;
  Cell* cells_;
  int workers_;
  bool has_reads_;
};

}  // namespace

PeerKind openmp_peer() {
  return {OPENMP_SUBJECT, Pushing::works_too, [](const Program& program, Cell* cells, int workers) {
            return std::unique_ptr<Peer>(heddle_bench_openmp(program, cells, workers));
          }};
}

}  // namespace heddle::bench

extern "C" heddle::bench::Peer* heddle_bench_openmp(const heddle::bench::Program& program,
                                                    heddle::bench::Cell* cells, int workers) {
  return new heddle::bench::OpenMpPeer(program, cells, workers);
}
