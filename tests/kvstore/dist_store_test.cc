// Stores with values on servers: workers as threads, servers in this process, real connections.
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/random.h>
#include <heddle/trainer.h>

#include "dist_job.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;
using namespace std::chrono_literals;

TEST_CASE(
    "dist store: sums of all workers, for values of all sizes and dtypes, small and split over servers") {
  for (const char* transport : kTransports) {
    CAPTURE(std::string(transport));
    const int servers = transport[0] == 'n' ? 3 : 1;
    run_job({.workers = 3, .servers = servers, .transport = transport}, [](KVStore& store) {
      store.set_optimizer("add");
      const std::vector<Shape> shapes = {{}, {0}, {1}, {7, 3}, {1000}, {1200, 801}};
      const std::vector<DType> dtypes = {DType::f32, DType::f64,  DType::i32,
                                         DType::i64, DType::bf16, DType::u8};
      std::int64_t key = 0;
      std::vector<NDArray> out;
      for (const Shape& shape : shapes) {
        for (const DType dtype : dtypes) {
          store.init(key, full(shape, store.rank() == 0 ? 1 : 7, dtype));
          for (int round = 0; round < 3; ++round) store.push(key, full(shape, store.rank() + 1, dtype));
          out.emplace_back(shape, dtype);
          store.pull(key++, out.back());
        }
      }
      for (const NDArray& one : out) {
        const auto values = one.astype(DType::f64).to_vector<double>();
        CHECK(std::count(values.begin(), values.end(), 1 + 3 * 6) == one.size());
      }
    });
  }
}

TEST_CASE("dist store: halves are added as f32 and rounded once") {
  run_job({.workers = 3}, [](KVStore& store) {
    store.init(0, zeros({1}, DType::bf16));
    // The workers push 256, 1 and 1. Added one after another in bf16 their sum would stay 256.
    store.push(0, full({1}, store.rank() == 0 ? 256 : 1, DType::bf16));
    NDArray out({1}, DType::bf16);
    store.pull(0, out);
    CHECK(out.astype(DType::f32).item<float>() == 258);
  });
}

TEST_CASE("dist store: a worker's pull sees its own push, with every consistency") {
  for (const std::string type : {"dist_sync", "dist_async", "dist_ssp:1"}) {
    CAPTURE(type);
    run_job({.workers = 2, .servers = 2, .type = type}, [&](KVStore& store) {
      CHECK(store.type() == type);
      store.set_optimizer("add");
      store.init(3, zeros({10}));
      NDArray out({10});
      for (int step = 1; step <= 20; ++step) {
        store.push_pull(3, {{ones({10})}}, {{out}});
        const float seen = out.to_vector<float>()[9];
        if (type == "dist_sync") CHECK(seen == 2.0f * static_cast<float>(step));
        if (type == "dist_ssp:1") CHECK(seen >= 2.0f * static_cast<float>(step) - 1);
        CHECK(seen >= static_cast<float>(step));
      }
      store.barrier();
      store.pull(3, out);
      CHECK(out.to_vector<float>()[0] == 40);
    });
  }
}

