// A rank of comm_bench on the system's MPI.
#include <memory>
#include <mpi.h>
#include <stdexcept>
#include <vector>

#include "comm/comm_rank.h"

namespace {

using namespace heddle::bench;

class OpenMpi : public CommLibrary {
 public:
  OpenMpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~OpenMpi() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  CommJob prepare(const CommTask& task) override {
    auto memory = std::make_shared<CommBuffers>(task, size_);
    float *in = memory->in(), *out = memory->out();
    const int count = static_cast<int>(task.count), part = count / size_;
    const auto job = [&](auto call) { return CommJob{in, out, [memory, call]() mutable { call(); }}; };
    const std::string& what = task.collective;
    if (what == "all_reduce") {
      return job([=] { MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    }
    if (what == "burst") {
      std::vector<std::vector<float>> others(kBurst - 1, std::vector<float>(task.count));
      return job([=]() mutable {
        MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (std::vector<float>& other : others)
          MPI_Allreduce(MPI_IN_PLACE, other.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      });
    }
    if (what == "compute") return job([rounds = Work(task.variant).rounds] { work(rounds); });
    if (what == "overlap") {
      return job([=, amount = Work(task.variant)] {
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        for (long i = 0; i < amount.calls; ++i) {
          int done = 0;
          work(amount.rounds / (amount.calls + 1));
          MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        work(amount.rounds / (amount.calls + 1));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      });
    }
    if (what == "all_gather") {
      return job([=] { MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); });
    }
    if (what == "reduce_scatter") {
      return job([=] { MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    }
    if (what == "broadcast") return job([=] { MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD); });
    if (what == "reduce") {
      const void* from = rank_ == 0 ? MPI_IN_PLACE : out;
      return job([=] { MPI_Reduce(from, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); });
    }
    if (what == "all_to_all") {
      return job([=] { MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); });
    }
    if (what == "barrier") return job([] { MPI_Barrier(MPI_COMM_WORLD); });
    throw std::runtime_error("MPI has no " + what);
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  return run_rank(argc, argv, [](const RankArguments& arguments) {
    OpenMpi library;
    serve(library, arguments);
  });
}
