// A server's core with workers that lose connections, on one thread in an order determined by a seed: no push
// is lost or counted twice, and no worker gets further ahead than the consistency allows.
#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "arguments.h"
#include "core_host.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

// A worker that in each of `rounds` rounds pushes rank + 1 to each of `keys` keys, and pulls each key after
// its push.
class Adder {
 public:
  Adder(Host& host, std::uint32_t rank, std::uint32_t workers, const std::string& consistency, int keys,
        int rounds)
      : link(host, hello_of(rank, workers, consistency)),
        rank_(rank),
        rounds_(rounds),
        keys_(static_cast<std::size_t>(keys)) {
    waiting_ = link.send({.kind = Kind::set_optimizer, .text = "add"});
  }
  bool over() const { return over_; }
  // Sends the next requests of all keys whose last request has its reply.
  void go_on() {
    if (over_ || (waiting_ != 0 && !link.has_reply(waiting_))) return;
    if (waiting_ != 0) {
      CHECK(link.take(std::exchange(waiting_, 0)).first.kind == Kind::done);
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        const bool first = rank_ == 0;
        keys_[i].number = link.send({.kind = Kind::init,
                                     .has_value = first,
                                     .dtype = DType::i64,
                                     .bytes = kBytes,
                                     .text = "key" + std::to_string(i)},
                                    first ? bytes_of(std::vector<std::int64_t>(kElements)) : Bytes());
      }
    }
    over_ = true;
    for (Key& key : keys_) {
      if (key.number != 0 && link.has_reply(key.number)) next(key);
      over_ = over_ && key.round > rounds_;
    }
  }
  std::vector<std::vector<std::int64_t>> seen;  // for each pull the values that it got, in order
  Link link;

 private:
  static constexpr std::size_t kElements = 5, kBytes = kElements * sizeof(std::int64_t);
  struct Key {
    std::uint64_t number = 0;  // number of the request that has no reply yet
    Kind last = Kind::init;
    std::uint32_t key = 0;
    int round = 0;
  };
  void next(Key& key) {
    auto [reply, value] = link.take(std::exchange(key.number, 0));
    if (key.last == Kind::init) key.key = reply.key;
    if (key.last == Kind::pull) {
      const auto values = values_in<std::int64_t>(value);
      REQUIRE(values.size() == kElements);
      for (const std::int64_t one : values) CHECK(one == values[0]);
      seen.push_back({static_cast<std::int64_t>(key.key), key.round, values[0]});
    }
    if (key.last != Kind::push) {
      if (++key.round > rounds_) return;
      key.last = Kind::push;
      key.number = link.send({.kind = Kind::push,
                              .dtype = DType::i64,
                              .key = key.key,
                              .clock = static_cast<std::uint64_t>(key.round),
                              .lr = std::numeric_limits<double>::quiet_NaN()},
                             bytes_of(std::vector<std::int64_t>(kElements, rank_ + 1)));
    } else {
      CHECK(reply.kind == Kind::done);
      key.last = Kind::pull;
      key.number =
          link.send({.kind = Kind::pull, .key = key.key, .clock = static_cast<std::uint64_t>(key.round)});
    }
  }
  std::uint32_t rank_;
  int rounds_;
  std::uint64_t waiting_ = 0;
  bool over_ = false;
  std::vector<Key> keys_;
};

// `replaced`: average number of times in 1000 steps that another core takes over the saved state. All
// connections are cut each time.
void run_program(std::uint64_t seed, const std::string& consistency, std::uint64_t slack,
                 std::uint64_t replaced = 0) {
  CAPTURE(seed);
  CAPTURE(consistency);
  std::mt19937_64 random(seed);
  const int workers = 1 + static_cast<int>(random() % 4), keys = 1 + static_cast<int>(random() % 3),
            rounds = 1 + static_cast<int>(random() % 6);
  const auto cuts = random() % 40;  // average number of cut connections in 1000 steps
  Host host;
  std::vector<std::unique_ptr<Adder>> adders;
  for (int rank = 0; rank < workers; ++rank)
    adders.push_back(std::make_unique<Adder>(host, static_cast<std::uint32_t>(rank),
                                             static_cast<std::uint32_t>(workers), consistency, keys, rounds));
  const auto all_over = [&] {
    return std::all_of(adders.begin(), adders.end(), [](const auto& one) { return one->over(); });
  };
  for (int step = 0; !all_over(); ++step) {
    REQUIRE(step < 100'000);
    Adder& one = *adders[random() % adders.size()];
    const auto what = random() % 1000;
    if (what < replaced) {
      host.replace_core();
      for (const auto& each : adders) each->link.cut();
    } else if (what < replaced + cuts) {
      one.link.cut();
    } else if (what < 400) {
      one.link.step();
    } else if (what < 700) {
      one.link.hear();
    } else {
      one.go_on();
    }
  }
  const std::int64_t a_round = workers * (workers + 1) / 2;
  for (const auto& adder : adders) {
    for (const auto& seen : adder->seen) {
      if (consistency == "sync") CHECK(seen[2] == seen[1] * a_round);
      CHECK(seen[2] <= rounds * a_round);
    }
  }
  const ServerStats stats = host.core.stats(host.now);
  CHECK(stats.pushes == static_cast<std::uint64_t>(workers * keys * rounds));
  if (consistency.starts_with("ssp")) CHECK(stats.worst_staleness <= static_cast<std::int64_t>(slack));
  for (std::uint32_t key = 0; key < static_cast<std::uint32_t>(keys); ++key) {
    auto [reply, value] =
        adders[0]->link.ask({.kind = Kind::pull, .key = key, .clock = static_cast<std::uint64_t>(rounds)});
    REQUIRE(reply.kind == Kind::value);
    CHECK(values_in<std::int64_t>(value)[0] == rounds * a_round);
  }
}

}  // namespace

TEST_CASE("server core: no push is lost or counts twice, wherever connections are cut") {
  const auto programs = test::argument("programs", test::kSanitized ? 25 : 500);
  for (long long seed = 0; seed < programs; ++seed) {
    run_program(static_cast<std::uint64_t>(seed), "sync", 0);
    run_program(static_cast<std::uint64_t>(seed), "async", 0);
    run_program(static_cast<std::uint64_t>(seed), "ssp:0", 0);
    run_program(static_cast<std::uint64_t>(seed), "ssp:2", 2);
  }
}

TEST_CASE("server core: no push is lost or counts twice where another core goes on with a saved state") {
  const auto programs = test::argument("programs", test::kSanitized ? 20 : 300);
  for (long long seed = 0; seed < programs; ++seed) {
    run_program(static_cast<std::uint64_t>(seed), "sync", 0, 30);
    run_program(static_cast<std::uint64_t>(seed), "async", 0, 30);
    run_program(static_cast<std::uint64_t>(seed), "ssp:1", 1, 30);
  }
}