TEST_CASE("dist store: on every scheduler, with errors and barriers") {
  for (const Scheduler scheduler : {Scheduler::naive, Scheduler::fuzz, Scheduler::threaded}) {
    CAPTURE(static_cast<int>(scheduler));
    run_job({.workers = 2, .servers = 2, .scheduler = scheduler}, [](KVStore& store) {
      store.set_optimizer("add");
      NDArray out({400'000}, DType::i64), small({2}, DType::i64);
      store.broadcast(0, zeros({400'000}, DType::i64), {{out}});
      store.broadcast(1, zeros({2}, DType::i64), {{small}});
      for (int round = 1; round <= 5; ++round) {
        for (const std::int64_t key : {0, 1}) {
          const Shape shape = key == 0 ? Shape{400'000} : Shape{2};
          store.push(key, full(shape, store.rank() + 1, DType::i64),
                     {.lr = key == 1 && round == 3 ? store.rank() + 1.0 : 1.0});
        }
        store.pull(0, out);
        store.pull(1, small);
        CHECK(out.to_vector<std::int64_t>().back() == 3 * round);
        if (round == 3) {
          CHECK_THROWS_AS(small.wait(), StoreError);
          store.barrier();
          store.clear_errors();
          current_engine().clear_error(small.var());
          store.barrier();
        } else {
          CHECK(small.to_vector<std::int64_t>()[1] == 3 * (round < 3 ? round : round - 1));
        }
      }
    });
  }
}

TEST_CASE("dist store: a trainer learns what it learns in one process") {
  const auto weights = [](std::shared_ptr<KVStore> store, int rank, int workers) {
    NDArray weight = zeros({4}), bias = zeros({1});
    set_requires_grad(weight), set_requires_grad(bias);
    Trainer trainer(
        {{"weight", weight}, {"bias", bias}},
        {.optimizer = "sgd", .params = {{"lr", 0.125}, {"momentum", 0.5}}, .store = std::move(store)});
    for (int step = 0; step < 10; ++step) {
      NDArray loss;
      for (int sample = rank; sample < 2; sample += workers) {
        const NDArray x = full({4}, sample + 1);
        const NDArray error = sum(x * weight) + bias - 3.0 * (sample + 1);
        const NDArray one = sum(error * error * 0.0625);
        loss = loss.defined() ? loss + one : one;
      }
      backward(loss);
      trainer.step(0.5);
    }
    auto all = weight.to_vector<float>();
    all.push_back(bias.to_vector<float>()[0]);
    const auto state = trainer.state();
    for (const float v : state.at("state.weight.velocity").to_vector<float>()) all.push_back(v);
    all.push_back(static_cast<float>(state.at("state.bias.updates").item<std::int64_t>()));
    return all;
  };
  const auto expected = weights(KVStore::create("local"), 0, 1);
  run_job({.workers = 2, .servers = 2}, [&](KVStore& store) {
    const std::shared_ptr<KVStore> shared(&store, [](KVStore*) {});
    const auto got = weights(shared, store.rank(), store.workers());
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  });
}

TEST_CASE("dist store: the optimizer's state goes from one job to the next") {
  std::map<std::string, std::vector<float>> saved;
  std::map<std::string, Shape> shapes;
  const Job job{.workers = 2, .servers = 2};
  const auto train = [](KVStore& store, int steps) {
    for (int step = 0; step < steps; ++step)
      for (const std::int64_t key : {0, 1}) store.push(key, full(key == 0 ? Shape{3} : Shape{700, 500}, 0.5));
  };
  const auto begin = [](KVStore& store) {
    store.init(0, zeros({3}));
    store.init(1, zeros({700, 500}));
    store.set_optimizer("adam", {{"lr", 0.1}});
  };
  run_job(job, [&](KVStore& store) {
    begin(store);
    train(store, 3);
    const auto state = store.optimizer_state();
    CHECK(state.size() == 6);
    CHECK(state.at("1.mean").shape() == Shape{700, 500});
    CHECK(state.at("0.updates").item<std::int64_t>() == 3);
    NDArray out({700, 500});
    store.pull(1, out);
    if (store.rank() == 0) {
      saved["value"] = out.to_vector<float>();
      for (const std::string name : {"1.mean", "1.variance"}) saved[name] = state.at(name).to_vector<float>();
    }
    store.barrier();
    train(store, 1);
    store.pull(1, out);
    if (store.rank() == 0) saved["next"] = out.to_vector<float>();
  });
  run_job(job, [&](KVStore& store) {
    begin(store);
    std::map<std::string, NDArray> state;
    for (const std::string name : {"1.mean", "1.variance"}) state[name] = array(saved.at(name), {700, 500});
    for (const std::string name : {"0.mean", "0.variance"}) state[name] = zeros({3});
    for (const std::string name : {"0.updates", "1.updates"}) state[name] = array<std::int64_t>({3});
    store.set_optimizer_state(state);
    store.assign(1, array(saved.at("value"), {700, 500}));
    train(store, 1);
    NDArray out({700, 500});
    store.pull(1, out);
    CHECK(out.to_vector<float>() == saved.at("next"));
    CHECK(store.optimizer_state().at("1.updates").item<std::int64_t>() == 4);
  });
}

TEST_CASE("dist store: state is set beside a key that no optimizer can update") {
  run_job({.workers = 2, .servers = 2}, [](KVStore& store) {
    store.init(0, zeros({3}));
    store.init(1, zeros({3}, DType::i64));
    store.init(2, zeros({4, 3}, DType::i64));
    store.set_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}});
    store.push(0, ones({3}));
    store.set_optimizer_state(store.optimizer_state());
    store.push(0, ones({3}));
    NDArray out({3});
    store.pull(0, out);
    CHECK(out.to_vector<float>() == std::vector<float>(3, -5));
  });
}

TEST_CASE("dist store: a barrier blocks until all workers have called it") {
  constexpr int kWorkers = 3;
  std::atomic<int> came{0};
  run_job({.workers = kWorkers}, [&](KVStore& store) {
    for (int round = 1; round <= 50; ++round) {
      came += 1;
      store.barrier();
      REQUIRE(came >= kWorkers * round);
    }
  });
}

TEST_CASE("dist store: workers whose learning rates differ get an error that names them, and go on") {
  run_job({.workers = 2}, [](KVStore& store) {
    store.init(0, zeros({3}));
    store.set_optimizer("sgd", {{"lr", 1}});
    NDArray out({3});
    store.push(0, ones({3}), {.lr = store.rank() == 0 ? 0.5 : 0.25});
    store.pull(0, out);
    CHECK_THROWS_WITH_AS(out.wait(), doctest::Contains("worker 1 with lr 0.25"), StoreError);
    store.barrier();
    store.clear_errors();
    current_engine().clear_error(out.var());
    store.barrier();
    store.push(0, ones({3}), {.lr = 0.5});
    store.pull(0, out);
    CHECK(out.to_vector<float>() == std::vector<float>(3, -1));
  });
}

TEST_CASE("dist store: a worker with less data waits in a barrier, and the others go on, on all servers") {
  run_job({.workers = 2, .servers = 3}, [](KVStore& store) {
    store.set_optimizer("add");
    const std::vector<Shape> shapes = {{3}, {5}, {7}, {900'000}};
    for (std::int64_t key = 0; key < 4; ++key) store.init(key, zeros(shapes[static_cast<std::size_t>(key)]));
    std::vector<NDArray> out;
    for (const Shape& shape : shapes) out.emplace_back(shape);
    for (int round = 0; round < (store.rank() == 0 ? 2 : 5); ++round) {
      for (std::int64_t key = 0; key < 4; ++key)
        store.push_pull(key, {{ones(shapes[static_cast<std::size_t>(key)])}},
                        {{out[static_cast<std::size_t>(key)]}});
    }
    store.barrier();
    for (std::int64_t key = 0; key < 4; ++key) {
      store.pull(key, out[static_cast<std::size_t>(key)]);
      const auto values = out[static_cast<std::size_t>(key)].to_vector<float>();
      CHECK(std::count(values.begin(), values.end(), 7.0f) == std::ssize(values));
    }
  });
}

TEST_CASE("dist store: after an init that failed nothing of the key reaches another one") {
  run_job({.workers = 2}, [](KVStore& store) {
    store.set_optimizer("add");
    store.init(0, zeros({3}));
    NDArray out({3}), other(Shape{2 + store.rank()});
    if (store.rank() == 1) store.barrier();
    // Fails on worker 1: the workers' shapes differ, and worker 0's init comes first.
    store.init(1, zeros(other.shape()));
    if (store.rank() == 0) store.barrier();
    store.push(1, ones(other.shape()));
    store.pull(1, other);
    if (store.rank() == 1)
      CHECK_THROWS_WITH_AS(other.wait(), doctest::Contains("worker 1 has 12 bytes of f32"), StoreError);
    if (store.rank() == 1) {
      store.clear_errors();
      store.push(1, ones(other.shape()));
      store.pull(1, out);
      CHECK_THROWS_WITH_AS(out.wait(), doctest::Contains("key 1: no server has it, since its init failed"),
                           StoreError);
      current_engine().clear_error(out.var());
    }
    store.barrier();
    store.pull(0, out);
    CHECK(out.to_vector<float>() == std::vector<float>(3, 0));
    store.clear_errors();
    current_engine().clear_error(other.var());
  });
}

TEST_CASE("dist store: addresses that are none are refused") {
  for (const std::string address : {"127.0.0.1:94630", "127.0.0.1:port", "http://h:1/"}) {
    CAPTURE(address);
    CHECK_THROWS_AS(DistStore("dist_sync", {.servers = {address}}), InvalidArgument);
  }
}

TEST_CASE("dist store: a job's name that no server would take is refused at once") {
  kv_detail::ClientOptions options;
  options.servers = {"127.0.0.1:1"};
  options.job = std::string(257, 'j');
  CHECK_THROWS_WITH_AS(DistStore("dist_sync", options), "HEDDLE_JOB: a name of 257 bytes; wanted at most 256",
                       InvalidArgument);
  Job job{.workers = 1};
  const Servers servers = start_servers(job);
  options.job.pop_back();
  options.servers = {servers[0]->server.address()};
  DistStore longest("dist_sync", options);
  CHECK(longest.workers() == 1);
}

TEST_CASE("dist store: misuse throws at the call") {
  run_job({.workers = 1}, [](KVStore& store) {
    store.init(5, zeros({3}));
    CHECK_THROWS_WITH_AS(store.init(5, zeros({3})), doctest::Contains("key 5: the key exists already"),
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(store.push(6, zeros({3})), doctest::Contains("key 6: the key is unknown"),
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(store.push(5, zeros({4})), doctest::Contains("got f32 (4,), stored is f32 (3,)"),
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(store.pull(5, zeros({3}, DType::f64)), doctest::Contains("got f64"),
                         InvalidArgument);
    CHECK_THROWS_AS(store.set_optimizer("nonsense"), InvalidArgument);
    CHECK_THROWS_AS(store.init(7, NDArray()), InvalidArgument);
    Engine other;
    const EngineScope scope(other);
    CHECK_THROWS_WITH_AS(store.push(5, zeros({3})), doctest::Contains("another engine"), InvalidArgument);
  });
}

TEST_CASE("dist store: a server that is not there is named within the timeout") {
  std::string address;
  {
    const Server gone({});
    address = gone.address();
  }
  const kv_detail::ClientOptions options{.servers = {address}, .timeout = 300ms};
  CHECK_THROWS_WITH_AS(DistStore("dist_sync", options), doctest::Contains("server 0 (127.0.0.1:"),
                       StoreError);
}

TEST_CASE("dist store: a server that ends fails what needs it, and nothing hangs") {
  const Job job{.workers = 1, .timeout = 3s};
  auto servers = start_servers(job);
  run_workers(job, servers, [&](KVStore& store) {
    store.init(0, zeros({3}));
    NDArray out({3});
    store.pull(0, out);
    out.wait();
    servers[0]->server.stop();
    store.push(0, ones({3}));
    store.pull(0, out);
    CHECK_THROWS_AS(out.wait(), StoreError);
  });
}

namespace {

using Body = std::function<void(KVStore&)>;

// In worker 0, `worker_0` runs a program that pulls a value which never comes, since worker 1 does not push.
// Checks that the pull gets an error although worker 1 stays until worker 0's store is gone.
void check_that_pulls_are_given_up(const std::function<void(const std::function<void(Body)>&)>& worker_0) {
  const Job job{.memory_limit = 100'000};
  const Servers servers = start_servers(job);
  std::latch gone(1);
  std::thread other([&] {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    run_worker_here(
        job, servers,
        [&](KVStore& store) {
          for (const int key : {0, 1}) store.init(key, zeros({3}));
          gone.wait();
        },
        1);
  });
  NDArray out({3});
  worker_0([&](const Body& then) {
    run_worker_here(job, servers, [&](KVStore& store) {
      for (const int key : {0, 1}) store.init(key, zeros({3}));
      store.push(0, ones({3}));
      store.pull(0, out);
      then(store);
    });
  });
  gone.count_down();
  other.join();
  CHECK_THROWS_WITH_AS(out.wait(), doctest::Contains("the store was closed after an error"), StoreError);
}

}  // namespace

TEST_CASE("dist store: an exception that destroys it does not wait for other workers") {
  check_that_pulls_are_given_up([](const auto& run) {
    CHECK_THROWS_WITH_AS(run([](KVStore&) { throw std::runtime_error("of the program"); }), "of the program",
                         std::runtime_error);
  });
}

TEST_CASE("dist store: once a call has failed the destructor does not wait for other workers") {
  check_that_pulls_are_given_up([](const auto& run) {
    run([](KVStore& store) {
      NDArray large({1'000'000});
      store.init(2, zeros({1'000'000}));
      store.pull(2, large);
      CHECK_THROWS_WITH_AS(large.wait(), doctest::Contains("memory"), StoreError);
    });
  });
}

// The transport may hold a pushed value after the last other user of the client is gone, and releases it on a
// thread on which the client cannot be destroyed. So what is pushed must not own the client.
TEST_CASE("dist store: what was pushed does not keep the connections") {
  const Job job{.workers = 1};
  const Servers servers = start_servers(job);
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  kv_detail::ClientOptions options;
  options.servers = {servers[0]->server.address()};
  auto client = std::make_shared<kv_detail::Client>(options);
  const auto key = std::make_shared<ClientKey>();
  key->name = "0";
  key->shape = {3};
  key->dtype = DType::f32;
  key->parts = {{.server = 0, .offset = 0, .bytes = 12}};
  const NDArray value = ones({3});
  value.wait();
  const auto transfer = std::make_shared<Transfer>(client, key);
  transfer->push({.kind = kv_detail::Kind::init, .has_value = true, .bytes = 12, .text = "0"}, value);
  const Var var = engine.new_var();
  Access access = array_access("init", {&value, 1}, {});
  access.mutate.add(var);
  engine.push_async(StartTransfer{transfer}, access);
  engine.wait(var);
  CHECK(key->is_known());
  client->leave(std::chrono::seconds(20));
  const std::weak_ptr<kv_detail::Client> weak = std::exchange(client, nullptr);
  // The engine destroys the op, which owns the client, only after it has woken the waiter.
  while (!weak.expired()) std::this_thread::yield();
  CHECK(weak.expired());
}

TEST_CASE("dist store: workers that list their parameters in another order all get an error that says so") {
  for (const char* type : {"dist_sync", "dist_async", "dist_ssp:2"}) {
    CAPTURE(type);
    for (const bool other_shape : {false, true}) {
      run_job({.workers = 3, .servers = 2, .type = type}, [&](KVStore& store) {
        std::vector<Parameter> parameters;
        for (const char* name : {"a", "b"}) {
          NDArray value = ones(other_shape && store.rank() == 1 ? Shape{1, 3} : Shape{3});
          set_requires_grad(value);
          parameters.push_back({name, value});
        }
        if (store.rank() == 1 && !other_shape) std::swap(parameters[0], parameters[1]);
        const std::shared_ptr<KVStore> shared(&store, [](KVStore*) {});
        CHECK_THROWS_WITH_AS(
            Trainer(parameters, {.store = shared}),
            doctest::Contains("the weights of worker 0 differ from those of worker 1 in name, "
                              "shape, dtype or order"),
            StoreError);
      });
    }
  }
}

TEST_CASE("dist store: every optimizer updates split values and rows as a local store does, or is refused") {
  for (const OptimizerInfo& info : optimizers()) {
    CAPTURE(info.name);
    run_job({.workers = 1, .servers = 2}, [&](KVStore& store) {
      if (create_optimizer(info.name)->needs_whole()) {
        CHECK(message_of<InvalidArgument>([&] {
                store.set_optimizer(info.name);
              }).starts_with("optimizer " + info.name + ": a step needs the norm of the whole value"));
        return;
      }
      const std::shared_ptr<KVStore> local = KVStore::create("local");
      const Shape split{700, 1000}, of_rows{30, 4};
      for (KVStore* one : {&store, local.get()}) {
        one->set_optimizer(info.name);
        Generator generator(9);
        one->init("split", generator.normal(split));
        one->init("rows", generator.normal(of_rows));
        for (int round = 0; round < 3; ++round) {
          one->push("split", generator.normal(split), {.lr = 0.01, .grad_scale = 0.5});
          one->push("rows", row_sparse(generator.integers({9}, 0, 30), generator.normal({9, 4}), of_rows));
        }
        one->push("rows", generator.normal(of_rows));
      }
      for (const auto& [key, shape] : {std::pair("split", split), std::pair("rows", of_rows)}) {
        const NDArray there(shape), here(shape);
        store.pull(key, there);
        local->pull(key, here);
        CHECK(there.to_vector<float>() == here.to_vector<float>());
      }
      CHECK(store.optimizer_state().size() == local->optimizer_state().size());
      CHECK_THROWS_AS(store.push("rows", ones(of_rows), {.decay_scale = -1}), InvalidArgument);
    });
  }
}

TEST_CASE("dist store: factors of weight_decay are refused, of the learning rate not") {
  run_job({.workers = 1}, [](KVStore& store) {
    store.init("before", ones({1}));
    store.set_optimizer("sgd", {{"weight_decay", 0.1}});
    CHECK(message_of<InvalidArgument>([&] { store.push("before", ones({1}), {.decay_scale = 0}); }) ==
          "KVStore::push: decay_scale is 0, which servers do not apply: their optimizer has one weight_decay "
          "for all "
          "values");
  });
  run_job({.workers = 1}, [](KVStore& store) {
    NDArray weight = ones({2}), bias = ones({2});
    set_requires_grad(weight);
    set_requires_grad(bias);
    const std::vector<Parameter> parameters{{"weight", weight}, {"bias", bias}};
    const std::shared_ptr<KVStore> shared(&store, [](KVStore*) {});
    CHECK_THROWS_AS(Trainer(parameters, {.params = {{"weight_decay", 0.1}},
                                         .store = shared,
                                         .groups = {{.pattern = "bias", .weight_decay = 0}}}),
                    InvalidArgument);
    Trainer trainer(parameters,
                    {.params = {{"lr", 0.5}}, .store = shared, .groups = {{.pattern = "bias", .lr = 0.5}}});
    backward(sum(weight) + sum(bias));
    trainer.step();
    CHECK(weight.to_vector<float>() == std::vector<float>{0.5f, 0.5f});
    CHECK(bias.to_vector<float>() == std::vector<float>{0.75f, 0.75f});
  });
}
