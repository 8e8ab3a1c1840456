// Several pushes or pulls in one message: the same as single requests, and each push counts once despite
// cuts.
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

using Numbers = std::vector<std::int64_t>;
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();

Request bundle_of(Kind kind, const std::vector<BundleEntry>& entries) {
  Request request{.kind = kind, .lr = kNoRate, .entries = entries};
  for (const BundleEntry& entry : entries) request.bytes += entry.bytes;
  return request;
}

BundleEntry entry_of(std::uint32_t key, std::uint64_t clock, std::size_t elements) {
  return {.key = key,
          .bytes = static_cast<std::uint32_t>(elements * sizeof(std::int64_t)),
          .clock = clock,
          .dtype = DType::i64};
}

// An init of the key with number `key`, which has as many elements: key 0 has none.
Request init_of(std::uint32_t key, bool has_value) {
  return {.kind = Kind::init,
          .has_value = has_value,
          .dtype = DType::i64,
          .bytes = key * sizeof(std::int64_t),
          .text = "key" + std::to_string(key)};
}

// A worker that in each round pushes rank + 1 to each element of all keys and then pulls the keys. It sends
// the keys one by one or in bundles, which differ between rounds.
class Worker {
 public:
  Worker(Host& host, std::uint32_t rank, std::uint32_t workers, const std::string& consistency,
         std::uint32_t keys, std::uint64_t rounds, std::uint64_t seed)
      : link(host, hello_of(rank, workers, consistency)),
        random_(seed),
        rank_(rank),
        keys_(keys),
        rounds_(rounds) {
    numbers_.push_back(link.send({.kind = Kind::set_optimizer, .text = "add"}));
    for (std::uint32_t key = 0; key < keys; ++key)
      numbers_.push_back(link.send(init_of(key, rank == 0), rank == 0 ? bytes_of(Numbers(key)) : Bytes()));
  }
  bool over() const { return over_; }
  void go_on() {
    if (over_) return;
    for (const std::uint64_t number : numbers_) {
      if (!link.has_reply(number)) return;
    }
    Numbers seen;
    for (const std::uint64_t number : numbers_) {
      const auto [reply, value] = link.take(number);
      CHECK(reply.text == "");
      CHECK(reply.kind != Kind::failed);
      for (const std::int64_t one : values_in<std::int64_t>(value)) seen.push_back(one);
    }
    if (round_ > 0) pulled.push_back(std::move(seen));
    numbers_.clear();
    over_ = ++round_ > rounds_;
    for (std::uint32_t key = 0; key < keys_ && !over_;) {
      const auto count = 1 + static_cast<std::uint32_t>(random_() % (keys_ - key));
      random_() % 4 == 0 ? singles(key, key + count) : bundle(key, key + count);
      key += count;
    }
  }
  std::vector<Numbers> pulled;  // pulled values by round
  Link link;

 private:
  void bundle(std::uint32_t begin, std::uint32_t end) {
    std::vector<BundleEntry> entries;
    Numbers values;
    for (std::uint32_t key = begin; key < end; ++key) {
      entries.push_back(entry_of(key, round_, key));
      values.insert(values.end(), key, rank_ + 1);
    }
    numbers_.push_back(link.send(bundle_of(Kind::push_many, entries), bytes_of(values)));
    numbers_.push_back(link.send(bundle_of(Kind::pull_many, entries)));
  }
  void singles(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t key = begin; key < end; ++key) {
      numbers_.push_back(
          link.send({.kind = Kind::push, .dtype = DType::i64, .key = key, .clock = round_, .lr = kNoRate},
                    bytes_of(Numbers(key, rank_ + 1))));
      numbers_.push_back(link.send({.kind = Kind::pull, .key = key, .clock = round_}));
    }
  }

  std::mt19937_64 random_;
  std::uint32_t rank_, keys_;
  std::uint64_t round_ = 0, rounds_;
  bool over_ = false;
  std::vector<std::uint64_t> numbers_;  // numbers of the requests that have no reply yet
};

