// The interface of the libraries that engine_bench compares: Heddle and its peers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_program.h"

namespace heddle::bench {

// One run of a program on a library. All calls come from one thread.
class Session {
 public:
  virtual ~Session() = default;
  // Pushes ops [first, last) of the program, in order.
  virtual void push(std::uint32_t first, std::uint32_t last) = 0;
  // Pushes an op that mutates the cell's var and calls call(argument).
  virtual void push_call(void (*call)(void*), void* argument, std::uint32_t cell) = 0;
  // Returns when every op pushed so far that mutates the cell is done.
  virtual void wait(std::uint32_t cell) = 0;
  virtual void wait_all() = 0;
};

// A library with its workers, made for one program and its cells. Between two sessions it uses no CPU.
class Peer {
 public:
  virtual ~Peer() = default;
  // Calls body, which may push ops; returns when body has returned and all ops are done.
  virtual void session(const std::function<void(Session&)>& body) = 0;
};

// The argument of the C callback that runs a push_call.
struct Call {
  void (*call)(void*);
  void* argument;
  void run() const { call(argument); }
};

// How a library accepts ops. This decides which workloads the library can take part in.
enum class Pushing {
  queues,         // ops run on workers only, and any number of them can be queued
  works_too,      // the pushing thread is also a worker, and may run ops inside a push
  whole_program,  // the graph of all ops is built first; the only push is push(0, all ops)
};

struct PeerKind {
  std::string name;
  Pushing pushing;
  // Makes the peer. The program and the cells must outlive it. Throws std::runtime_error if the library
  // cannot run on this machine.
  std::function<std::unique_ptr<Peer>(const Program& program, Cell* cells, int workers)> make;
};

PeerKind heddle_peer();
PeerKind c_peer();  // Heddle's C ABI
PeerKind openmp_peer();
PeerKind flow_graph_peer();

// OpenMP tasks compiled by clang; nullopt if the build has not found clang's OpenMP library.
std::optional<PeerKind> clang_openmp_peer();
std::optional<PeerKind> starpu_peer();

// The engine in libmxnet.so of MXNet 1.9.1, with `workers` threads; the process's first call fixes their
// number. Throws std::runtime_error if the library does not load.
PeerKind mxnet_peer(const std::string& library, int workers);

}  // namespace heddle::bench

// The OpenMP peer built by this file's compiler; the caller owns it. C linkage, so that dlsym finds it.
extern "C" heddle::bench::Peer* heddle_bench_openmp(const heddle::bench::Program& program,
                                                    heddle::bench::Cell* cells, int workers);
