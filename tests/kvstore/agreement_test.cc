// Ranks of an allreduce store whose calls differ: every rank gets an error that names the difference.
#include <algorithm>
#include <csignal>
#include <exception>
#include <files.h>
#include <functional>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Body = std::function<void(const std::shared_ptr<Communicator>&, int rank)>;
using StoreBody = std::function<void(const std::shared_ptr<KVStore>&, int rank)>;

struct Job {
  std::string backend;
  EngineOptions engine;
};

// The text of the error that `body` throws. Takes the engine's other errors, so that they are not logged.
std::string outcome_of(Engine& engine, const std::function<void()>& body) {
  std::string text = "no error";
  const EngineScope scope(engine);
  try {
    body();
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "a check failed";
  }
  try {
    engine.wait_all();
  } catch (const std::exception&) {
  }
  return text;
}

std::vector<std::string> on_threads(int size, const std::function<std::string(int)>& body) {
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { texts[static_cast<std::size_t>(rank)] = body(rank); });
  for (std::thread& thread : threads) thread.join();
  return texts;
}

LaunchEnvironment job_of(int rank, int size, const std::string& meeting_place) {
  LaunchEnvironment job;
  job.rank = job.local_rank = rank;
  job.size = job.local_size = size;
  job.rendezvous = "unix:" + meeting_place;
  return job;
}

// The text of the error that each rank's body throws. Ranks of the back end "local" share an engine; ranks of
// other back ends have an engine each.
std::vector<std::string> errors_of(const Job& job, int size, const Body& body) {
  if (job.backend == "local") {
    Engine engine(job.engine);
    auto ranks = Communicator::create_local(size, {.engine = &engine});
    return on_threads(size, [&](int rank) {
      return outcome_of(engine,
                        [&] { body(std::exchange(ranks[static_cast<std::size_t>(rank)], nullptr), rank); });
    });
  }
  const TemporaryDirectory directory;
  return on_threads(size, [&](int rank) {
    Engine engine(job.engine);
    return outcome_of(engine, [&] {
      body(Communicator::create({.backend = job.backend}, job_of(rank, size, directory.file("ranks"))), rank);
    });
  });
}

// Like errors_of, but runs each rank in a process of its own.
std::vector<std::string> errors_of_processes(const std::string& backend, int size, const Body& body) {
  const TemporaryDirectory directory;
  std::vector<pid_t> children;
  const auto text_of = [&](int rank) { return directory.file("rank" + std::to_string(rank)); };
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
      const std::string text = outcome_of(engine, [&] {
        body(Communicator::create({.backend = backend}, job_of(rank, size, directory.file("ranks"))), rank);
      });
      write_file(text_of(rank), text);
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::string> texts;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    REQUIRE(waitpid(children[static_cast<std::size_t>(rank)], &status, 0) > 0);
    CHECK(status == 0);
    texts.push_back(read_file(text_of(rank)));
  }
  return texts;
}

const Job kJobs[] = {{"local", {.scheduler = Scheduler::threaded, .workers = 2}},
                     {"shm", {.scheduler = Scheduler::threaded, .workers = 1}},
                     {"tcp", {.scheduler = Scheduler::threaded, .workers = 2}},
                     {"shm", {.scheduler = Scheduler::fuzz, .seed = 3}},
                     {"tcp", {.scheduler = Scheduler::fuzz, .seed = 4}},
                     {"shm", {.scheduler = Scheduler::naive}},
                     {"tcp", {.scheduler = Scheduler::naive}}};

constexpr int kRanks = 3, kOdd = 1;  // kOdd: the rank whose call differs from the other ranks' calls

// Checks that, on every back end, the error of every rank contains all of `parts`.
void expect_errors(const Body& body, const std::vector<std::string>& parts) {
  for (const Job& job : kJobs) {
    CAPTURE(job.backend);
    CAPTURE(static_cast<int>(job.engine.scheduler));
    for (const std::string& error : errors_of(job, kRanks, body)) {
      CAPTURE(error);
      for (const std::string& part : parts) {
        CAPTURE(part);
        CHECK(error.find(part) != std::string::npos);
      }
    }
  }
}

