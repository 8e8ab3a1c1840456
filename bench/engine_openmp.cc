// engine_bench's ops as OpenMP tasks whose dependences are the cells.
#include <omp.h>

#include "engine_program.h"

namespace heddle::bench {

namespace {

// Clauses written out are cheaper than an iterator, so the usual lengths have their own.
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

}  // namespace

Runner openmp_runner(const Program& program, Cell* cells, int workers) {
  return [&program, cells, workers] {
    omp_set_num_threads(workers);
#pragma omp parallel
#pragma omp single
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) make_task(program, cells, i);
  };
}

}  // namespace heddle::bench
