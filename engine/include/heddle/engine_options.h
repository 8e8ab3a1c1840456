// How an engine schedules, with how many threads and within what bounds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle {

enum class Scheduler {
  threaded,  // worker threads
  naive,     // every op runs inside its push: the oracle
  fuzz,      // one thread picks any ready op, by seed: finds missing dependencies, replays exactly
};

struct EngineOptions {
  Scheduler scheduler = Scheduler::threaded;
  int workers = 0;         // worker threads; 0: usable_cores().count(). Only for threaded.
  std::uint64_t seed = 0;  // only for fuzz
  // Seconds after which ops in flight, none of which ended, are reported to stderr, and as a DOT graph to the file
  // HEDDLE_WATCHDOG_DOT (default heddle_pending_PID.dot); 0: never. Ops cost more while it is on.
  double watchdog = 0;
  // Seconds that a worker without work goes on looking for some before it sleeps, after the 50 microseconds or so that it
  // always does. It keeps its core busy, and starts the next op about 20 microseconds sooner. Only for threaded.
  double spin = 0;

  // Ops in flight, and bytes that they hold: a push blocks until there is room, but never inside an op. An op larger
  // than max_bytes has room when no other holds any. 0: unbounded. See docs/engine.md.
  std::size_t max_ops = 0, max_bytes = 0;

  // HEDDLE_SCHEDULER (threaded, naive, fuzz or fuzz:SEED), HEDDLE_WORKERS, HEDDLE_WATCHDOG, HEDDLE_SPIN, HEDDLE_MAX_OPS,
  // HEDDLE_MAX_BYTES. An engine made without options has these; one made with options has those alone, unless they
  // started from here. Throws InvalidArgument, also for a HEDDLE_CHECK that is neither 0 nor 1.
  static EngineOptions from_environment();
};

}  // namespace heddle
