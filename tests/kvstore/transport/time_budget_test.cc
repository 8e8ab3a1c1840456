#include "transport/time_budget.h"

#include <chrono>

#include <doctest/doctest.h>

using heddle::net_detail::TimeBudget;
using namespace std::chrono_literals;

namespace {

const TimeBudget::Clock::time_point kStart{1000s};

}  // namespace

TEST_CASE("time share: work that is always there takes its part of the time") {
  TimeBudget share(5, 5ms);
  std::chrono::nanoseconds worked{};
  auto now = kStart;
  for (; now < kStart + 10s; now += 100us) {
    if (!share.allows(now)) continue;
    share.spend(now, now + 1ms);
    worked += 1ms;
    now += 1ms;
  }
  CHECK(worked >= 1990ms);
  CHECK(worked <= 2010ms);
}

TEST_CASE("time share: after a rest the burst goes at once, and no more") {
  TimeBudget share(5, 5ms);
  for (const auto rest : {1s, 3600s}) {
    auto now = share.next() + kStart.time_since_epoch() + rest;
    int pieces = 0;
    while (share.allows(now)) {
      share.spend(now, now + 1ms);
      now += 1ms;
      ++pieces;
    }
    // The burst is 5 pieces. Meanwhile a quarter of the time spent is regained, which allows about one more.
    CHECK(pieces >= 5);
    CHECK(pieces <= 7);
    CHECK(share.next() > now);
    CHECK(share.allows(share.next()));
  }
}
