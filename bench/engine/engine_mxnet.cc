// engine_bench's ops on the engine in libmxnet.so of MXNet 1.9.1, loaded at run time.
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

using VarHandle = void*;

struct Context {
  int device_type = 1;  // MXNet's number for a CPU
  int device = 0;
};

using SyncFunction = void (*)(void* run_context, void* argument);
using PushSync = int (*)(SyncFunction, void* argument, void (*deleter)(void*), const Context*,
                         const VarHandle* reads, int read_count, const VarHandle* mutates, int mutate_count,
                         const void* property, int priority, const char* name);

// The functions of libmxnet.so. MXEnginePushSync and MXGetLastError are C functions. Making a var and waiting
// for one are not in the C API: they are members of mxnet::engine::ThreadedEngine, called with the engine
// first.
struct Library {
  void* engine;
  PushSync push_sync;
  const char* (*last_error)();
  VarHandle (*new_variable)(void* engine);
  void (*wait_for_var)(void* engine, VarHandle);
  void (*wait_for_all)(void* engine);
};

template <class Function> void find(void* library, const char* name, Function& function) {
  void* found = dlsym(library, name);
  if (!found) throw std::runtime_error(dlerror());
  function = reinterpret_cast<Function>(found);
}

Library load(const std::string& path, int workers) {
  setenv("MXNET_CPU_WORKER_NTHREADS", std::to_string(workers).c_str(), 1);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  Library result;
  void* (*get_engine)();
  find(library, "_ZN5mxnet6Engine3GetEv", get_engine);
  find(library, "MXEnginePushSync", result.push_sync);
  find(library, "MXGetLastError", result.last_error);
  find(library, "_ZN5mxnet6engine14ThreadedEngine11NewVariableEv", result.new_variable);
  find(library, "_ZN5mxnet6engine14ThreadedEngine10WaitForVarEPNS0_3VarE", result.wait_for_var);
  find(library, "_ZN5mxnet6engine14ThreadedEngine10WaitForAllEv", result.wait_for_all);
  result.engine = get_engine();
  return result;
}

class MxnetPeer : public Peer, Session {
 public:
  MxnetPeer(const Library& library, const Program& program, Cell* cells)
      : library_(library), program_(program), arguments_(op_arguments(program, cells)) {
    for (std::uint32_t i = 0; i < program.cells; ++i) vars_.push_back(library_.new_variable(library_.engine));
    for (std::uint32_t cell : program.read_cells) reads_.push_back(vars_[cell]);
  }

  void session(const std::function<void(Session&)>& body) override {
    body(*this);
    wait_all();
  }

 private:
  void push(std::uint32_t first, std::uint32_t last) override {
    for (std::uint32_t i = first; i < last; ++i) {
      const ProgramOp& op = program_.ops[i];
      push_sync([](void*, void* argument) { static_cast<const OpArgument*>(argument)->run(); },
                &arguments_[i], reads_.data() + op.first_read, op.read_count, op.mutate);
    }
  }

  void push_call(void (*call)(void*), void* argument, std::uint32_t cell) override {
    calls_.push_back(std::make_unique<Call>(Call{call, argument}));
    const auto run = [](void*, void* argument_of_op) { static_cast<const Call*>(argument_of_op)->run(); };
    push_sync(run, calls_.back().get(), nullptr, 0, cell);
  }

  void wait(std::uint32_t cell) override { library_.wait_for_var(library_.engine, vars_[cell]); }

  void wait_all() override {
    library_.wait_for_all(library_.engine);
    calls_.clear();
  }

  void push_sync(SyncFunction function, void* argument, const VarHandle* reads, std::uint32_t read_count,
                 std::uint32_t mutate) {
    const Context cpu;
    const int result =
        library_.push_sync(function, argument, nullptr, &cpu, reads, static_cast<int>(read_count),
                           &vars_[mutate], 1, nullptr, 0, nullptr);
    if (result != 0) throw std::runtime_error(std::string("mxnet: ") + library_.last_error());
  }

  const Library& library_;
  const Program& program_;
  std::vector<OpArgument> arguments_;
  std::vector<VarHandle> vars_;   // never deleted: at most a few thousand
  std::vector<VarHandle> reads_;  // the vars of program.read_cells
  std::vector<std::unique_ptr<Call>> calls_;
};

}  // namespace

PeerKind mxnet_peer(const std::string& path, int workers) {
  static const Library library = load(path, workers);
  return {"mxnet", Pushing::queues, [](const Program& program, Cell* cells, int) {
            return std::make_unique<MxnetPeer>(library, program, cells);
          }};
}

}  // namespace heddle::bench
