// engine_bench's ops as StarPU tasks; a cell's var is a data handle without data.
#include <cstdlib>
#include <filesystem>
#include <starpu.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

void check(int result, const char* call) {
  if (result != 0)
    throw std::runtime_error(std::string("starpu: ") + call + " says " + std::to_string(result));
}

starpu_codelet codelet(starpu_cpu_func_t function) {
  starpu_codelet result;
  starpu_codelet_init(&result);
  result.cpu_funcs[0] = function;
  result.nbuffers = STARPU_VARIABLE_NBUFFERS;
  return result;
}

// StarPU as a peer. Only one object can exist at a time, since StarPU's state is global to the process.
class StarPuPeer : public Peer, Session {
 public:
  StarPuPeer(const Program& program, Cell* cells, int workers)
      : program_(program), arguments_(op_arguments(program, cells)), handles_(program.cells) {
    start(workers);
    for (starpu_data_handle_t& handle : handles_) starpu_void_data_register(&handle);
    starpu_pause();
  }

  ~StarPuPeer() override {
    starpu_resume();
    for (starpu_data_handle_t handle : handles_) starpu_data_unregister(handle);
    starpu_shutdown();
  }

  // StarPU's workers poll for work unless they are paused
  void session(const std::function<void(Session&)>& body) override {
    starpu_resume();
    body(*this);
    wait_all();
    starpu_pause();
  }

 private:
  static void start(int workers) {
    const std::string files = std::filesystem::temp_directory_path() / "engine_bench_starpu";
    // StarPU stores its measurements of the machine here instead of in the user's home
    setenv("STARPU_HOME", files.c_str(), 0);
    setenv("STARPU_SILENT", "1", 0);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = workers;
    conf.ncuda = 0;
    conf.nopencl = 0;
    check(starpu_init(&conf), "starpu_init");
    if (static_cast<int>(starpu_cpu_worker_get_count()) == workers) return;
    starpu_shutdown();
    throw std::runtime_error("starpu has at most one worker a core");
  }

  void push(std::uint32_t first, std::uint32_t last) override {
    for (std::uint32_t i = first; i < last; ++i) {
      const ProgramOp& op = program_.ops[i];
      submit(&run_, &arguments_[i], op.mutate, program_.reads(op));
    }
  }

  void push_call(void (*call)(void*), void* argument, std::uint32_t cell) override {
    calls_.push_back(std::make_unique<Call>(Call{call, argument}));
    submit(&call_, calls_.back().get(), cell, {});
  }

  // Waits for all tasks. This is no disadvantage: workloads that wait for one cell have pushed only ops of
  // that cell.
  void wait(std::uint32_t) override { wait_all(); }

  void wait_all() override {
    check(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
    calls_.clear();
  }

  // Submits one op as a task. A long list of dependences needs a separate array, which StarPU frees with the
  // task.
  void submit(starpu_codelet* codelet, void* argument, std::uint32_t mutate,
              std::span<const std::uint32_t> reads) {
    starpu_task* task = starpu_task_create();
    task->cl = codelet;
    task->cl_arg = argument;
    task->nbuffers = static_cast<int>(reads.size()) + 1;
    starpu_data_handle_t* handles = task->handles;
    starpu_data_access_mode* modes = task->modes;
    if (task->nbuffers > STARPU_NMAXBUFS) {
      const std::size_t count = reads.size() + 1;
      handles = task->dyn_handles = static_cast<starpu_data_handle_t*>(std::malloc(count * sizeof *handles));
      modes = task->dyn_modes = static_cast<starpu_data_access_mode*>(std::malloc(count * sizeof *modes));
    }
    *handles++ = handles_[mutate];
    *modes++ = STARPU_RW;
    for (std::uint32_t read : reads) {
      *handles++ = handles_[read];
      *modes++ = STARPU_R;
    }
    check(starpu_task_submit(task), "starpu_task_submit");
  }

  const Program& program_;
  std::vector<OpArgument> arguments_;
  std::vector<starpu_data_handle_t> handles_;
  std::vector<std::unique_ptr<Call>> calls_;
  starpu_codelet run_ =
      codelet([](void**, void* argument) { static_cast<const OpArgument*>(argument)->run(); });
  starpu_codelet call_ = codelet([](void**, void* argument) { static_cast<const Call*>(argument)->run(); });
};

}  // namespace

std::optional<PeerKind> starpu_peer() {
  return PeerKind{"starpu", Pushing::queues, [](const Program& program, Cell* cells, int workers) {
                    return std::make_unique<StarPuPeer>(program, cells, workers);
                  }};
}

}  // namespace heddle::bench
