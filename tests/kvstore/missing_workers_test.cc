// Workers that others wait for, and that never come.
#include <algorithm>
#include <chrono>

#include <doctest/doctest.h>

#include "core_host.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

TEST_CASE("server core: ranks that never come are named after 5 s, and shown") {
  Host host;
  Link first(host, hello_of(0, 4, "sync"));
  first.settle();
  const auto said = [&] { return std::count(host.events.begin(), host.events.end(), "workers_missing"); };
  host.tick(4s);
  CHECK(said() == 0);
  CHECK(host.core.stats(host.now).workers.size() == 1);
  host.tick(2s);
  CHECK(said() == 1);
  CHECK(host.core.stats(host.now).workers.size() == 4);
  CHECK_FALSE(host.core.stats(host.now).workers[2].connected);
  host.tick(5s);
  CHECK(said() == 1);
  first.settle();
  for (std::uint32_t rank = 1; rank < 4; ++rank) Link(host, hello_of(rank, 4, "sync")).settle();
  host.tick(15s);
  CHECK(said() == 1);
}
