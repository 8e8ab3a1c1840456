// Lists of keys in one call, and push_pull: the same bits as single calls, on real servers.
#include <algorithm>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/store_error.h>

#include "arguments.h"
#include "dist_job.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Key = KVStore::Key;
using Floats = std::vector<float>;

enum class How { singles, push_pulls, lists };

// Runs a program determined by the seed: keys of many sizes, and a few rounds with some of them. Returns the
// values at the end.
std::vector<Floats> results_of(KVStore& store, std::uint64_t seed, How how) {
  std::mt19937_64 random(seed);
  const std::vector<std::int64_t> sizes = {0, 1, 3, 100, 5'000, 12'000, 20'000, 400'000};
  const auto keys = static_cast<std::int64_t>(3 + random() % 12);
  if (random() % 2 == 0) store.set_optimizer("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
  std::vector<NDArray> out;
  for (std::int64_t key = 0; key < keys; ++key) {
    const Shape shape{sizes[random() % sizes.size()]};
    store.init(key, full(shape, 1));
    out.push_back(zeros(shape));
  }
  for (int round = 0; round < 4; ++round) {
    std::vector<Key> some;
    std::vector<NDArray> values, targets;
    for (std::int64_t key = keys; key-- > 0;) {
      if (random() % 3 == 0) continue;
      some.push_back(key);
      const auto at = static_cast<std::size_t>(key);
      values.push_back(full(out[at].shape(), (store.rank() + 1) * 0.25 * (round + 1)));
      targets.push_back(out[at]);
    }
    const bool apart = random() % 3 == 0;
    if (how == How::lists && apart) {
      store.push(some, values);
      store.pull(some, targets);
    } else if (how == How::lists) {
      store.push_pull(some, values, targets);
    }
    for (std::size_t i = 0; i < some.size() && how != How::lists; ++i) {
      if (how == How::push_pulls) {
        store.push_pull(some[i], {&values[i], 1}, {&targets[i], 1});
      } else {
        store.push(some[i], values[i]);
        store.pull(some[i], targets[i]);
      }
    }
  }
  store.barrier();
  std::vector<Floats> all;
  for (std::int64_t key = 0; key < keys; ++key) {
    const auto at = static_cast<std::size_t>(key);
    // Without rounds, only a pull after the barrier sees all pushes.
    if (store.type() != "dist_sync") store.pull(key, out[at]);
    all.push_back(out[at].to_vector<float>());
  }
  return all;
}

}  // namespace

TEST_CASE("store lists: the same bits as single calls, over random programs") {
  const auto programs = argument("programs", kSanitized ? 2 : 6);
  for (const char* transport : kTransports) {
    for (const std::string type : {"dist_sync", "dist_async", "dist_ssp:1"}) {
      for (long long seed = 0; seed < programs; ++seed) {
        CAPTURE(std::string(transport));
        CAPTURE(type);
        CAPTURE(seed);
        Job job{.servers = 2, .type = type, .transport = transport};
        // Without synchronous rounds the result would depend on the order of two workers' pushes.
        job.workers = type == "dist_sync" ? 2 : 1;
        std::vector<std::vector<Floats>> seen(static_cast<std::size_t>(job.workers));
        for (const How how : {How::singles, How::push_pulls, How::lists}) {
          run_job(job, [&](KVStore& store) {
            auto& expected = seen[static_cast<std::size_t>(store.rank())];
            const auto got = results_of(store, static_cast<std::uint64_t>(seed), how);
            if (how == How::singles) expected = got;
            CHECK(got == expected);
          });
        }
      }
    }
  }
}

TEST_CASE("store lists: on every scheduler, also what is pulled to where another value comes from") {
  for (const Scheduler scheduler : {Scheduler::naive, Scheduler::fuzz, Scheduler::threaded}) {
    CAPTURE(static_cast<int>(scheduler));
    run_job({.workers = 1, .servers = 2, .scheduler = scheduler}, [](KVStore& store) {
      store.set_optimizer("add");
      const std::vector<Key> keys = {0, 1, 2, 0};
      std::vector<NDArray> a;
      for (std::int64_t key = 0; key < 3; ++key) {
        store.init(key, full({4}, 10));
        a.push_back(full({4}, key + 1));
      }
      // The list does what single calls in its order do: key 1 gets a value that was pulled from key 0
      // before. Key 0 is in the list twice.
      const std::vector<NDArray> values = {a[1], a[0], a[0], a[2]}, targets = {a[0], a[1], a[2], a[2]};
      store.push_pull(keys, values, targets);
      CHECK(a[0].to_vector<float>() == Floats(4, 12));
      CHECK(a[1].to_vector<float>() == Floats(4, 22));
      CHECK(a[2].to_vector<float>() == Floats(4, 34));
      store.push_pull(1, {&a[1], 1}, {&a[1], 1});
      CHECK(a[1].to_vector<float>() == Floats(4, 44));
    });
  }
}

TEST_CASE("store lists: values that are views or not contiguous") {
  run_job({.workers = 1}, [](KVStore& store) {
    const NDArray whole = array(Floats{1, 2, 3, 4, 5, 6}, {2, 3}), target = zeros({3, 4});
    store.init(0, zeros({3, 2}));
    store.init(1, zeros({3}));
    const std::vector<Key> keys = {0, 1};
    const std::vector<NDArray> values = {transpose(whole), whole.slice(0, {1, 2}).view_as({3})},
                               out = {target.slice(1, {1, 3}), zeros({3})};
    store.push_pull(keys, values, out);
    CHECK(target.to_vector<float>() == Floats{0, 1, 4, 0, 0, 2, 5, 0, 0, 3, 6, 0});
    CHECK(out[1].to_vector<float>() == Floats{4, 5, 6});
  });
}

