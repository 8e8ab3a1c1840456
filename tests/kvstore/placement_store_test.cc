// Stores with each placement: values, workers whose keys differ, workers that restart.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/ops.h>

#include "core_host.h"
#include "dist_job.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;
using Floats = std::vector<float>;
using Sizes = std::vector<std::pair<Key, std::int64_t>>;

namespace {

const std::vector<std::string> kPlacements = {"hash", "round_robin", "greedy", "explicit:1=2,name=0,3=1"};
const std::vector<std::string> kOrdered = {"round_robin", "greedy"};
constexpr std::int64_t kSplit = 900'000;  // number of elements of a key that is split over three servers

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::uint64_t> keys_on(const Servers& servers) {
  std::vector<std::uint64_t> keys;
  for (const auto& one : servers) keys.push_back(one->server.stats().keys);
  return keys;
}

// Inits keys with these sizes, in this order. Returns the text of the first error, or "no error".
std::string init_all(KVStore& store, const Sizes& keys) {
  std::vector<NDArray> out;
  for (const auto& [key, size] : keys) {
    store.init(key, full({size}, 1));
    out.push_back(zeros({size}));
    store.pull(key, out.back());
  }
  return message_of([&] {
    for (const NDArray& one : out) one.wait();
  });
}

// The errors of two workers on separate engines. Each worker stays until the other has its answers too.
struct Pair {
  std::string first, second;
};
Pair init_as(const Job& job, const Servers& servers, int first_rank, const Sizes& first,
             const Sizes& second) {
  Pair result;
  std::latch answered(2);
  const auto run = [&](int rank, const Sizes& keys, std::string& message) {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    const auto body = [&](KVStore& store) {
      message = init_all(store, keys);
      answered.arrive_and_wait();
    };
    run_worker_here(job, servers, body, rank);
  };
  std::thread other([&] { run(first_rank, first, result.first); });
  run(1 - first_rank, second, result.second);
  other.join();
  return result;
}

}  // namespace

