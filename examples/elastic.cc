// A job that survives the death of its processes:  heddle launch -n 3 --restarts 1 -- elastic 1
// Rank 1 kills itself half way. The launcher restarts it; the other ranks admit it with grow() and send it
// the current state. Exits with 1 if the result differs from that of a run without a death.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <heddle/heddle.h>

using namespace heddle;

namespace {

constexpr std::int64_t kSteps = 40, kCount = 1000;

struct State {
  std::int64_t step = 0;
  NDArray values = zeros({kCount}, DType::f64);
};

// Gives all ranks the state of the rank that has done the most steps: one survivor of the death may have done
// a step more than another.
void catch_up(Communicator& comm, State& state) {
  NDArray mine = full({1}, static_cast<double>(state.step), DType::i64),
          all = zeros({comm.size()}, DType::i64);
  comm.all_gather(mine, all);
  const std::vector<std::int64_t> steps = all.to_vector<std::int64_t>();
  const auto furthest = std::max_element(steps.begin(), steps.end());
  NDArray values = state.values.copy();  // if the broadcast into this copy fails, state.values is intact
  comm.broadcast(values, static_cast<int>(furthest - steps.begin()));
  values.wait();
  state = {*furthest, values};
}

void do_step(Communicator& comm, State& state) {
  NDArray sum = full({kCount}, static_cast<double>((comm.rank() + 1) * (state.step + 1)), DType::f64);
  comm.all_reduce(sum);
  sum.wait();  // throws if the reduction has failed; state.values is then unchanged
  state.values = state.values * 0.5 + sum;
  ++state.step;
}

// The result of kSteps steps of all ranks, computed on one thread. All numbers have few binary digits, so
// that no sum is rounded and the order of additions does not matter.
double expected(int size) {
  double value = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    value = value * 0.5 + static_cast<double>(size * (size + 1) / 2 * (step + 1));
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const int victim = argc > 1 ? std::atoi(argv[1]) : -1;
  const char* restart = std::getenv("HEDDLE_RESTART");
  // Rank 1 dies only in its first life, not after the launcher has restarted it.
  const bool dies = !restart || std::string(restart) == "0";
  auto comm = Communicator::create();
  State state;
  while (true) {
    try {
      catch_up(*comm, state);
      while (state.step < kSteps) {
        if (dies && comm->rank() == victim && state.step == kSteps / 2) std::raise(SIGKILL);
        do_step(*comm, state);
      }
      comm->barrier();  // a rank must not exit while another rank may need its state
      comm->wait();
      break;
    } catch (const CommError& error) {
      std::printf("rank %d after %d steps: %s\n", comm->rank(), static_cast<int>(state.step), error.what());
      comm = comm->grow(0, std::chrono::seconds(60));
    }
  }
  const std::vector<double> right(kCount, expected(comm->size()));
  const bool good = state.values.to_vector<double>() == right;
  std::printf("rank %d of %d over %s: %s\n", comm->rank(), comm->size(), comm->backend().c_str(),
              good ? "right" : "WRONG");
  return good ? 0 : 1;
}
