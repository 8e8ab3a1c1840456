#include <doctest/doctest.h>

#include "launch/restarts.h"

using heddle::tool::Restarts;
using namespace std::chrono_literals;

TEST_CASE("restarts: at once for a process that has lived, later and later for one that dies at once") {
  Restarts restarts(100);
  Restarts::Time now{};
  CHECK(restarts.after_death(now, now + 10s) == 0ms);
  now += 10s;
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms, 5000ms}) {
    CHECK(restarts.after_death(now, now + 1s) == pause);
    now += 1s + pause;
  }
  CHECK(restarts.after_death(now, now + 3s) == 0ms);
  CHECK(restarts.after_death(now + 3s, now + 4s) == 100ms);
}

TEST_CASE("restarts: no more than so many within a minute") {
  Restarts restarts(2);
  const Restarts::Time begin{};
  CHECK(restarts.after_death(begin, begin + 10s).has_value());
  CHECK(restarts.after_death(begin + 10s, begin + 30s).has_value());
  CHECK(!restarts.after_death(begin + 30s, begin + 69s).has_value());
  // The first restart was a minute ago, so it no longer counts.
  CHECK(restarts.after_death(begin + 30s, begin + 70s).has_value());
  CHECK(!Restarts(0).after_death(begin, begin + 10s).has_value());
}
