// How an engine schedules, with how many threads and within what bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace heddle {

enum class Scheduler {
  threaded,  // worker threads
  naive,     // every op runs inside its push: the reference that results are compared with
  fuzz,  // one thread picks any ready op, by seed: finds missing dependencies; the same seed gives the same schedule
};

struct EngineOptions {
  Scheduler scheduler = Scheduler::threaded;
  int workers = 0;  // number of worker threads; 0: usable_cores().count(). Only for Scheduler::threaded.
  std::uint64_t seed = 0;  // the seed of `fuzz`
  // Seconds without the end of any op after which the ops in flight are reported to stderr, and as a DOT
  // graph to the file HEDDLE_WATCHDOG_DOT (default heddle_pending_PID.dot); 0: never. Ops cost more while it
  // is on.
  double watchdog = 0;
  // How many seconds longer than its usual 50 microseconds a worker without work looks for some before it is
  // parked. That keeps its core busy, and starts the next op about 20 microseconds sooner. Only for
  // Scheduler::threaded.
  double spin = 0;

  // Bounds of the ops in flight and of the bytes that they hold: a push blocks until there is room, but never inside an
  // op. An op larger than max_bytes has room when no other holds any. 0: unbounded. See docs/engine.md.
  std::size_t max_ops = 0, max_bytes = 0;

  // Called on each worker thread before its first op and after its last, for what a thread has to set up: a name, cores,
  // the state of an interpreter. They must neither throw nor use an engine. Only for Scheduler::threaded.
  std::function<void()> on_thread_start{}, on_thread_end{};

  // Options from HEDDLE_SCHEDULER (threaded, naive, fuzz or fuzz:SEED), HEDDLE_WORKERS, HEDDLE_WATCHDOG,
  // HEDDLE_SPIN, HEDDLE_MAX_OPS and HEDDLE_MAX_BYTES. An engine made without options uses them; one made with
  // options ignores the environment, unless its options were copied from here. Throws InvalidArgument, also
  // for a HEDDLE_CHECK that is neither 0 nor 1.
  static EngineOptions from_environment();
};

}  // namespace heddle
