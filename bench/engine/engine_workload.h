// What the workloads of engine_bench share. Each workload is a file: it makes the program, defines what is
// timed and which peers take part, and passes its results to report().
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine_peer.h"
#include "support/support.h"

namespace heddle::bench {

struct Setting {
  Options options;
  int workers = 2;
  std::uint32_t ops = 0;  // number of ops; 0: the workload's default
  bool targets = false;   // whether to print targets beside Heddle's rows
  // Nanoseconds that a cache line takes to another core and back; 0: unknown.
  double round_trip = 0;
  std::string mxnet;            // path of libmxnet.so; empty: MXNet is not measured
  std::vector<PeerKind> peers;  // the libraries to compare, Heddle first

  std::uint32_t ops_of(std::uint32_t usual, std::uint32_t quick) const {
    return ops > 0 ? ops : options.quick ? quick : usual;
  }
};

struct Workload {
  std::string name;
  std::function<void(const Setting&)> run;
};

// The programs chain, independent, fan, dag and dag10us: time from the first push until all ops are done.
std::vector<Workload> program_workloads();
std::vector<Workload> replay_workloads();  // programs captured once as a graph and launched repeatedly
Workload push_workload();                  // time that a push takes the pushing thread
Workload pushwait_workload();              // time of a push and a wait for the op, one op after the other
Workload metg_workload();                  // the shortest ops with 50 % efficiency
Workload memory_workload();                // bytes of memory that a queued op takes
Workload idle_workload();                  // CPU use of an engine without work
Workload wakeup_workload();                // time from a push until the op starts on a worker that slept
Workload trace_workload();                 // the cost of recording a trace
Workload instructions_workload();          // instructions per op, counted by valgrind

// A program, its cells, and the values that they must have after a run.
class Stage {
 public:
  explicit Stage(Program program);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const Program& program() const { return program_; }
  std::uint32_t ops() const { return static_cast<std::uint32_t>(program_.ops.size()); }
  Cell* cells() { return cells_.data(); }
  void clear();
  // Throws std::runtime_error if the cells do not have the values of a serial run.
  void check(const std::string& subject) const;
  // Runs the ops in a loop without an engine; returns the seconds.
  double run_serially();
  // Runs the ops' busy work on `workers` threads, without any synchronisation; returns the seconds.
  double run_unordered(int workers);
  // Sets the steps of busy work of each op; returns the seconds of a serial run.
  double set_spin(std::uint64_t steps);

 private:
  Program program_;
  std::vector<Cell> cells_;
  std::uint64_t expected_;
};

// Makes one measured run on a peer; returns the measured value.
using Measurement = std::function<double(Peer& peer)>;
using Fits = std::function<bool(const PeerKind& kind)>;

// A subject for each peer that fits. Each run starts with cells of 0 and throws std::runtime_error if they do
// not end as after a serial run. The stage must outlive the subjects. A peer that cannot run here is named
// and left out.
std::vector<Subject> subjects(const Setting& setting, Stage& stage, const Fits& fits,
                              const Measurement& measurement);

bool any_peer(const PeerKind& kind);
// Whether the library takes ops one by one; false if it takes the whole program at once.
bool pushing_peer(const PeerKind& kind);
// Whether a push only queues the op; false if the pushing thread may run it, or nothing is pushed.
bool queueing_peer(const PeerKind& kind);

// Measures the case, prints its table and appends its JSON lines.
std::vector<Result> run_case(const Setting& setting, const Case& the_case);

// Prints results that are computed from other results, and appends them to the JSON file.
void report(const Setting& setting, const std::vector<Result>& results);
void print_header(const Setting& setting);

// The whole work of a child process of the workload `memory`. A line on stdin starts the run. The answer on
// stdout is the bytes per op while the ops are queued, and the bytes per op kept after all are done.
void run_memory_child(const Setting& setting, const std::string& subject, std::uint32_t beside);

// The work of the child process whose instructions valgrind counts: runs the program `what` once. The prefix
// "no_" of `what` means without an engine, "c_" means through the C ABI.
void run_instructions_child(const Setting& setting, const std::string& what);

// An op that blocks its worker: pushed with Session::push_call(Gate::pass, &gate, cell).
class Gate {
 public:
  static void pass(void* gate);  // the body of the op: sleeps until open() is called
  void wait_for_op() const;      // waits until the op has started
  void open();

 private:
  std::atomic<bool> reached_{false}, open_{false};
};

}  // namespace heddle::bench
