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
  std::uint32_t ops = 0;        // number of ops; 0: the workload's default
  bool targets = false;         // whether to print targets beside Heddle's rows
  double round_trip = 0;        // nanoseconds of a cache line to another core and back; 0: unknown
  std::string mxnet;            // path of libmxnet.so; empty: without MXNet
  std::vector<PeerKind> peers;  // heddle first

  std::uint32_t ops_of(std::uint32_t usual, std::uint32_t quick) const {
    return ops > 0 ? ops : options.quick ? quick : usual;
  }
};

struct Workload {
  std::string name;
  std::function<void(const Setting&)> run;
};

std::vector<Workload>
program_workloads();  // chain independent fan dag dag10us: time from the first push until all ops are done
std::vector<Workload> replay_workloads();  // the same programs, captured once and launched again and again
Workload push_workload();                  // time of the pushing thread alone
Workload pushwait_workload();              // each op is waited for before the next is pushed
Workload metg_workload();                  // the shortest ops with 50 % efficiency
Workload memory_workload();                // bytes of a queued op
Workload idle_workload();                  // cores used by an engine without work
Workload wakeup_workload();                // from the push until the op starts on a worker that slept
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
  void check(const std::string& subject) const;  // throws std::runtime_error if the cells have other values
  double run_serially();                         // seconds of the ops in a loop without an engine
  // seconds on `workers` threads that share the busy work without any synchronisation
  double run_unordered(int workers);
  double set_spin(std::uint64_t steps);  // sets the busy work of each op; returns the new run_serially()

 private:
  Program program_;
  std::vector<Cell> cells_;
  std::uint64_t expected_;
};

// One run on a peer; returns the measured value.
using Measurement = std::function<double(Peer& peer)>;
using Fits = std::function<bool(const PeerKind& kind)>;

// A subject for each peer that fits. Each run starts with cells of 0 and throws std::runtime_error if they do
// not end as after a serial run. The stage must outlive the subjects. A peer that cannot run here is named
// and left out.
std::vector<Subject> subjects(const Setting& setting, Stage& stage, const Fits& fits,
                              const Measurement& measurement);

bool any_peer(const PeerKind& kind);
bool pushing_peer(const PeerKind& kind);   // true unless Pushing::whole_program
bool queueing_peer(const PeerKind& kind);  // true for Pushing::queues only

// Measures the case, prints its table and appends its JSON lines.
std::vector<Result> run_case(const Setting& setting, const Case& the_case);

// Prints and appends results that are computed from others.
void report(const Setting& setting, const std::vector<Result>& results);
void print_header(const Setting& setting);

// Measures one run of `memory` in this process, which does nothing else: a line on stdin starts it; the
// answer on stdout is bytes per op while queued, and bytes per op kept after all are done.
void run_memory_child(const Setting& setting, const std::string& subject, std::uint32_t beside);

// The process that valgrind counts for `instructions`: runs the program `what` once; the prefix "no_" means
// without an engine, "c_" through the C ABI.
void run_instructions_child(const Setting& setting, const std::string& what);

// An op that blocks its worker: pushed with Session::push_call(Gate::pass, &gate, cell).
class Gate {
 public:
  static void pass(void* gate);  // sleeps until open() is called
  void wait_for_op() const;      // returns when the op has started
  void open();

 private:
  std::atomic<bool> reached_{false}, open_{false};
};

}  // namespace heddle::bench