void expect_store_errors(const StoreBody& body, const std::vector<std::string>& parts,
                         const KVStoreOptions& options = {}) {
  expect_errors(
      [&](const auto& ranks, int rank) { body(KVStore::create("allreduce", ranks, options), rank); }, parts);
}

// Pulls the value and waits for it.
std::vector<float> pulled(KVStore& store, KVStore::Key key, const Shape& shape) {
  const NDArray out = zeros(shape);
  store.pull(key, out);
  return out.to_vector<float>();
}

// Size of a value that is reduced alone, not in a bucket with others.
constexpr std::int64_t kLarge = 100'000;

NDArray leaf(const Shape& shape) {
  NDArray weight = ones(shape);
  set_requires_grad(weight);
  return weight;
}

std::vector<Parameter> make_parameters(int count) {
  std::vector<Parameter> all;
  for (int i = 0; i < count; ++i) all.push_back({"weight" + std::to_string(i), leaf({4})});
  return all;
}

void step(Trainer& trainer, double scale = 1) {
  for (const Parameter& parameter : trainer.parameters()) backward(sum(parameter.value * 2));
  trainer.step(scale);
  for (const Parameter& parameter : trainer.parameters()) parameter.value.wait();
}

}  // namespace

TEST_CASE(
    "learning rates and scales that differ are named, of small gradients, large ones and compressed ones") {
  const std::pair<Shape, std::string> cases[] = {{{4}, "none"}, {{kLarge}, "none"}, {{4}, "2bit:1"}};
  for (const auto& [shape, compression] : cases) {
    CAPTURE(shape.to_string());
    CAPTURE(compression);
    expect_store_errors(
        [&](const auto& store, int rank) {
          store->set_optimizer("sgd");
          store->init(7, ones(shape));
          store->push(7, ones(shape), {.lr = rank == kOdd ? 0.2 : 0.1});
          pulled(*store, 7, shape);
        },
        {"(push of key 7, lr 0.1) at ", "(push of key 7, lr 0.2) at ", "rank 1", "agreement_test.cc:"},
        {.compression = compression});
  }
  expect_store_errors(
      [&](const auto& store, int rank) {
        store->set_optimizer("sgd");
        store->init(7, ones({4}));
        store->push(7, ones({4}), {.grad_scale = rank == kOdd ? 0.25 : 0.5});
        pulled(*store, 7, {4});
      },
      {"(push of key 7, scale 0.5)", "(push of key 7, scale 0.25)"});
}

TEST_CASE("optimizers that differ are named with the ranks that have them") {
  expect_store_errors(
      [](const auto& store, int rank) {
        store->set_optimizer("sgd", {{"lr", 0.1}, {"momentum", rank == kOdd ? 0.8 : 0.9}});
      },
      {"KVStore::set_optimizer: the ranks' optimizer differs: sgd, lr 0.1, momentum 0.9, nesterov 0, "
       "weight_decay 0 on ranks 0, 2; sgd, lr 0.1, momentum 0.8, nesterov 0, weight_decay 0 on rank 1"});
  expect_store_errors(
      [](const auto& store, int rank) { store->set_optimizer(rank == kOdd ? "adam" : "sgd"); },
      {"sgd, lr 0.01, momentum 0, nesterov 0, weight_decay 0 on ranks 0, 2; adam, amsgrad 0, beta1 0.9, "});
  // A rank that sets an invalid optimizer causes an error on all ranks, and all ranks can then repeat the
  // call.
  expect_store_errors([](const auto& store, int rank) { store->set_optimizer(rank == kOdd ? "sdg" : "sgd"); },
                      {"there is no optimizer 'sdg'"});
}