void run_program(std::uint64_t seed, const std::string& consistency, std::int64_t slack) {
  CAPTURE(seed);
  CAPTURE(consistency);
  std::mt19937_64 random(seed);
  const auto workers = 1 + static_cast<std::uint32_t>(random() % 4),
             keys = 2 + static_cast<std::uint32_t>(random() % 6);
  // cuts: average number of cut connections in 1000 steps.
  const auto rounds = 1 + random() % 6, cuts = random() % 40;
  Host host;
  std::vector<std::unique_ptr<Worker>> all;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    all.push_back(std::make_unique<Worker>(host, rank, workers, consistency, keys, rounds, seed + rank));
  for (int step = 0; !std::all_of(all.begin(), all.end(), [](const auto& one) { return one->over(); });
       ++step) {
    REQUIRE(step < 200'000);
    Worker& one = *all[random() % all.size()];
    const auto what = random() % 1000;
    if (what < cuts) {
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
  for (const auto& worker : all) {
    REQUIRE(worker->pulled.size() == rounds);
    for (std::size_t round = 0; round < rounds; ++round) {
      const Numbers& seen = worker->pulled[round];
      CHECK(seen.size() == keys * (keys - 1) / 2);
      const auto exact = static_cast<std::int64_t>(round + 1) * a_round;
      for (const std::int64_t one : seen) {
        if (consistency == "sync") CHECK(one == exact);
        CHECK(one <= static_cast<std::int64_t>(rounds) * a_round);
      }
    }
  }
  const ServerStats stats = host.core.stats(host.now);
  CHECK(stats.pushes == workers * keys * rounds);
  if (consistency.starts_with("ssp")) CHECK(stats.worst_staleness <= slack);
  for (std::uint32_t key = 0; key < keys; ++key) {
    const auto answer = all[0]->link.ask({.kind = Kind::pull, .key = key, .clock = rounds});
    CHECK(values_in<std::int64_t>(answer.second) ==
          Numbers(key, static_cast<std::int64_t>(rounds) * a_round));
  }
}

// A worker with keys of 1 and 2 elements, all 0, and a key of 3 elements without a value yet.
struct Alone {
  explicit Alone(const ServerOptions& options = {})
      : host(options), link(host, hello_of(0, 2, "async")), other(host, hello_of(1, 2, "async")) {
    for (std::uint32_t key = 1; key <= 2; ++key)
      CHECK(link.ask(init_of(key, true), bytes_of(Numbers(key))).first.kind == Kind::done);
    other.send(init_of(3, false));
    other.settle();
  }
  Host host;
  Link link, other;
};

}  // namespace

TEST_CASE("server bundles: no push is lost or counts twice, wherever connections are cut") {
  const auto programs = test::argument("programs", test::kSanitized ? 25 : 500);
  for (long long seed = 0; seed < programs; ++seed) {
    run_program(static_cast<std::uint64_t>(seed), "sync", 0);
    run_program(static_cast<std::uint64_t>(seed), "async", 0);
    run_program(static_cast<std::uint64_t>(seed), "ssp:0", 0);
    run_program(static_cast<std::uint64_t>(seed), "ssp:2", 2);
  }
}

TEST_CASE("server bundles: values that are replaced at once are changes, which a snapshot waits for") {
  Alone alone;
  const std::uint64_t before = alone.host.core.changes();
  alone.link.ask(bundle_of(Kind::push_many, {entry_of(0, 1, 1)}), bytes_of(Numbers{7}));
  CHECK(alone.host.core.changes() > before);
}

TEST_CASE("server bundles: a push that is refused says which others count, and the pull behind it fails") {
  Alone alone;
  const std::vector<BundleEntry> entries = {entry_of(0, 1, 1), entry_of(2, 1, 3), entry_of(1, 1, 2)};
  const std::uint64_t push =
      alone.link.send(bundle_of(Kind::push_many, entries), bytes_of(Numbers{7, 0, 0, 0, 8, 9}));
  const std::uint64_t pull = alone.link.send(bundle_of(Kind::pull_many, entries));
  alone.link.settle();
  const auto [pushed, counted] = alone.link.take(push);
  CHECK(pushed.kind == Kind::failed);
  CHECK(pushed.text == "key key3: it has no value yet");
  CHECK(counted == Bytes{std::byte{1}, std::byte{0}, std::byte{1}});
  const auto [pulled, values] = alone.link.take(pull);
  CHECK(pulled.kind == Kind::failed);
  CHECK(pulled.text == "key key3: the push before the pull has failed");
  const auto good = bundle_of(Kind::pull_many, {entry_of(1, 1, 2), entry_of(0, 1, 1)});
  CHECK(values_in<std::int64_t>(alone.link.ask(good).second) == Numbers{8, 9, 7});
}

TEST_CASE("server bundles: a pull of a wrong length fails, and one of a failed key") {
  Alone alone;
  const auto [wrong, nothing] = alone.link.ask(bundle_of(Kind::pull_many, {entry_of(0, 0, 2)}));
  CHECK(wrong.text == "key key1: it has 8 bytes, not 16");
}

TEST_CASE("server bundles: the memory limit refuses the pushes beyond it") {
  Alone alone({.memory_limit = 32});
  const std::vector<BundleEntry> entries = {entry_of(0, 1, 1), entry_of(1, 1, 2)};
  const auto [reply, counted] =
      alone.link.ask(bundle_of(Kind::push_many, entries), bytes_of(Numbers{1, 2, 3}));
  CHECK(reply.kind == Kind::failed);
  CHECK(reply.text.find("key key2, worker 0: 16 bytes more would exceed the memory limit") == 0);
  CHECK(counted == Bytes{std::byte{1}, std::byte{0}});
}

TEST_CASE("server bundles: what cannot be one is refused") {
  Alone alone;
  const auto receive = [&](const Request& request, std::size_t payload) {
    alone.host.receive(1, {encode(request), Bytes(payload)});
  };
  Request good = bundle_of(Kind::push_many, {entry_of(0, 1, 1), entry_of(1, 1, 2)});
  CHECK_THROWS_AS(receive(good, 16), MalformedMessage);
  Request other = good;
  other.bytes = 16;  // not the sum of the entries' sizes
  CHECK_THROWS_AS(receive(other, 16), MalformedMessage);
  CHECK_THROWS_AS(receive(bundle_of(Kind::push_many, {}), 0), MalformedMessage);
  const std::vector<BundleEntry> many(kMostBundled + 1, entry_of(0, 1, 0));
  CHECK_THROWS_AS(receive(bundle_of(Kind::pull_many, many), 0), MalformedMessage);
  const BundleEntry large{.key = 0, .bytes = 1u << 31, .clock = 1, .dtype = DType::i64};
  CHECK_THROWS_AS(receive(bundle_of(Kind::pull_many, {large, large, large}), 0), MalformedMessage);
  CHECK_THROWS_AS(receive(bundle_of(Kind::pull_many, {entry_of(9, 0, 1)}), 0), MalformedMessage);
  CHECK_THROWS_AS(receive(bundle_of(Kind::push_many, {entry_of(0, 2, 1)}), 8), MalformedMessage);
  Bytes head = encode(good);
  for (std::size_t length = 0; length < head.size(); ++length)
    CHECK_THROWS_AS(decode_from_worker(std::span(head).first(length), 24), MalformedMessage);
  head[head.size() - 1] = std::byte{99};
  CHECK_THROWS_AS(decode_from_worker(head, 24), MalformedMessage);
}
