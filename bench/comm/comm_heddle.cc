// A rank of comm_bench on Heddle's own communicator.
#include <memory>
#include <stdexcept>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/engine.h>

#include "comm/comm_rank.h"

namespace {

using namespace heddle;
using namespace heddle::bench;

// Heddle as a subject of comm_bench. Its variants: `raw` is the blocking call on memory of malloc; `shared`
// is the blocking call on a shared_array; `op` pushes an op on a shared_array and waits for it. Collectives
// other than all_reduce have only `op`.
class Heddle : public CommLibrary {
 public:
  explicit Heddle(const RankArguments& arguments) : engine_({.workers = 1}) {
    CommOptions options;
    options.backend = arguments.backend;
    options.engine = &engine_;
    LaunchEnvironment job;
    if (arguments.size == 0) {
      job = LaunchEnvironment::from_environment();  // the environment that mpirun sets
    } else {
      job.rank = job.local_rank = arguments.rank;
      job.size = job.local_size = arguments.size;
    }
    job.rendezvous = "unix:" + arguments.meeting;
    job.source = "comm_bench";
    comm_ = Communicator::create(options, job);
  }

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }

  // Uses the blocking all_reduce as a barrier. With an op instead, and many ranks on few cores, the threads
  // that ran the op would still use the cores when the timing starts.
  void barrier() override { comm_->all_reduce(&here_, 1, DType::f32); }

  CommJob prepare(const CommTask& task) override {
    if (task.collective == "all_reduce" && task.variant == "raw") return raw(task);
    if (task.collective == "all_reduce" && task.variant == "shared") return shared(task);
    if (task.collective == "compute" || task.collective == "overlap") return beside(task);
    if (task.collective == "in_turn") return in_turn(task);
    if (task.variant != "op") throw std::runtime_error(task.variant + " is for all_reduce only");
    return op(task);
  }

 private:
  CommJob raw(const CommTask& task) {
    auto memory = std::make_shared<CommBuffers>(task, size());
    float* data = memory->out();
    return {data, data,
            [this, memory, data, count = task.count] { comm_->all_reduce(data, count, DType::f32); }};
  }

  CommJob shared(const CommTask& task) {
    const NDArray array = made(task.count);
    float* data = array.data<float>();
    return {data, data,
            [this, array, data, count = task.count] { comm_->all_reduce(data, count, DType::f32); }};
  }

  // Computes on the engine's one worker during an all_reduce, which must progress without calls from this
  // code.
  CommJob beside(const CommTask& task) {
    const NDArray array = made(task.count);
    const bool reduces = task.collective == "overlap";
    const long rounds = Work(task.variant).rounds;
    float* data = array.data<float>();
    return {data, data, [this, array, reduces, rounds, busy = engine_.new_var()] {
              if (reduces) comm_->all_reduce(array);
              engine_.push([rounds] { work(rounds); }, {.mutate = {busy}, .name = "compute"});
              engine_.wait(busy);
              array.wait();
            }};
  }

  // A program without ops: computes first, then makes the blocking call.
  CommJob in_turn(const CommTask& task) {
    const CommJob reduces = comm_->backend() == "shm" ? shared(task) : raw(task);
    return {reduces.in, reduces.out, [rounds = Work(task.variant).rounds, reduces] {
              work(rounds);
              reduces.call();
            }};
  }

  CommJob op(const CommTask& task) {
    const std::size_t part = task.count / static_cast<std::size_t>(size());
    const std::string& what = task.collective;
    if (what == "all_reduce")
      return in_place(task.count, [this](const NDArray& array) { comm_->all_reduce(array); });
    if (what == "burst") return burst(task.count);
    if (what == "broadcast")
      return in_place(task.count, [this](const NDArray& array) { comm_->broadcast(array, 0); });
    if (what == "reduce")
      return in_place(task.count, [this](const NDArray& array) {
        comm_->reduce(array, 0);
        // On ranks other than 0 the op only reads the array, so array.wait() does not wait for it.
        // comm_->wait() keeps the next call from filling the array too early.
        if (rank() != 0) comm_->wait();
      });
    if (what == "all_gather") {
      return apart(part, task.count,
                   [this](const NDArray& in, const NDArray& out) { comm_->all_gather(in, out); });
    }
    if (what == "reduce_scatter") {
      return apart(task.count, part,
                   [this](const NDArray& in, const NDArray& out) { comm_->reduce_scatter(in, out); });
    }
    if (what == "all_to_all") {
      return apart(task.count, task.count,
                   [this](const NDArray& in, const NDArray& out) { comm_->all_to_all(in, out); });
    }
    if (what == "barrier")
      return {nullptr, nullptr, [this] {
                comm_->barrier();
                comm_->wait();
              }};
    throw std::runtime_error("Heddle has no " + what);
  }

  template <class Call> static CommJob job(const NDArray& in, const NDArray& out, Call call) {
    return {in.data<float>(), out.data<float>(), [out, call] {
              call();
              out.wait();
            }};
  }

  CommJob burst(std::size_t count) {
    std::vector<NDArray> arrays;
    for (int i = 0; i < kBurst; ++i) arrays.push_back(made(count));
    float* data = arrays[0].data<float>();
    return {data, data, [this, arrays] {
              for (const NDArray& array : arrays) comm_->all_reduce(array);
              for (const NDArray& array : arrays) array.wait();
            }};
  }

  template <class Call> CommJob in_place(std::size_t count, Call call) {
    const NDArray array = made(count);
    return job(array, array, [call, array] { call(array); });
  }

  template <class Call> CommJob apart(std::size_t sent, std::size_t received, Call call) {
    const NDArray in = made(sent), out = made(received);
    return job(in, out, [call, in, out] { call(in, out); });
  }

  NDArray made(std::size_t count) {
    const NDArray array = comm_->shared_array({static_cast<std::int64_t>(count)});
    array.fill(0);
    array.wait();
    return array;
  }

  float here_ = 0;
  Engine engine_;
  std::shared_ptr<Communicator> comm_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_rank(argc, argv, [](const RankArguments& arguments) {
    Heddle library(arguments);
    serve(library, arguments);
  });
}