TEST_CASE(
    "ranks that list their parameters in another order, or more than a message has room for, are told") {
  const auto make = [](std::vector<Parameter> parameters) {
    return [parameters](const auto& store, int rank) {
      std::vector<Parameter> mine;
      for (const Parameter& one : parameters) mine.push_back({one.name, leaf(one.value.shape())});
      if (rank == kOdd) std::swap(mine[mine.size() - 2], mine.back());
      Trainer trainer(mine, {.store = store});
    };
  };
  expect_store_errors(
      make({{"a", leaf({3})}, {"b", leaf({3})}}),
      {"KVStore::set_optimizer: the ranks' list of weights differs: a f32 (3,), b f32 (3,) on "
       "ranks 0, 2; b f32 (3,), a f32 (3,) on rank 1"});
  expect_store_errors(make(make_parameters(200)), {"list of weights differs: weight0 f32 (4,), ", " ... ("});
}

TEST_CASE("after optimizers that differed a store goes on with what it had") {
  for (const Job& job : kJobs) {
    CAPTURE(job.backend);
    const auto errors = errors_of(job, kRanks, [](const auto& ranks, int rank) {
      const auto store = KVStore::create("allreduce", ranks);
      store->set_optimizer("sgd", {{"lr", 1}});
      REQUIRE_THROWS_AS(store->set_optimizer(rank == kOdd ? "adam" : "sgd"), InvalidArgument);
      store->init(0, ones({2}));
      store->push(0, ones({2}));
      REQUIRE(pulled(*store, 0, {2}) == std::vector<float>{-2, -2});
    });
    for (const std::string& error : errors) CHECK(error == "no error");
  }
}

TEST_CASE("an optimizer that only one rank sets is named") {
  expect_store_errors(
      [](const auto& store, int rank) {
        store->init(0, ones({4}));
        if (rank == kOdd) store->set_optimizer("sgd");
        store->push(0, ones({4}));
        pulled(*store, 0, {4});
      },
      {"KVStore::set_optimizer", "push of key 0"});
}

TEST_CASE("compression that one rank does not know is an error on all") {
  expect_errors(
      [](const auto& ranks, int rank) {
        KVStore::create("allreduce", ranks, {.compression = rank == kOdd ? "zip" : "fp16"});
      },
      {"no compression 'zip'"});
}

TEST_CASE("another order of init is named, and another shape with as many elements, and another dtype") {
  expect_store_errors(
      [](const auto& store, int rank) {
        store->init(rank == kOdd ? 1 : 0, ones({4}));
        store->init(rank == kOdd ? 0 : 1, ones({4}));
        pulled(*store, 0, {4});
        pulled(*store, 1, {4});
        store->push(0, ones({4}));
        pulled(*store, 0, {4});
      },
      {"init of key 0, (4,)", "init of key 1, (4,)", "agreement_test.cc:"});
  expect_store_errors(
      [](const auto& store, int rank) {
        const Shape shape = rank == kOdd ? Shape{3, 2} : Shape{2, 3};
        store->init(5, ones(shape));
        store->push(5, ones(shape));
        pulled(*store, 5, shape);
      },
      {"init of key 5, (2, 3)", "init of key 5, (3, 2)"});
  expect_store_errors(
      [](const auto& store, int rank) {
        const DType dtype = rank == kOdd ? DType::i32 : DType::f32;
        store->init(5, ones({4}, dtype));
        store->push(5, ones({4}, dtype));
        const NDArray out = zeros({4}, dtype);
        store->pull(5, out);
        out.wait();
      },
      {"i32 x 4", "f32 x 4", "init of key 5"});
}

TEST_CASE("another key is named: of one push, within a bucket, of large ones, and compressed") {
  const std::pair<std::int64_t, std::string> cases[] = {{4, "none"}, {kLarge, "none"}, {4, "fp16"}};
  for (const auto& [count, compression] : cases) {
    CAPTURE(count);
    CAPTURE(compression);
    expect_store_errors(
        [count = count](const auto& store, int rank) {
          for (const std::int64_t key : {0, 1, 2}) store->init(key, ones({count}));
          store->push(rank == kOdd ? 2 : 1, ones({count}));
          pulled(*store, 1, {count});
          pulled(*store, 2, {count});
          store->push(0, ones({count}));
          pulled(*store, 0, {count});
        },
        {"push of key 1", "push of key 2"}, {.compression = compression});
  }
  expect_store_errors(
      [](const auto& store, int rank) {
        for (std::int64_t key = 0; key < 6; ++key) store->init(key, ones({4}));
        for (std::int64_t key = 6; key-- > 0;) store->push(rank == kOdd ? 5 - key : key, ones({4}));
        pulled(*store, 0, {4});
      },
      {"push of keys 5..0", "push of keys 0..5"});
}

