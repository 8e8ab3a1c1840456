// Model of parallel loops: every chunk runs once, and the thread that owns the loop goes on only when all
// helping threads have left.
#include "model.h"
#include "relacy_threads.h"

#define std model_std
#define thread_local
#define this_thread_state this_thread_states[model::thread_index()]
#define __builtin_ia32_pause model::step
#include <product/scheduler/parallel_loop.cc>
namespace heddle::detail {
constinit ThreadState this_thread_state;
}
#undef std
#undef thread_local
#undef this_thread_state
#undef __builtin_ia32_pause

namespace {

using heddle::detail::ParallelLoop;
using heddle::detail::ParallelLoops;

// Thread 0 owns the loop; the other threads look for loops to join.
template <int Guests, int Chunks> struct Loop : model::Schedule<Loop<Guests, Chunks>, Guests + 1> {
  ParallelLoops loops;
  model::Plain<int> chunks[Chunks];

  void thread(unsigned index) {
    if (index == 0) return own();
    for (int looks = 0; looks < 2; ++looks) {
      if (std::shared_ptr<ParallelLoop> loop = loops.enter()) {
        if (!loop->exhausted()) loop->work();
        loops.close(loop.get());
        ParallelLoops::leave(*loop);
      }
      model::step();
    }
  }
  void own() {
    const ParallelLoop::Body body = [this](std::int64_t at, std::int64_t) {
      chunks[at].set(chunks[at].get() + 1);
    };
    const auto loop = std::make_shared<ParallelLoop>(Chunks, 1, body, nullptr);
    loops.open(loop);
    loop->work();
    loops.close(loop.get());
    if (!loop->helpers_left_soon()) loop->await_helpers();
    for (auto& chunk : chunks) model::check(chunk.get() == 1, "a chunk did not run once");
  }
  void after() { model::check(loops.empty(), "a loop is still open"); }
};

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(
      argc, argv, {random_program<Loop<1, 2>>("1 helper"), random_program<Loop<2, 3>>("2 helpers")},
      {"ParallelLoop::helpers_left_soon load relaxed", "ParallelLoop::await_helpers load relaxed",
       "ParallelLoops::leave fetch_sub acq_rel", "SpinLock::unlock store relaxed"});
}