TEST_CASE("store lists: misuse throws at the call, and nothing has been sent") {
  run_job({.workers = 1}, [](KVStore& store) {
    store.set_optimizer("add");
    store.init(0, zeros({2}));
    store.init(1, zeros({3}));
    const std::vector<Key> keys = {0, 1}, unknown = {0, 5};
    const std::vector<NDArray> good = {ones({2}), ones({3})}, bad = {ones({2}), ones({4})};
    CHECK_THROWS_WITH_AS(store.push(keys, {good.data(), 1}),
                         doctest::Contains("push: got 2 keys and 1 arrays"), InvalidArgument);
    CHECK_THROWS_WITH_AS(store.push(keys, bad), doctest::Contains("push, key 1: got f32 (4,)"),
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(store.pull(unknown, good), doctest::Contains("pull, key 5: the key is unknown"),
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(store.push_pull(keys, good, bad), doctest::Contains("pull, key 1: got f32 (4,)"),
                         InvalidArgument);
    store.push(std::span<const Key>{}, std::span<const NDArray>{});
    store.pull(keys, good);
    CHECK(good[1].to_vector<float>() == Floats(3, 0));
  });
}

TEST_CASE("store lists: a push that the server refuses fails its op once, and the others go on") {
  run_job({.workers = 1, .type = "dist_async", .memory_limit = 4096}, [](KVStore& store) {
    store.set_optimizer("add");
    std::vector<Key> keys;
    std::vector<NDArray> values, out;
    for (std::int64_t key = 0; key < 3; ++key) {
      keys.push_back(key);
      store.init(key, zeros({key == 1 ? 600 : 10}));
      values.push_back(ones({key == 1 ? 600 : 10}));
      out.push_back(zeros({key == 1 ? 600 : 10}));
    }
    store.push_pull(keys, values, out);  // the server has no room for a second value as large as key 1's
    CHECK_THROWS_WITH_AS(out[0].wait(), doctest::Contains("would exceed the memory limit"), StoreError);
    CHECK_THROWS_WITH_AS(out[1].wait(), doctest::Contains("would exceed the memory limit"), StoreError);
    store.clear_errors();
    for (const NDArray& one : out) current_engine().clear_error(one.var());
    store.push_pull(1, {&values[1], 1}, {&out[1], 1});
    CHECK_THROWS_WITH_AS(out[1].wait(), doctest::Contains("would exceed the memory limit"), StoreError);
    store.clear_errors();
    current_engine().clear_error(out[1].var());
    const std::vector<Key> others = {0, 2};
    const std::vector<NDArray> again = {values[0], values[2]}, seen = {out[0], out[2]};
    store.push_pull(others, again, seen);
    // The pushes of the keys 0 and 2 in the first list have counted.
    for (const NDArray& one : seen) CHECK(one.to_vector<float>() == Floats(10, 2));
    store.pull(1, out[1]);
    CHECK(out[1].to_vector<float>() == Floats(600, 0));
  });
}

TEST_CASE("dist store: two stores in a process, and many threads that wait") {
  const Job job{.workers = 1, .type = "dist_async"};
  const auto first = start_servers(job), second = start_servers(job);
  run_workers(job, first, [&](KVStore& one) {
    run_worker_here(job, second, [&](KVStore& other) {
      for (KVStore* store : {&one, &other}) {
        store->set_optimizer("add");
        for (std::int64_t key = 0; key < 4; ++key) store->init(key, zeros({50}, DType::i64));
      }
      // Each thread has arrays of its own, and locks this mutex for each call, since a store is not
      // thread-safe.
      std::mutex turn;
      std::vector<std::thread> threads;
      for (std::int64_t key = 0; key < 4; ++key) {
        threads.emplace_back([&, key, &engine = current_engine()] {
          const EngineScope scope(engine);
          const NDArray value = ones({50}, DType::i64), seen = zeros({50}, DType::i64);
          for (int round = 1; round <= 200; ++round) {
            {
              const std::lock_guard guard(turn);
              (round % 2 == 0 ? one : other).push_pull(key, {&value, 1}, {&seen, 1});
            }
            CHECK(seen.to_vector<std::int64_t>()[49] == (round + 1) / 2);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    });
  });
}

TEST_CASE("dist store: one that is destroyed inside an op") {
  const Job job{.workers = 1};
  const auto servers = start_servers(job);
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  for (int i = 0; i < 5; ++i) {
    std::shared_ptr<KVStore> store = make_store(job, servers);
    store->set_optimizer("add");
    store->init(i, zeros({3}));
    const NDArray out = zeros({3}), ended = zeros({1});
    store->push_pull(i, {{ones({3})}}, {{out}});
    engine.push([store = std::move(store)]() mutable { store.reset(); }, {.mutate = {ended.var()}});
    CHECK(out.to_vector<float>() == Floats(3, 1));
    engine.wait(ended.var());
  }
  engine.wait_all();
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("dist store: the child of a fork leaves the parent's connections alone") {
  const Job job{.workers = 1};
  const auto servers = start_servers(job);
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  std::unique_ptr<KVStore> store = make_store(job, servers);
  store->set_optimizer("add");
  store->init(0, zeros({3}));
  const NDArray out = zeros({3});
  store->push_pull(0, {{ones({3})}}, {{out}});
  CHECK(out.to_vector<float>() == Floats(3, 1));
  const pid_t child = fork();
  if (child == 0) {
    store.reset();
    _exit(7);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  store->push_pull(0, {{ones({3})}}, {{out}});
  CHECK(out.to_vector<float>() == Floats(3, 2));
}
#endif