TEST_CASE("keys that do not fit into a message are told apart all the same") {
  expect_store_errors(
      [](const auto& store, int rank) {
        std::vector<KVStore::Key> keys;
        for (std::int64_t key = 0; key < 40; ++key) keys.push_back(key * 1000);
        for (const KVStore::Key key : keys) store->init(key, ones({4}));
        if (rank == kOdd) std::swap(keys[38], keys[39]);
        for (const KVStore::Key key : keys) store->push(key, ones({4}));
        pulled(*store, 0, {4});
      },
      {"push of keys 0, 1000, 2000, 3000, 4000", "#"});
}

TEST_CASE("trainers with other schedules, scales or numbers of parameters are told") {
  const auto trained = [](auto options_of, auto count_of, auto scale_of) {
    return [=](const std::shared_ptr<KVStore>& store, int rank) {
      TrainerOptions options = options_of(rank);
      options.store = store;
      Trainer trainer(make_parameters(count_of(rank)), options);
      for (int i = 0; i < 6; ++i) step(trainer, scale_of(rank));
    };
  };
  const auto same = [](int) { return TrainerOptions{}; };
  const auto three = [](int) { return 3; };
  const auto one = [](int) { return 1.0; };
  expect_store_errors(
      trained(
          [](int rank) { return TrainerOptions{.schedule = step_schedule(0.5, rank == kOdd ? 3 : 4, 0.5)}; },
          three, one),
      {"push of keys 2..0, lr 0.5)", "push of keys 2..0, lr 0.25)"});
  expect_store_errors(trained(same, three, [](int rank) { return rank == kOdd ? 0.125 : 0.0625; }),
                      {"push of keys 2..0, lr 0.01, scale 0.125", "scale 0.0625"});
  expect_store_errors(trained(
                          same, [](int rank) { return rank == kOdd ? 2 : 3; }, one),
                      {"init of key 2, (4,)", "KVStore::set_optimizer"});
}

TEST_CASE("what only one rank assigns is named; what all assign is rank 0's") {
  expect_store_errors(
      [](const auto& store, int rank) {
        store->init(3, ones({4}));
        if (rank == kOdd) store->assign(3, zeros({4}));
        store->push(3, ones({4}));
        pulled(*store, 3, {4});
      },
      {"assign of key 3", "push of key 3", "agreement_test.cc:"});
  for (const Job& job : kJobs) {
    CAPTURE(job.backend);
    const auto errors = errors_of(job, kRanks, [](const auto& ranks, int rank) {
      const auto store = KVStore::create("allreduce", ranks);
      store->init(3, ones({4}));
      store->assign(3, full({4}, rank + 5.0));
      REQUIRE(pulled(*store, 3, {4}) == std::vector<float>{5, 5, 5, 5});
    });
    for (const std::string& error : errors) CHECK(error == "no error");
  }
}

TEST_CASE("a parameter that only one rank has changed is named; one that all have changed is rank 0's") {
  expect_store_errors(
      [](const auto& store, int rank) {
        Trainer trainer(make_parameters(2), {.store = store});
        step(trainer);
        if (rank == kOdd) trainer.parameters()[1].value.detach().fill(3);
        step(trainer);
      },
      {"assign of key 1", "push of keys 1, 0"});
  for (const Job& job : kJobs) {
    CAPTURE(job.backend);
    const auto errors = errors_of(job, kRanks, [](const auto& ranks, int rank) {
      Trainer trainer(make_parameters(2),
                      {.params = {{"lr", 1}}, .store = KVStore::create("allreduce", ranks)});
      trainer.parameters()[1].value.detach().fill(10 * rank + 10);
      step(trainer);
      REQUIRE(trainer.parameters()[1].value.template to_vector<float>() == std::vector<float>{4, 4, 4, 4});
    });
    for (const std::string& error : errors) CHECK(error == "no error");
  }
}