TEST_CASE("placements: sums are right, and keys are where they belong") {
  const Sizes keys = {{0, 10}, {1, 1000}, {"name", 100}, {2, kSplit}, {3, 40'000}, {4, 5}};
  const std::vector<std::vector<std::uint64_t>> expected = {{}, {3, 3, 2}, {3, 2, 3}, {}};
  for (std::size_t i = 0; i < kPlacements.size(); ++i) {
    CAPTURE(kPlacements[i]);
    const Job job{.workers = 2, .servers = 3, .placement = kPlacements[i]};
    const Servers servers = start_servers(job);
    run_workers(job, servers, [&](KVStore& store) {
      store.set_optimizer("add");
      for (const auto& [key, size] : keys) store.init(key, zeros({size}));
      for (int round = 1; round <= 3; ++round) {
        for (const auto& [key, size] : keys) store.push(key, full({size}, store.rank() + 1));
        for (const auto& [key, size] : keys) {
          NDArray out = zeros({size});
          store.pull(key, out);
          REQUIRE(out.to_vector<float>() ==
                  Floats(static_cast<std::size_t>(size), 3.0F * static_cast<float>(round)));
        }
      }
      store.barrier();
      current_engine().wait_all();
      if (!expected[i].empty()) CHECK(keys_on(servers) == expected[i]);
      if (kPlacements[i].starts_with("explicit")) {
        // Each server has at least one key of the list and a part of the split key.
        for (const std::uint64_t count : keys_on(servers)) CHECK(count >= 2);
      }
      store.barrier();
      current_engine().wait_all();
    });
  }
}

TEST_CASE("placements: workers that have different ones are told both") {
  const std::pair<std::string, std::string> pairs[] = {{"hash", "greedy"},
                                                       {"round_robin", "greedy"},
                                                       {"explicit:1=0", "explicit:1=1"},
                                                       {"explicit:1=0", "hash"}};
  for (const auto& [a, b] : pairs) {
    CAPTURE(a);
    CAPTURE(b);
    Job job{.workers = 2, .servers = 2, .placement = a};
    const Servers servers = start_servers(job);
    const auto first = make_store(job, servers, 0);
    job.placement = b;
    const std::string message = message_of<StoreError>([&] { make_store(job, servers, 1); });
    CAPTURE(message);
    const auto text = [](const std::string& placement) {
      return "placement " + kv_detail::placement_from(placement).text();
    };
    CHECK(contains(message, text(a)));
    CHECK(contains(message, text(b)));
    CHECK(contains(message, "worker 1 of job 'default'"));
  }
}

TEST_CASE(
    "placements: workers whose orders differ are told so, whoever comes first, and nobody waits for ever") {
  const Sizes right = {{0, 10}, {"b", 20}, {"c", 30'000}, {3, 4}};
  const std::pair<Sizes, std::string> wrong[] = {
      {{{"b", 20}, {0, 10}, {"c", 30'000}, {3, 4}}, "key "},
      {{{0, 10}, {"c", 30'000}, {"b", 20}, {3, 4}}, "number 2"},
      {{{0, 10}, {"b", 20}, {"other", 30'000}, {3, 4}}, "number 3"},
      {{{0, 10}, {"b", 20}, {"other", kSplit}, {3, 4}}, "number 3"},
      {{{0, 10}, {"b", 20}, {"c", kSplit}, {3, 4}}, "key c: worker "}};
  for (const std::string& placement : kOrdered) {
    for (const auto& [odd, why] : wrong) {
      for (const int first : {0, 1}) {
        CAPTURE(placement);
        CAPTURE(why);
        CAPTURE(first);
        const Job job{.workers = 2, .servers = 3, .placement = placement};
        const Servers servers = start_servers(job);
        const Pair all =
            first == 0 ? init_as(job, servers, 0, right, odd) : init_as(job, servers, 1, odd, right);
        const std::string& message = first == 0 ? all.second : all.first;
        CAPTURE(all.first);
        CAPTURE(all.second);
        CHECK(message != "no error");
        CHECK((contains(all.first, why) || contains(all.second, why)));
      }
    }
  }
}

TEST_CASE("hash: a worker whose value is larger is told so, though some of its parts are nobody's") {
  for (const int first : {0, 1}) {
    CAPTURE(first);
    const Job job{.workers = 2, .servers = 3};
    const Servers servers = start_servers(job);
    const Sizes small = {{0, 10}}, large = {{0, kSplit}};
    const Pair all =
        first == 0 ? init_as(job, servers, 0, small, large) : init_as(job, servers, 1, large, small);
    const std::string& message = first == 0 ? all.second : all.first;
    CAPTURE(message);
    CHECK(contains(message, "key 0: worker "));
  }
}

TEST_CASE("placements: a worker that comes back finds its keys, and is refused with another order") {
  const Sizes right = {{0, 10}, {"b", 20}, {"c", 30'000}, {"d", kSplit}, {3, 4}};
  Sizes wrong = right;
  std::swap(wrong[1], wrong[2]);
  for (const std::string& placement :
       {std::string("round_robin"), std::string("greedy"), std::string("explicit:b=1")}) {
    CAPTURE(placement);
    const Job job{.workers = 2, .servers = 3, .type = "dist_async", .placement = placement};
    const Servers servers = start_servers(job);
    const auto stays = make_store(job, servers, 0);
    CHECK(init_all(*stays, right) == "no error");
    const auto come = [&](const Sizes& keys) {
      const auto back = make_store(job, servers, 1);
      return init_all(*back, keys);
    };
    CHECK(come(right) == "no error");
    stays->push("c", full({30'000}, 5));
    CHECK(init_all(*make_store(job, servers, 1), {right[0], right[1]}) == "no error");
    {
      const auto back = make_store(job, servers, 1);
      CHECK(init_all(*back, right) == "no error");
      NDArray out = zeros({30'000});
      back->pull("c", out);
      CHECK(out.to_vector<float>() == Floats(30'000, 5));
    }
    const std::string message = come(wrong);
    CAPTURE(message);
    if (placement.starts_with("explicit")) {
      CHECK(message == "no error");
    } else {
      CHECK(contains(message,
                     "key c: worker 1 initialises it as number 2 of its keys, other workers have key b "
                     "there. With the placement " +
                         placement));
    }
  }
}

TEST_CASE("placements: a server that goes on with a saved state, or as a backup, knows the order") {
  using namespace kv_detail;
  Host host;
  Link a(host, hello_of(0, 2, "sync, placement greedy")), b(host, hello_of(1, 2, "sync, placement greedy"));
  const auto init = [](const char* key, int place, bool has_value) {
    return Request{.kind = Kind::init,
                   .has_value = has_value,
                   .bytes = 8,
                   .priority = -place,
                   .text = key,
                   .whole = {8, 0}};
  };
  CHECK(a.ask(init("first", 0, true), Bytes(8)).first.text.empty());
  CHECK(a.ask(init("second", 1, true), Bytes(8)).first.text.empty());
  CHECK(b.ask(init("first", 0, false)).first.text.empty());
  host.replace_core();
  a.cut();
  b.cut();
  CHECK(b.ask(init("second", 1, false)).first.text.empty());
  CHECK(contains(b.ask(init("second", 2, false)).first.text,
                 "worker 1 initialises it as number 3 of its keys, other workers as number 2"));
  CHECK(contains(b.ask(init("third", 1, false)).first.text,
                 "worker 1 initialises it as number 2 of its keys, other workers have key second there"));
  CHECK(contains(a.ask(init("third", 1, true), Bytes(8)).first.text, "key second there"));
  CHECK(a.ask(init("third", 2, true), Bytes(8)).first.text.empty());
}

TEST_CASE("a server that goes on with a saved state, or as a backup, knows what the job's weights are") {
  using namespace kv_detail;
  const auto set_optimizer = [](std::uint64_t weights) {
    return Request{.kind = Kind::set_optimizer, .text = update_rule_text("sgd", {}), .keys_digest = weights};
  };
  for (const std::uint64_t weights : {7, 8, 0}) {
    CAPTURE(weights);
    Host host;
    Link a(host, hello_of(0, 2, "sync")), b(host, hello_of(1, 2, "sync"));
    const std::uint64_t asked = a.send(set_optimizer(7));
    a.settle();
    CHECK(b.ask(set_optimizer(7)).first.text.empty());
    a.settle();
    CHECK(a.take(asked).first.text.empty());
    host.replace_core();
    Hello hello = hello_of(1, 2, "sync");
    hello.incarnation = 77;
    const std::string text = Link(host, hello).ask(set_optimizer(weights)).first.text;
    CHECK(contains(text, "the job's weights differ from those of this worker") == (weights == 8));
    // A worker with weights 0 sends no digest of its keys, so nothing is compared.
    CHECK(text.empty() == (weights != 8));
  }
}

TEST_CASE("placements: options and environment") {
  ::setenv("HEDDLE_SERVERS", "127.0.0.1:1", 1);
  const auto refused = [](const KVStoreOptions& options, const char* type = "dist_sync") {
    return message_of<InvalidArgument>([&] { KVStore::create(type, options); });
  };
  CHECK(contains(refused({.placement = "random"}), "placement 'random': want hash, greedy"));
  ::setenv("HEDDLE_STORE_PLACEMENT", "nowhere", 1);
  CHECK(contains(refused({}), "placement 'nowhere'"));
  ::unsetenv("HEDDLE_STORE_PLACEMENT");
  ::unsetenv("HEDDLE_SERVERS");
  CHECK(contains(refused({.placement = "greedy"}, "local"), "local stores have no servers"));
  const Job job{.workers = 1, .servers = 2, .placement = "explicit:big=2"};
  const Servers servers = start_servers(job);
  CHECK(contains(message_of<InvalidArgument>([&] { make_store(job, servers); }),
                 "key 'big' is to be on server 2; the last of 2 is 1"));
}
