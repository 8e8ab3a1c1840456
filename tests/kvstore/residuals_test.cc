// Checkpoints of training with compression include the residuals of pushes.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "arguments.h"
#include "dist_job.h"
#include "files.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;
using Floats = std::vector<float>;

namespace {

const std::vector<std::string> kCodecs = kSanitized
                                             ? std::vector<std::string>{"2bit:0.5"}
                                             : std::vector<std::string>{"1bit", "2bit:0.5", "topk:0.1"};

// Runs body(store) on a thread for each of two ranks; rethrows the first error.
void on_ranks(const std::string& compression,
              const std::function<void(const std::shared_ptr<KVStore>&)>& body) {
  auto ranks = Communicator::create_local(2, {.reproducible = true});
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(KVStore::create("allreduce", std::move(ranks[rank]), {.compression = compression}));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// A training run whose gradients depend on the rank and the step.
struct Run {
  std::vector<Parameter> parameters;
  Trainer trainer;

  Run(const std::shared_ptr<KVStore>& store, const std::vector<std::int64_t>& sizes)
      : parameters(make(sizes)),
        trainer(parameters, {.params = {{"lr", 0.05}, {"momentum", 0.9}}, .store = store}) {}

  static std::vector<Parameter> make(const std::vector<std::int64_t>& sizes) {
    std::vector<Parameter> all;
    for (const std::int64_t size : sizes) {
      NDArray weight = full({size}, 0.5);
      set_requires_grad(weight);
      all.push_back({"weight" + std::to_string(all.size()), weight});
    }
    return all;
  }

  void go_on(int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto seed = static_cast<std::uint64_t>(100 * trainer.steps() + trainer.store().rank());
      for (const Parameter& one : parameters)
        backward(sum(one.value * one.value * Generator(seed).normal(one.value.shape())));
      trainer.step(0.5);
    }
  }

  Floats weights() const {
    Floats all;
    for (const Parameter& one : parameters) {
      const Floats some = one.value.to_vector<float>();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  Checkpoint checkpoint() { return {.parameters = parameters, .trainer = &trainer}; }

  void save(const std::string& path) {
    save_residuals(path, trainer);
    if (trainer.store().rank() == 0) save_checkpoint(path, checkpoint());
  }
  void load(const std::string& path) {
    Checkpoint loaded = checkpoint();
    load_checkpoint(path, loaded);
  }
};

using Body = std::function<void(const std::shared_ptr<KVStore>&)>;
// Runs the body for two workers. Each call starts new servers or ranks.
using Job2 = std::function<void(const Body&)>;

constexpr int kSteps = 2;

// Compares rank 0's weights after 2 * kSteps steps of three runs: one without interruption, one that is
// resumed from a checkpoint, and one that is resumed without residuals.
void check_resumed(const Job2& job, const std::vector<std::int64_t>& sizes) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run");
  Floats straight, resumed, without;
  const auto keep = [](const KVStore& store, const Run& run, Floats& weights) {
    const Floats mine = run.weights();
    if (store.rank() == 0) weights = mine;
  };
  job([&](const std::shared_ptr<KVStore>& store) {
    Run run(store, sizes);
    run.go_on(kSteps);
    run.save(path);
    run.go_on(kSteps);
    keep(*store, run, straight);
  });
  const auto load_and_go_on = [&](Floats& weights) {
    job([&](const std::shared_ptr<KVStore>& store) {
      Run run(store, sizes);
      run.go_on(1);  // makes residuals that load() has to replace
      run.load(path);
      REQUIRE(run.trainer.steps() == kSteps);
      run.go_on(kSteps);
      keep(*store, run, weights);
    });
  };
  load_and_go_on(resumed);
  CHECK(resumed == straight);
  for (const int rank : {0, 1})
    REQUIRE(std::filesystem::remove(path + ".residuals-2-" + std::to_string(rank) + "-of-2"));
  load_and_go_on(without);
  CHECK(without != straight);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("allreduce with compression, saved and resumed, goes on to the last bit") {
  for (const std::string& codec : kCodecs) {
    CAPTURE(codec);
    // The sizes make several buckets; the first bucket has several keys.
    check_resumed([&](const Body& body) { on_ranks(codec, body); }, {300'000, 10, 2'000, 3});
  }
}

TEST_CASE("dist_sync with compression, saved and resumed, goes on to the last bit") {
  for (const std::string& codec : kCodecs) {
    CAPTURE(codec);
    const Job job{.workers = 2, .servers = 2, .compression = codec};
    const auto run = [&](const Body& body) {
      const Servers servers = start_servers(job);
      run_workers(job, servers,
                  [&](KVStore& store) { body(std::shared_ptr<KVStore>(&store, [](KVStore*) {})); });
    };
    // The first key is split over both servers, the second is on one of them, and the third is too small to
    // be compressed.
    check_resumed(run, {600'000, 20'000, 10});
  }
}

TEST_CASE("residuals of parameters in another order are refused, and what is said names both orders") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run");
  on_ranks("2bit:0.5", [&](const std::shared_ptr<KVStore>& store) {
    Run run(store, {20, 20});
    run.go_on(1);
    run.save(path);
  });
  on_ranks("2bit:0.5", [&](const std::shared_ptr<KVStore>& store) {
    std::vector<Parameter> parameters = Run::make({20, 20});
    std::swap(parameters[0], parameters[1]);
    Trainer trainer(parameters, {.params = {{"lr", 0.05}, {"momentum", 0.9}}, .store = store});
    Checkpoint loaded{.parameters = parameters, .trainer = &trainer};
    const std::string message = message_of([&] { load_checkpoint(path, loaded); });
    CAPTURE(message);
    CHECK(contains(message, "weight0, weight1; now they are weight1, weight0"));
    CHECK(trainer.steps() == 0);
  });
}

TEST_CASE("residuals are this worker's own, and those of compressed pushes alone") {
  const Job job{.workers = 2, .compression = "2bit:0.5"};
  run_job(job, [](KVStore& store) {
    store.set_optimizer("add");
    store.init("large", zeros({20'000}));
    store.init("small", zeros({10}));
    store.push("large", full({20'000}, store.rank() == 0 ? 0.25 : 0.125));
    store.push("small", ones({10}));
    const auto residuals = store.residuals();
    REQUIRE(residuals.size() == 1);
    CHECK(residuals.at("large").to_vector<float>() == Floats(20'000, store.rank() == 0 ? 0.25F : 0.125F));
    store.set_residuals({});
    CHECK(store.residuals().at("large").to_vector<float>() == Floats(20'000, 0.0F));
    store.set_residuals(residuals);
    store.push("large", full({20'000}, 0.25));
    NDArray out = zeros({20'000});
    store.pull("large", out);
    // Rank 0's two pushes of 0.25 reach the threshold 0.5; rank 1's 0.125 and 0.25 do not.
    CHECK(out.to_vector<float>() == Floats(20'000, 0.5F));
  });
}

TEST_CASE("residuals that do not fit a dist store are refused on all workers and change nothing") {
  const Job job{.workers = 2, .compression = "2bit:0.5"};
  run_job(job, [](KVStore& store) {
    store.set_optimizer("add");
    store.init("a", zeros({20'000}));
    store.init("b", zeros({20'000}));
    store.init("small", zeros({10}));
    store.push("a", full({20'000}, 0.25));
    const auto refused = [&](std::map<std::string, NDArray> residuals, const std::string& why) {
      CAPTURE(why);
      const bool odd = store.rank() == 1;
      if (!odd) residuals = store.residuals();
      const auto set = [&] { store.set_residuals(residuals); };
      const std::string message = odd ? message_of<InvalidArgument>(set) : message_of<StoreError>(set);
      CAPTURE(message);
      CHECK(contains(message, why));
      CHECK(store.residuals().at("a").to_vector<float>() == Floats(20'000, 0.25F));
    };
    const NDArray good = zeros({20'000});
    refused({{"a", good}, {"c", good}}, "key c: the key is unknown");
    refused({{"a", good}, {"b", good}, {"small", zeros({10})}}, "key small: its pushes are not compressed");
    refused({{"a", good}, {"b", zeros({10})}}, "key b: got f32 (10,), want f32 (20000,)");
    refused({{"a", good}}, "key b: it is missing");
  });
}

TEST_CASE("residuals that do not fit an allreduce store are refused on all ranks and change nothing") {
  on_ranks("2bit:0.5", [](const std::shared_ptr<KVStore>& store) {
    store->init(0, zeros({4}));
    store->init("b", zeros({3}));
    const auto push_and_pull = [&] {
      store->push(0, full({4}, 0.25));
      store->push("b", full({3}, 0.25));
      NDArray out = zeros({4});
      store->pull(0, out);
      return out.to_vector<float>();
    };
    CHECK(push_and_pull() == Floats(4, 0.0F));
    const auto residuals = store->residuals();
    REQUIRE(residuals.size() == 3);
    CHECK(residuals.at("bucket0.0.0").to_vector<float>() == Floats(4, 0.25F));
    CHECK(residuals.at("bucket0.1.b").to_vector<float>() == Floats(3, 0.25F));
    CHECK(residuals.at("bucket0.sum").size() == (store->rank() == 0 ? 4 : 3));
    const auto refused = [&](const std::function<void(std::map<std::string, NDArray>&)>& change,
                             const std::string& why) {
      CAPTURE(why);
      auto changed = residuals;
      if (store->rank() == 1) change(changed);
      const std::string message = message_of<InvalidArgument>([&] { store->set_residuals(changed); });
      CAPTURE(message);
      CHECK(contains(message, why));
      CHECK(store->residuals().at("bucket0.1.b").to_vector<float>() == Floats(3, 0.25F));
    };
    refused([](auto& all) { all.clear(); }, "residuals of 1 buckets on rank 0; no residuals on rank 1");
    refused([](auto& all) { all["other"] = ones({1}); }, "what is 'other'?");
    refused([](auto& all) { all["bucket99999999.0.b"] = ones({1}); }, "what is 'bucket99999999.0.b'?");
    refused([](auto& all) { all["bucket0.0.c"] = ones({1}); },
            "'bucket0.0.c' is at the place of another key");
    refused([](auto& all) { all["bucket0.2.c"] = ones({1}); }, "key c");
    refused([](auto& all) { all.erase("bucket0.0.0"); }, "number 0 of bucket0 is missing, before key b");
    refused([](auto& all) { all.erase("bucket0.sum"); }, "'bucket0.sum' is missing");
    refused([](auto& all) { all["bucket0.1.b"] = ones({2}); }, "key b is f32 (2,), stored is f32 (3,)");
    refused([](auto& all) { all["bucket0.1.b"] = ones({3}, DType::f64); }, "f64 (3,), want f32");
    refused([](auto& all) { all["bucket0.sum"] = ones({7}); }, "rank 1 of 2 adds a part");
    // The refused calls have not changed the residuals.
    CHECK(push_and_pull() == Floats(4, 1.0F));
  });
  on_ranks("none", [](const std::shared_ptr<KVStore>& store) {
    store->init(0, zeros({4}));
    CHECK(store->residuals().empty());
    store->set_residuals({});
    CHECK(contains(message_of<InvalidArgument>([&] {
                     store->set_residuals({{"bucket0.sum", ones({2})}});
                   }),
                   "this store does not compress"));
  });
}

TEST_CASE("a local store leaves nothing out") {
  const auto store = KVStore::create("local");
  store->init(0, zeros({4}));
  CHECK(store->residuals().empty());
  store->set_residuals({});
  CHECK(contains(message_of<InvalidArgument>([&] {
                   store->set_residuals({{"0", ones({4})}});
                 }),
                 "got '0', but pushes to a store of type local leave nothing out"));
}

TEST_CASE("residuals of other counts of steps are removed, but for those of the checkpoint that is there") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run");
  for (const char* const stale :
       {"run.residuals-7-5-of-6", "run.residuals-9-1-of-2", "run.residuals-x", "other"})
    write_file(folder.file(stale), "x");
  const std::string parts[] = {"run.residuals-1-", "run.residuals-2-", "run.residuals-3-"};
  on_ranks("1bit", [&](const std::shared_ptr<KVStore>& store) {
    Run run(store, {10});
    const std::string rank = std::to_string(store->rank()) + "-of-2";
    const auto has = [&](int step) { return std::filesystem::exists(folder.file(parts[step - 1] + rank)); };
    run.go_on(1);
    run.save(path);
    run.go_on(1);  // rank 1 cannot get past this step before rank 0 has written the checkpoint
    save_residuals(path, run.trainer);
    CHECK(has(1));
    CHECK(has(2));
    run.go_on(1);
    // The checkpoint of step 1 is still there, so the residuals of step 1 stay; those of step 2 go.
    save_residuals(path, run.trainer);
    CHECK(has(1));
    CHECK_FALSE(has(2));
    CHECK(has(3));
    store->barrier();
    if (store->rank() == 0) save_checkpoint(path, run.checkpoint());
  });
  CHECK(names_in(folder.file("")) == std::vector<std::string>{"other", "run", parts[0] + "0-of-2",
                                                              parts[0] + "1-of-2", parts[2] + "0-of-2",
                                                              parts[2] + "1-of-2", "run.residuals-x"});
}

TEST_CASE("a checkpoint whose residuals do not fit changes nothing, and says which file to remove") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run");
  on_ranks("1bit", [&](const std::shared_ptr<KVStore>& store) {
    Run run(store, {10, 20});
    run.go_on(1);
    run.save(path);
  });
  on_ranks("none", [&](const std::shared_ptr<KVStore>& store) {
    Run run(store, {10, 20});
    run.go_on(2);
    const Floats before = run.weights();
    const std::string message = message_of([&] { run.load(path); });
    CAPTURE(message);
    CHECK(contains(message, path + ".residuals-1-" + std::to_string(store->rank()) + "-of-2'"));
    CHECK(contains(message, "this store does not compress"));
    CHECK(run.weights() == before);
    CHECK(run.trainer.steps() == 2);
  });
  const std::string damaged = path + ".residuals-1-0-of-2";
  std::string bytes = read_file(damaged);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(damaged, bytes);  // damages the residuals' file of one rank
  on_ranks("1bit", [&](const std::shared_ptr<KVStore>& store) {
    Run run(store, {10, 20});
    const std::string message = message_of([&] { run.load(path); });
    CAPTURE(message);
    CHECK(contains(message, "the file is damaged"));
    if (store->rank() == 1) CHECK(contains(message, "rank 0 refused it"));
    CHECK(run.trainer.steps() == 0);
    run.go_on(1);
  });
}

TEST_CASE("residuals that one worker cannot write are an error of all, and the next step has all pushes") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run");
  // Makes a folder where rank 1 would write its file.
  std::filesystem::create_directories(folder.file("run.residuals-1-1-of-2/full"));
  std::vector<Floats> weights(2);
  on_ranks("1bit", [&](const std::shared_ptr<KVStore>& store) {
    Run run(store, {10});
    run.go_on(1);
    const std::string said = message_of([&] { save_residuals(path, run.trainer); });
    CHECK(said.find("save_residuals: ") != std::string::npos);
    CHECK(said.find("save_safetensors") == std::string::npos);
    run.go_on(1);
    weights[static_cast<std::size_t>(store->rank())] = run.weights();
  });
  CHECK(weights[0] == weights[1]);
  CHECK(weights[0].size() == 10);
}

TEST_CASE("residuals of another number of workers are those of another run") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run");
  Floats all, none;
  for (const bool stale : {false, true}) {
    on_ranks("1bit", [&](const std::shared_ptr<KVStore>& store) {
      Run run(store, {10});
      run.go_on(1);
      run.save(path);
    });
    auto content = load_safetensors(path);
    if (stale) content.metadata["workers"] = "3";
    if (stale) save_safetensors(path, content, {.checksums = true});
    on_ranks("1bit", [&](const std::shared_ptr<KVStore>& store) {
      Run run(store, {10});
      run.load(path);
      for (const auto& [name, left] : store->residuals()) {
        const Floats some = left.to_vector<float>();
        Floats& into = stale ? none : all;
        if (store->rank() == 0) into.insert(into.end(), some.begin(), some.end());
      }
    });
  }
  CHECK(std::any_of(all.begin(), all.end(), [](float one) { return one != 0; }));
  CHECK(std::all_of(none.begin(), none.end(), [](float one) { return one == 0; }));
}