TEST_CASE("ranks that are processes are told too") {
  for (const std::string backend : {"shm", "tcp"}) {
    CAPTURE(backend);
    const auto rates = errors_of_processes(backend, kRanks, [](const auto& ranks, int rank) {
      Trainer trainer(make_parameters(3), {.schedule = step_schedule(0.5, rank == kOdd ? 2 : 3, 0.5),
                                           .store = KVStore::create("allreduce", ranks)});
      for (int i = 0; i < 6; ++i) step(trainer);
    });
    for (const std::string& error : rates) {
      CAPTURE(error);
      CHECK(error.find("(push of keys 2..0, lr 0.5)") != std::string::npos);
      CHECK(error.find("(push of keys 2..0, lr 0.25)") != std::string::npos);
    }
    const auto optimizers = errors_of_processes(backend, kRanks, [](const auto& ranks, int rank) {
      KVStore::create("allreduce", ranks)->set_optimizer(rank == kOdd ? "adam" : "sgd");
    });
    for (const std::string& error : optimizers) {
      CAPTURE(error);
      CHECK(error.find("weight_decay 0 on ranks 0, 2; adam, amsgrad 0, beta1 0.9") != std::string::npos);
    }
  }
}

TEST_CASE("ranks that resume alone, or from other states, are told") {
  const TemporaryDirectory directory;
  const std::string early = directory.file("early"), late = directory.file("late");
  {
    Trainer trainer(make_parameters(2), {.params = {{"momentum", 0.9}}});
    step(trainer);
    save_checkpoint(early, {.parameters = trainer.parameters(), .trainer = &trainer});
    step(trainer);
    save_checkpoint(late, {.parameters = trainer.parameters(), .trainer = &trainer});
  }
  const auto resumed = [&](const std::function<std::string(int)>& path_of) {
    return [path_of](const std::shared_ptr<KVStore>& store, int rank) {
      Trainer trainer(make_parameters(2), {.params = {{"momentum", 0.9}}, .store = store});
      Checkpoint checkpoint{.parameters = trainer.parameters(), .trainer = &trainer};
      if (!path_of(rank).empty()) load_checkpoint(path_of(rank), checkpoint);
      step(trainer);
    };
  };
  expect_store_errors(resumed([&](int rank) { return rank == kOdd ? early : ""; }),
                      {"KVStore::set_residuals", "push of keys 1, 0"});
  expect_store_errors(
      resumed([&](int rank) { return rank == kOdd ? late : early; }),
      {"KVStore::set_optimizer_state: the ranks' state differs: that of 2 keys after 1 updates on "
       "ranks 0, 2; that of 2 keys after 2 updates on rank 1"});
}

TEST_CASE("an optimizer's state is rank 0's, and one that a rank refuses changes nothing on any") {
  for (const Job& job : kJobs) {
    CAPTURE(job.backend);
    const auto errors = errors_of(job, kRanks, [](const auto& ranks, int rank) {
      const auto store = KVStore::create("allreduce", ranks);
      store->set_optimizer("sgd", {{"momentum", 0.5}});
      store->init(0, ones({2}));
      const auto state = [](double velocity, std::int64_t count) {
        return std::map<std::string, NDArray>{{"0.velocity", full({count}, velocity)},
                                              {"0.updates", array<std::int64_t>({3})}};
      };
      store->set_optimizer_state(state(rank + 2, 2));
      REQUIRE(store->optimizer_state().at("0.velocity").template to_vector<float>() ==
              std::vector<float>{2, 2});
      REQUIRE_THROWS_WITH_AS(store->set_optimizer_state(state(7, rank == kOdd ? 5 : 2)),
                             doctest::Contains("'0.velocity' is f32 (5,), its weight f32 (2,)"),
                             InvalidArgument);
      REQUIRE(store->optimizer_state().at("0.velocity").template to_vector<float>() ==
              std::vector<float>{2, 2});
      REQUIRE(pulled(*store, 0, {2}) == std::vector<float>{1, 1});
    });
    for (const std::string& error : errors) CHECK(error == "no error");
  }
}
