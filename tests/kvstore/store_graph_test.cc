// Ops of stores in captured graphs, and stores whose engine is destroyed before they are.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/heddle.h>
#include <heddle/log.h>

#include "dist_job.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Runs `body` with an engine and a worker's store on it.
template <class Body> void with_store(const Job& job, const Servers& servers, const Body& body) {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const std::unique_ptr<KVStore> store = make_store(job, servers);
  body(engine, *store);
}

std::vector<float> all(const NDArray& array, float value) {
  return std::vector<float>(static_cast<std::size_t>(array.size()), value);
}

}  // namespace

TEST_CASE("store graph: each launch pushes and pulls anew, values, lists and rows, compressed too") {
  for (const char* const transport : kTransports) {
    for (const char* const codec : {"none", "bf16"}) {
      CAPTURE(std::string(codec));
      const Job job{.workers = 1,
                    .servers = 2,
                    .transport = transport,
                    .compression = codec,
                    .pull_compression = codec};
      const Servers servers = start_servers(job);
      with_store(job, servers, [](Engine& engine, KVStore& store) {
        store.set_optimizer("add");
        const std::vector<Key> keys = {Key(0), Key(1), Key("many"), Key("rows")};
        for (const Key& key : {Key(0), Key(1)}) store.init(key, zeros({5}));
        store.init("many", zeros({100'000}));  // split over all servers, and compressed
        store.init("rows", zeros({4, 3}));
        const NDArray one = ones({5}), large = ones({100'000}), row = ones({1, 3});
        const NDArray which = array<std::int64_t>({2}, {1});
        std::vector<NDArray> out = {NDArray({5}), NDArray({5})};
        NDArray got({5}), many({100'000}), table({4, 3}), rows({1, 3});
        engine.wait_all();
        const Graph step = engine.capture([&] {
          store.push(Key(0), one);
          store.pull(Key(0), got);
          store.push_pull({{Key(0), Key(1)}}, {{one, one}}, out);
          store.push_pull("many", {{large}}, {{many}});
          store.push("rows", row_sparse(which, row, {4, 3}));
          store.pull_rows("rows", which, rows);
          store.pull("rows", table);
        });
        for (int launch = 1; launch <= 4; ++launch) {
          step.launch();
          CHECK(got.to_vector<float>() == all(got, static_cast<float>(2 * launch - 1)));
          CHECK(out[0].to_vector<float>() == all(out[0], static_cast<float>(2 * launch)));
          CHECK(out[1].to_vector<float>() == all(out[1], static_cast<float>(launch)));
          CHECK(many.to_vector<float>() == all(many, static_cast<float>(launch)));
          CHECK(rows.to_vector<float>() == all(rows, static_cast<float>(launch)));
          CHECK(table.to_vector<float>()[6] == static_cast<float>(launch));
          store.push(Key(1), zeros({5}));  // a push that is not in the graph, between two launches
        }
      });
    }
  }
}

TEST_CASE("store graph: assign is repeated, and what happens once is refused in a capture") {
  const Job job{.workers = 1};
  const Servers servers = start_servers(job);
  with_store(job, servers, [](Engine& engine, KVStore& store) {
    store.init(0, zeros({3}));
    NDArray value = ones({3}), out({3});
    engine.wait_all();
    const Graph step = engine.capture([&] { store.assign(0, value), store.pull(0, out), value += 1.0f; });
    for (const float want : {1.0f, 2.0f, 3.0f}) {
      step.launch();
      CHECK(out.to_vector<float>() == all(out, want));
    }
    CHECK_THROWS_WITH_AS(engine.capture([&] { store.init(1, value); }),
                         "KVStore::init, key 1: a key is initialised once, outside of the capture of a graph",
                         Error);
    CHECK_THROWS_AS(engine.capture([&] { store.barrier(); }), Error);
    CHECK_THROWS_AS(engine.capture([&] { store.set_optimizer("add"); }), Error);
    store.init(1, value);  // possible, since the failed captures have not made the key
    store.barrier();
  });
}

TEST_CASE("store graph: a launch after the store has gone fails, and nothing hangs") {
  const Job job{.workers = 1};
  const Servers servers = start_servers(job);
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  std::unique_ptr<KVStore> store = make_store(job, servers);
  store->init(0, zeros({3}));
  NDArray out({3});
  const Graph step = engine.capture([&] { store->pull(0, out); });
  step.launch();
  out.wait();
  store.reset();
  step.launch();
  CHECK_THROWS_AS(out.wait(), Error);
}

TEST_CASE("store: the engine is destroyed first: all that was pushed counts, and calls say what is wrong") {
  for (const char* const codec : {"none", "bf16"}) {
    const Job job{
        .workers = 1, .servers = 2, .type = "dist_async", .compression = codec, .pull_compression = codec};
    const Servers servers = start_servers(job);
    auto engine = std::make_unique<Engine>(EngineOptions{.workers = 2});
    std::unique_ptr<KVStore> store;
    NDArray out;
    {
      const EngineScope scope(*engine);
      store = make_store(job, servers);
      store->init(0, zeros({100'000}));
      store->set_optimizer("add");
      out = NDArray({100'000});
      for (int i = 0; i < 10; ++i) store->push(0, ones({100'000}));
      store->pull(0, out);
    }
    engine.reset();
    CHECK(out.to_vector<float>()[99'999] == 10);
    CHECK_THROWS_AS(store->push(0, out), Error);
    CHECK_THROWS_AS(store->barrier(), Error);
    CHECK_THROWS_AS(store->init(1, out), Error);
    CHECK_THROWS_AS(store->set_optimizer("add"), Error);
    store.reset();
  }
}

TEST_CASE(
    "store graph: pushes to an allreduce store are reduced with each launch, though nothing is pulled") {
  for (const char* const codec : {"none", "bf16"}) {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    const std::shared_ptr<Communicator> ranks = std::move(Communicator::create_local(1)[0]);
    const auto store = KVStore::create("allreduce", ranks, {.compression = codec});
    store->set_optimizer("sgd", {{"lr", 1.0}});
    const std::vector<Key> keys = {Key(0), Key(1)};
    for (const Key& key : keys) store->init(key, zeros({5}));
    const NDArray one = ones({5});
    std::vector<NDArray> out = {NDArray({5}), NDArray({5})};
    engine.wait_all();
    const Graph single = engine.capture([&] { store->push(0, one), store->push(0, one); });
    const Graph list = engine.capture([&] { store->push(keys, std::vector<NDArray>{one, one}); });
    for (int launch = 0; launch < 3; ++launch) single.launch(), list.launch();
    store->pull(keys, out);
    CHECK(out[0].to_vector<float>() == all(out[0], -9));
    CHECK(out[1].to_vector<float>() == all(out[1], -3));
    store->push(0, one);
    CHECK_THROWS_AS(engine.capture([&] { store->push(1, one); }), Error);
    CHECK_THROWS_AS(engine.capture([&] { store->pull(1, out[1]); }), Error);
    store->pull(0, out[0]);
    CHECK(out[0].to_vector<float>() == all(out[0], -10));
  }
}

TEST_CASE("store: the engine of local and allreduce stores is destroyed first") {
  for (const std::string kind : {"local", "allreduce"}) {
    auto engine = std::make_unique<Engine>(EngineOptions{.workers = 2});
    std::shared_ptr<Communicator> ranks;
    std::unique_ptr<KVStore> store;
    NDArray out;
    {
      const EngineScope scope(*engine);
      ranks = std::move(Communicator::create_local(1)[0]);
      store = kind == "local" ? KVStore::create() : KVStore::create(kind, ranks);
      store->init(0, zeros({5}));
      store->push(0, ones({5}));
      out = NDArray({5});
      store->pull(0, out);
    }
    engine.reset();
    CHECK(out.to_vector<float>()[0] == 1);
    CHECK_THROWS_AS(store->push(0, out), Error);
    CHECK_THROWS_AS(store->init(1, out), Error);
    if (kind == "allreduce") CHECK_THROWS_AS(store->barrier(), Error);
    CHECK_THROWS_AS(ranks->wait(), Error);
    store.reset();
    ranks.reset();
  }
}

TEST_CASE("store graph: a captured step with servers runs its function in each call, and the log says so") {
  const Job job{.workers = 1};
  const Servers servers = start_servers(job);
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  NDArray weight = ones({3});
  set_requires_grad(weight);
  std::string log;
  set_log([&](std::string_view text) { log += text; });
  Trainer trainer({{"weight", weight}}, {.params = {{"lr", 0.5}}, .store = make_store(job, servers)});
  int calls = 0;
  CapturedStep step = trainer.capture([&](const std::vector<NDArray>& batch) {
    ++calls;
    const NDArray loss = sum(weight * batch[0]);
    backward(loss);
    trainer.step();
    return loss;
  });
  set_log({});
  CHECK(log.find("runs the function") != std::string::npos);
  for (int i = 0; i < 4; ++i) CHECK(step({ones({3})}).item<float>() == 3.0f - 1.5f * static_cast<float>(i));
  CHECK(calls == 4);
  CHECK(step.captures() == 0);
}
