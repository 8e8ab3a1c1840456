// What engine_bench asks of a library that runs ops: of Heddle and, in the same words, of its peers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_program.h"

namespace heddle::bench {

// A library at work on a program. All calls come from one thread.
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

// A library with its workers, made for one program and its cells. Between two sessions it uses no core.
class Peer {
 public:
  virtual ~Peer() = default;
  // Calls body where ops can be pushed; returns when body has returned and all ops are done.
  virtual void session(const std::function<void(Session&)>& body) = 0;
};

// What a C library gives to the function that runs a push_call.
struct Call {
  void (*call)(void*);
  void* argument;
  void run() const { call(argument); }
};

// What pushing is to a library, which decides what workloads it can take part in.
enum class Pushing {
  queues,         // ops run on the workers alone, any number of them can be queued
  works_too,      // the pushing thread is one of the workers and may run ops inside its pushes
  whole_program,  // only push(0, all ops): the graph is built beforehand
};

struct PeerKind {
  std::string name;
  Pushing pushing;
  // The program and the cells must outlive the peer. Throws std::runtime_error if it cannot run here.
  std::function<std::unique_ptr<Peer>(const Program& program, Cell* cells, int workers)> make;
};

PeerKind heddle_peer();
PeerKind c_peer();  // Heddle through its C ABI
PeerKind openmp_peer();
PeerKind flow_graph_peer();

// None where the build has not found them.
std::optional<PeerKind> clang_openmp_peer();
std::optional<PeerKind> starpu_peer();

// The engine inside libmxnet.so of MXNet 1.9.1. It has `workers` threads, a number fixed at the first call of this
// process. Throws std::runtime_error if the library does not load.
PeerKind mxnet_peer(const std::string& library, int workers);

}  // namespace heddle::bench

// The OpenMP peer of the compiler that this was compiled by; the caller owns it. A plain C name, so that it can be
// found in a library too.
extern "C" heddle::bench::Peer* heddle_bench_openmp(const heddle::bench::Program& program,
                                                    heddle::bench::Cell* cells, int workers);
