// Runs a test on an engine of each scheduler.
#pragma once

#include <doctest/doctest.h>

#include <heddle/engine.h>

namespace heddle::test {

inline const EngineOptions kSchedulers[] = {{.scheduler = Scheduler::naive},
                                            {.scheduler = Scheduler::threaded, .workers = 1},
                                            {.scheduler = Scheduler::threaded, .workers = 4},
                                            {.scheduler = Scheduler::fuzz, .seed = 3}};

template <class F> void on_every_scheduler(F&& test) {
  for (const EngineOptions& options : kSchedulers) {
    CAPTURE(static_cast<int>(options.scheduler));
    CAPTURE(options.workers);
    Engine engine(options);
    test(engine);
  }
}

// Like on_every_scheduler, for tests that leave errors of ops unseen: takes these errors, so that the engine
// does not log them.
template <class F> void on_every_scheduler_with_errors(F&& test) {
  on_every_scheduler([&](Engine& engine) {
    test(engine);
    try {
      engine.wait_all();
    } catch (const AggregateError&) {
    }
  });
}

}  // namespace heddle::test
