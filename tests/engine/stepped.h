// Engines with streams, for tests of ops on streams: an engine of each scheduler, and an engine whose streams
// advance only when a test steps them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/host_stream.h>
#include <heddle/stream_ops.h>

#include "schedulers.h"

namespace heddle::test {

template <class F> void until(F&& holds) {
  while (!holds()) std::this_thread::yield();
}

// An engine with workers and two streams. The streams advance only when the test steps them.
struct Stepped {
  explicit Stepped(int workers = 2)
      : Stepped(EngineOptions{.scheduler = Scheduler::threaded, .workers = workers}) {}
  explicit Stepped(const EngineOptions& options) : engine(options), a(add({})), b(add({})) {}
  ~Stepped() { finish(); }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  HostStream& add(HostStreamOptions options) {
    options.stepped = true;
    auto stream = std::make_unique<HostStream>(cpu(), Lane::compute, options);
    streams.push_back(stream.get());
    return static_cast<HostStream&>(engine.adopt_stream(std::move(stream)));
  }

  // Waits until the workers have done everything that is possible without a step. Pushes ops that do nothing
  // for this: workers reach the last of them only after they have done the rest.
  void let_be() {
    for (int i = 0; i < 50; ++i) {
      std::atomic<bool> ran = false;
      engine.push([&] { ran = true; });
      until([&] { return ran.load(); });
    }
  }

  void finish() {
    std::atomic<bool> done = false;
    std::thread waits([&] {
      try {
        engine.wait_all();
      } catch (const AggregateError&) {
      }
      done = true;
    });
    while (!done) {
      for (HostStream* stream : streams) stream->step();
    }
    waits.join();
  }

  Engine engine;
  std::vector<HostStream*> streams;
  HostStream& a;
  HostStream& b;
};

inline void run_dry(HostStream& stream) {
  while (stream.step()) {
  }
}

// The function of an op on a stream that enqueues `fn` as its work.
template <class F> auto work(F fn) {
  return [fn](Stream& stream) { stream.enqueue(fn); };
}

// Runs the test with an engine of each scheduler, and with many seeds of the scheduler fuzz.
template <class F> void on_every_engine(F&& test) {
  on_every_scheduler(
      [&](Engine& engine) { test(engine, engine.make_stream(cpu()), engine.make_stream(cpu(1))); });
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    {
      Engine engine({.scheduler = Scheduler::fuzz, .seed = seed});
      test(engine, engine.make_stream(cpu()), engine.make_stream(cpu()));
    }
    Engine engine({.scheduler = Scheduler::threaded, .workers = 1 + static_cast<int>(seed % 3)});
    auto stream = [&](std::uint64_t n) -> Stream& {
      const HostStreamOptions options{.seed = 2 * seed + n,
                                      .most_delay = static_cast<int>(seed % 5),
                                      .calls_back = (seed + n) % 2 == 0,
                                      .alone = seed % 7 == 0};
      return engine.adopt_stream(std::make_unique<HostStream>(cpu(), Lane::compute, options));
    };
    Stream& a = stream(0);
    test(engine, a, stream(1));
  }
}

}  // namespace heddle::test
