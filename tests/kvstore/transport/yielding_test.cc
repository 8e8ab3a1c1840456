#include "transport/yielding.h"

#include <chrono>

#include <doctest/doctest.h>

using heddle::net_detail::Yielding;
using namespace std::chrono_literals;

namespace {

struct Spinner {
  Yielding yielding{};
  Yielding::Clock::time_point now{1000s};
  bool allows() const { return yielding.allows(now); }
  void yield(std::chrono::microseconds away) {
    yielding.was_away(now, now + away);
    now += away;
  }
};

}  // namespace

TEST_CASE("yielding: beside threads that wait, too, it goes on, also after a long absence now and then") {
  Spinner one;
  for (int i = 0; i < 1000; ++i) {
    one.yield(i % 10 < 2 ? 3ms : 300us);
    REQUIRE(one.allows());
  }
}

TEST_CASE("yielding: beside a thread that computes it pauses after some slices of time, and tries again") {
  Spinner one;
  int slices = 0;
  const auto end = one.now + 10s;
  while (one.now < end) {
    if (one.allows()) {
      one.yield(3ms);
      ++slices;
    } else {
      one.now += 1ms;
    }
  }
  CHECK(slices >= 100);
  CHECK(slices <= 120);
}
