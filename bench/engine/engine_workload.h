// What the workloads of engine_bench share. A workload is one file: it makes the program, says what is timed and which
// peers can take part, and hands its results to report().
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
  std::uint32_t ops = 0;        // 0: as many as suit the workload
  bool targets = false;         // print them beside Heddle's rows
  double round_trip = 0;        // nanoseconds of a cache line to another core and back; 0: not known
  std::string mxnet;            // path of libmxnet.so; empty: without
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
program_workloads();  // chain independent fan dag dag10us: from the first push until all is done
std::vector<Workload> replay_workloads();  // the same programs, captured once and launched again and again
Workload push_workload();                  // the pushing thread alone
Workload pushwait_workload();              // one op after the other, each waited for
Workload metg_workload();                  // how short ops may be
Workload memory_workload();                // bytes of a queued op
Workload idle_workload();                  // cores used by an engine without work
Workload wakeup_workload();                // from the push until the op starts on a worker that slept
Workload trace_workload();                 // what recording costs
Workload instructions_workload();          // instructions an op, by valgrind

// A program, its cells, and what must be in them after it.
class Stage {
 public:
  explicit Stage(Program program);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const Program& program() const { return program_; }
  std::uint32_t ops() const { return static_cast<std::uint32_t>(program_.ops.size()); }
  Cell* cells() { return cells_.data(); }
  void clear();
  void check(const std::string& subject) const;  // throws std::runtime_error if the cells hold anything else
  double run_serially();                         // seconds that the ops take without any engine
  double run_unordered(int workers);     // of so many threads that share the busy work and know of no order
  double set_spin(std::uint64_t steps);  // busy work in each op from now on; the new run_serially()

 private:
  Program program_;
  std::vector<Cell> cells_;
  std::uint64_t expected_;
};

// One run on a peer; returns what was measured.
using Measurement = std::function<double(Peer& peer)>;
using Fits = std::function<bool(const PeerKind& kind)>;

// A subject for each peer that fits. Each run starts with cells of 0 and throws std::runtime_error if they do not end up as
// a serial run leaves them. The stage must outlive the subjects. A peer that cannot run here is named and left out.
std::vector<Subject> subjects(const Setting& setting, Stage& stage, const Fits& fits,
                              const Measurement& measurement);

bool any_peer(const PeerKind& kind);
bool pushing_peer(const PeerKind& kind);   // not Pushing::whole_program
bool queueing_peer(const PeerKind& kind);  // only Pushing::queues

// Measures the case, prints its table and appends its JSON lines.
std::vector<Result> run_case(const Setting& setting, const Case& the_case);

// Results that were computed from others, not measured.
void report(const Setting& setting, const std::vector<Result>& results);
void print_header(const Setting& setting);

// Measures one run of `memory` in this process, which does nothing else: a line from stdin starts it, a line on stdout
// says how many bytes an op took while queued and how many were kept when all were done.
void run_memory_child(const Setting& setting, const std::string& subject, std::uint32_t beside);

// What valgrind counts for `instructions`: the program called so, once; without an engine after "no_", through the C ABI
// after "c_".
void run_instructions_child(const Setting& setting, const std::string& what);

// An op that blocks: pushed with Session::push_call(Gate::pass, &gate, cell).
class Gate {
 public:
  static void pass(void* gate);  // sleeps until it is open
  void wait_for_op() const;      // until the op has started
  void open();

 private:
  std::atomic<bool> reached_{false}, open_{false};
};

}  // namespace heddle::bench
