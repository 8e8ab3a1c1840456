// Workers that never make a call for which others wait.
#include <algorithm>
#include <chrono>
#include <deque>
#include <string>

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

namespace {

// Two workers with two keys, "a" and "b", of two elements each.
struct Waiting {
  explicit Waiting(const std::string& consistency) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) links.emplace_back(host, hello_of(rank, 2, consistency));
    for (const char* const key : {"a", "b"}) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) init(rank, key);
    }
  }
  void settle() {
    for (Link& link : links) link.settle();
  }
  void init(std::uint32_t rank, const std::string& key) {
    links[rank].send({.kind = Kind::init, .has_value = rank == 0, .bytes = 8, .text = key},
                     rank == 0 ? Bytes(8) : Bytes());
    settle();
  }
  void push(std::uint32_t rank, std::uint32_t key, std::uint64_t clock) {
    links[rank].ask({.kind = Kind::push, .key = key, .clock = clock}, Bytes(8));
  }
  std::uint64_t pull(std::uint32_t rank, std::uint32_t key, std::uint64_t clock) {
    const std::uint64_t number = links[rank].send({.kind = Kind::pull, .key = key, .clock = clock});
    settle();
    return number;
  }
  std::string pong(std::uint32_t rank) { return links[rank].ask({.kind = Kind::ping}).first.text; }
  std::ptrdiff_t said() const {
    return std::count(host.events.begin(), host.events.end(), "workers_waiting");
  }
  Host host;
  std::deque<Link> links;
};

}  // namespace

TEST_CASE("waiting workers: those that wait for each other are named after 5 s, and told") {
  Waiting job("sync");
  job.push(0, 0, 1);
  job.push(1, 1, 1);
  const std::uint64_t waits = job.pull(0, 0, 1);
  job.pull(1, 1, 1);
  job.host.tick(4s);
  CHECK(job.said() == 0);
  CHECK(job.pong(0).empty());
  job.host.tick(2s);
  CHECK(job.said() == 1);
  const std::string text =
      "worker 0 waits for a push of key a by worker 1; worker 1 waits for a push of key b by worker 0";
  CHECK(job.pong(0) == text);
  CHECK(job.pong(1) == text);
  job.host.tick(10s);
  CHECK(job.said() == 1);
  job.host.tick(5s);
  CHECK(job.said() == 2);
  job.push(1, 0, 1);  // worker 1's push of key a, for which worker 0 waits
  job.settle();
  CHECK(job.links[0].has_reply(waits));
  CHECK(job.pong(1).empty());
  job.host.tick(6s);
  CHECK(job.said() == 2);
}

TEST_CASE("waiting workers: a worker that computes for long is not taken for one that waits") {
  Waiting job("sync");
  job.push(0, 0, 1);
  job.pull(0, 0, 1);
  for (int i = 0; i < 11; ++i) {
    job.host.tick(5s);
    for (const std::uint32_t rank : {0, 1}) CHECK(job.pong(rank).empty());
  }
  CHECK(job.said() == 0);
  job.host.tick(6s);
  CHECK(job.said() == 1);
  CHECK(job.pong(0) == "worker 0 waits for a push of key a by worker 1");
  CHECK(job.pong(1).empty());
}

TEST_CASE("waiting workers: bounds, barriers and values that nobody brings are named, too") {
  Waiting job("ssp:1");
  for (const std::uint32_t rank : {0, 1}) {
    for (std::uint64_t clock = 1; clock <= 2; ++clock) job.push(rank, rank, clock);
    job.pull(rank, rank, 2);
  }
  job.host.tick(6s);
  CHECK(job.said() == 1);
  CHECK(job.pong(0) ==
        "worker 0 waits for a push of key a by worker 1; worker 1 waits for a push of key b by worker 0");
  Waiting other("async");
  other.init(1, "c");
  for (int i = 0; i < 12; ++i) {
    CHECK(other.pong(0).empty());
    CHECK(other.pong(1).empty());
    other.host.tick(5s);
  }
  CHECK(other.pong(1) == "worker 1 waits for the value of key c, which worker 0 initialises");
  other.links[0].send({.kind = Kind::barrier});
  other.settle();
  other.host.tick(6s);
  CHECK(other.pong(0) ==
        "worker 0 waits for a barrier that worker 1 has not called; worker 1 waits for the value of key c, "
        "which worker 0 initialises");
}
