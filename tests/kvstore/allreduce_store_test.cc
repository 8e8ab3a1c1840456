#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

using namespace heddle;

namespace {

// Runs body(store, rank) on a thread for each rank; rethrows the first error.
void on_ranks(int size, const std::function<void(const std::shared_ptr<KVStore>&, int)>& body,
              const KVStoreOptions& options = {}) {
  auto ranks = Communicator::create_local(size, {.reproducible = true});
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(KVStore::create("allreduce", std::move(ranks[rank]), options), static_cast<int>(rank));
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

std::vector<float> values(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

// Size of a value that is reduced alone, not in a bucket with others.
constexpr std::int64_t kLarge = 100'000;

NDArray leaf(const Shape& shape, Device device = cpu()) {
  NDArray weight = ones(shape, DType::f32, device);
  set_requires_grad(weight);
  return weight;
}

// A trainer with learning rate 1: a step subtracts the sum of all ranks' gradients.
Trainer trainer_of(const std::vector<NDArray>& weights, const std::shared_ptr<KVStore>& store) {
  std::vector<Parameter> parameters;
  for (const NDArray& weight : weights) parameters.push_back({"weight", weight});
  return Trainer(std::move(parameters), {.params = {{"lr", 1.0}}, .store = store});
}

// Widths of a net. With kNarrow the weights' gradients share a bucket; with kWide the first weight is large
// enough to be reduced alone.
constexpr std::int64_t kNarrow = 16, kWide = 24'000;

Sequential make_net(std::int64_t width = kNarrow) {
  Generator generator(1);
  return Sequential{Dense(4, width, {.relu = true}, generator), Dense(width, 3, {}, generator)};
}

// The samples begin .. end - 1 of 24.
struct Batch {
  NDArray x, labels;
};
Batch batch(std::int64_t begin, std::int64_t end) {
  Generator generator(2);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = begin; i < end; ++i) labels.push_back(i % 3);
  return {generator.normal({24, 4}).slice(0, {begin, end}), array(labels, {end - begin})};
}

std::vector<float> weights_of(const Sequential& net) {
  std::vector<float> all;
  for (const Parameter& parameter : net.parameters()) {
    const std::vector<float> some = parameter.value.to_vector<float>();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// The weights after ten steps on `parts` ranks that share 24 samples.
std::vector<float> train(const std::shared_ptr<KVStore>& store, int rank, int parts,
                         std::int64_t width = kNarrow) {
  Sequential net = make_net(width);
  if (rank > 0) {  // other initial weights, which the trainer replaces by those of rank 0
    for (const Parameter& parameter : net.parameters()) parameter.value.detach().fill(0);
  }
  Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}, {"momentum", 0.9}}, .store = store});
  const Batch mine = batch(24 / parts * rank, 24 / parts * (rank + 1));
  for (int step = 0; step < 10; ++step) {
    backward(cross_entropy(net(mine.x), mine.labels));
    trainer.step(1.0 / parts);
  }
  return weights_of(net);
}

}  // namespace

TEST_CASE("pushes are summed over the ranks, small and large, in buckets or over them") {
  on_ranks(3, [](const std::shared_ptr<KVStore>& store, int rank) {
    REQUIRE(store->type() == "allreduce");
    REQUIRE(store->rank() == rank);
    REQUIRE(store->workers() == 3);
    const std::int64_t sizes[] = {1, 10, 200'000, 300'000, 5, 100'000, 1};
    for (std::int64_t key = 0; key < 7; ++key) store->init(key, zeros({sizes[key]}));
    for (int round = 1; round <= 3; ++round) {
      std::vector<NDArray> out;
      for (std::int64_t key = 0; key < 7; ++key) {
        store->push(key, full({sizes[key]}, static_cast<double>((rank + 1) * (key + 1) * round)));
        out.push_back(zeros({sizes[key]}));
      }
      for (std::int64_t key = 0; key < 7; ++key) store->pull(key, out[static_cast<std::size_t>(key)]);
      for (std::int64_t key = 0; key < 7; ++key) {
        REQUIRE(out[static_cast<std::size_t>(key)].to_vector<float>() ==
                values(sizes[key], static_cast<float>(6 * (key + 1) * round)));
      }
    }
    store->barrier();
  });
}

TEST_CASE("a barrier blocks until all ranks have called it") {
  constexpr int kRanks = 3;
  std::atomic<int> came{0};
  on_ranks(kRanks, [&](const std::shared_ptr<KVStore>& store, int) {
    for (int round = 1; round <= 50; ++round) {
      came += 1;
      store->barrier();
      REQUIRE(came >= kRanks * round);
    }
  });
}

TEST_CASE("dtypes do not share a bucket, and everybody begins with rank 0's value") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int rank) {
    store->init(0, full({3}, rank + 5.0));
    store->init(1, full({2}, rank + 5.0, DType::f64));
    NDArray single = zeros({3}), wide = zeros({2}, DType::f64);
    store->pull(0, single);
    store->pull(1, wide);
    REQUIRE(single.to_vector<float>() == values(3, 5));
    REQUIRE(wide.to_vector<double>() == std::vector<double>{5, 5});
    store->push(0, ones({3}));
    store->push(1, ones({2}, DType::f64));
    store->pull(0, single);
    store->pull(1, wide);
    REQUIRE(single.to_vector<float>() == values(3, 2));
    REQUIRE(wide.to_vector<double>() == std::vector<double>{2, 2});
  });
}

TEST_CASE("ranks that share a batch learn what one learns that has all of it") {
  for (const std::int64_t width : {kNarrow, kWide}) {
    CAPTURE(width);
    const std::vector<float> alone = train(KVStore::create("local"), 0, 1, width);
    for (int parts : {1, 2, 4}) {
      std::vector<std::vector<float>> learnt(static_cast<std::size_t>(parts));
      on_ranks(parts, [&](const std::shared_ptr<KVStore>& store, int rank) {
        learnt[static_cast<std::size_t>(rank)] = train(store, rank, parts, width);
      });
      for (const std::vector<float>& weights : learnt) {
        CHECK(weights == learnt[0]);
        REQUIRE(weights.size() == alone.size());
        const auto close = [](float a, float b) { return std::abs(a - b) <= 1e-5F + 1e-4F * std::abs(b); };
        CHECK(std::equal(weights.begin(), weights.end(), alone.begin(), close));
      }
      if (parts == 1) CHECK(learnt[0] == alone);
    }
  }
}

TEST_CASE("large gradients are computed where they are reduced") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int rank) {
    Sequential net = make_net(kWide);
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}, .store = store});
    const NDArray memory = store->gradient_memory(0);
    REQUIRE(memory.defined());
    // Parameter 1 is a bias: small gradients are copied, so the store lends no memory for them.
    REQUIRE_FALSE(store->gradient_memory(1).defined());
    const Batch mine = batch(12 * rank, 12 * rank + 12);
    for (int step = 0; step < 3; ++step) {
      backward(cross_entropy(net(mine.x), mine.labels));
      REQUIRE(grad(net.parameters()[0].value).storage() == memory.storage());
      const std::vector<float> own = memory.to_vector<float>();
      trainer.step();
      // After the step the memory holds the sum of all ranks' gradients.
      REQUIRE(memory.to_vector<float>() != own);
    }
    // A push of another array leaves unchanged both that array and the gradient in the memory that the store
    // has lent.
    backward(cross_entropy(net(mine.x), mine.labels));
    const NDArray other = ones(memory.shape()), waiting = grad(net.parameters()[0].value);
    const std::vector<float> before = waiting.to_vector<float>();
    store->push(0, other);
    store->barrier();
    REQUIRE(waiting.storage() == memory.storage());
    REQUIRE(waiting.to_vector<float>() == before);
    REQUIRE(other.to_vector<float>() == values(memory.size(), 1));
  });
}

TEST_CASE("gradients that the program keeps between steps stay as they are") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int) {
    NDArray weight = leaf({kLarge}), x = ones({kLarge});
    Trainer trainer = trainer_of({weight}, store);
    backward(matmul(x, weight));
    const NDArray first = grad(weight);
    clear_grad(weight);
    backward(matmul(x * 2, weight));
    REQUIRE(first.to_vector<float>() == values(kLarge, 1));
    trainer.step();
    REQUIRE(weight.to_vector<float>() == values(kLarge, -3));
  });
}

TEST_CASE("a step may come after its parameter was frozen, and errors may be cleared then") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int) {
    NDArray weight = leaf({kLarge}), x = ones({kLarge});
    Trainer trainer = trainer_of({weight}, store);
    backward(matmul(x, weight));
    set_requires_grad(weight, false);
    trainer.step();
    REQUIRE(trainer.steps() == 1);
    trainer.clear_errors();
    set_requires_grad(weight);
    // In the first step the store has lent no memory for the gradient, in the second it has.
    for (int step = 0; step < 2; ++step) {
      backward(matmul(x, weight));
      trainer.step();
    }
    REQUIRE(weight.to_vector<float>() == values(kLarge, -5));
  });
}

TEST_CASE("a gradient of the last step may be computed with") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int) {
    NDArray weight = leaf({300, 300}), x = ones({1, 300});
    Trainer trainer = trainer_of({weight}, store);
    backward(sum(matmul(x, weight)));
    const NDArray last = grad(weight);
    REQUIRE(last.storage() == store->gradient_memory(0).storage());
    trainer.step();  // replaces the gradient by the sum of the ranks' gradients, 2 everywhere
    backward(sum(matmul(last, weight)));
    REQUIRE(grad(weight).to_vector<float>() == values(90'000, 600));
    REQUIRE(last.to_vector<float>() == values(90'000, 2));
  });
}

TEST_CASE("a parameter that is there twice is pushed twice") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int) {
    NDArray weight = leaf({kLarge}), x = ones({kLarge});
    Trainer trainer = trainer_of({weight, weight}, store);
    backward(matmul(x, weight));
    trainer.step();
    NDArray stored = zeros({kLarge});
    for (const std::int64_t key : {0, 1}) {
      store->pull(key, stored);
      REQUIRE(stored.to_vector<float>() == values(kLarge, -1));
    }
  });
}

TEST_CASE("another trainer takes back what was lent") {
  NDArray weight = leaf({kLarge}), x = ones({kLarge});
  on_ranks(1, [&](const std::shared_ptr<KVStore>& store, int) {
    REQUIRE_THROWS_AS(store->gradient_memory(0), InvalidArgument);
    const Trainer shared = trainer_of({weight}, store);
    const NDArray memory = store->gradient_memory(0);
    Trainer local({{"weight", weight}});
    backward(matmul(x, weight));
    REQUIRE(grad(weight).storage() != memory.storage());
  });
}

TEST_CASE("parameters on another device than what ranks share are pushed by copies") {
  on_ranks(2, [](const std::shared_ptr<KVStore>& store, int rank) {
    NDArray weight = leaf({kLarge}, cpu(1));
    Trainer trainer = trainer_of({weight}, store);
    REQUIRE_FALSE(store->gradient_memory(0).defined());
    backward(sum(weight * (rank + 1.0)));
    trainer.step();
    REQUIRE(weight.to_vector<float>() == values(kLarge, -2));
  });
}

TEST_CASE("a gradient that fails on one rank fails the step on all, and training goes on") {
  const std::pair<std::string, std::int64_t> cases[] = {
      {"none", 4}, {"none", kLarge}, {"fp16", 4}, {"2bit:1", 4}, {"topk:1", 4}};
  for (const auto& [compression, count] : cases) {
    CAPTURE(compression);
    CAPTURE(count);
    on_ranks(2,
             [&](const std::shared_ptr<KVStore>& store, int rank) {
               NDArray weight = leaf({count});
               Trainer trainer = trainer_of({weight}, store);
               NDArray x = ones({count});
               if (rank == 1) array_push("load", {}, {x}, [] { throw std::runtime_error("bad batch"); });
               backward(matmul(x, weight));  // computes the gradient in the memory that the store has lent
               trainer.step();
               bool failed = false;
               try {
                 weight.wait();
               } catch (const std::exception& error) {
                 failed = std::string(error.what()).find("bad batch") != std::string::npos;
               }
               REQUIRE(failed);
               trainer.clear_errors();
               backward(matmul(ones({count}), weight));
               trainer.step();
               REQUIRE(weight.to_vector<float>() == values(count, -1));
             },
             {.compression = compression});
  }
}

TEST_CASE("compressed: f32 is rounded, what does not fit is sent later, all else is exact") {
  on_ranks(2,
           [](const std::shared_ptr<KVStore>& store, int rank) {
             // Exact despite compression, since an initial value is not compressed.
             store->init(0, full({3}, rank + 0.3));
             store->init(1, zeros({2}, DType::f64));
             NDArray single = zeros({3}), wide = zeros({2}, DType::f64);
             store->pull(0, single);
             REQUIRE(single.to_vector<float>() == values(3, 0.3f));
             // In each round each rank pushes 0.25, which adds to its residual. Rounds 1 and 3 stay below the
             // threshold 0.5 and send 0; in rounds 2 and 4 each rank sends 0.5.
             for (float sum : {0.0f, 1.0f, 0.0f, 1.0f}) {
               store->push(0, full({3}, 0.25));
               store->push(1, full({2}, 0.3, DType::f64));
               store->pull(0, single);
               store->pull(1, wide);
               REQUIRE(single.to_vector<float>() == values(3, sum));
               REQUIRE(wide.to_vector<double>() == std::vector<double>{0.6, 0.6});
             }
             store->push(0, full({3}, 0.25));
             store->pull(0, single);
             NDArray other = zeros({1});
             store->init(2, zeros({1}));
             // The values of key 2 are in another bucket than those of key 0, whose residual does not count
             // here.
             store->push(2, full({1}, 0.25));
             store->pull(2, other);
             REQUIRE(other.to_vector<float>() == values(1, 0));
           },
           {.compression = "2bit:0.5"});
}

TEST_CASE("ranks learn with compression, and all the same") {
  for (const std::string compression : {"fp16", "bf16", "1bit", "2bit:0.01", "topk:0.1"}) {
    CAPTURE(compression);
    std::vector<std::vector<float>> learnt(3);
    on_ranks(3,
             [&](const std::shared_ptr<KVStore>& store, int rank) {
               learnt[static_cast<std::size_t>(rank)] = train(store, rank, 3);
             },
             {.compression = compression});
    CHECK(learnt[1] == learnt[0]);
    CHECK(learnt[2] == learnt[0]);
    CHECK(learnt[0] != weights_of(make_net()));
  }
}

TEST_CASE("ranks that compress differently are told, all of them") {
  auto ranks = Communicator::create_local(3);
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        KVStore::create("allreduce", ranks[rank], {.compression = rank == 2 ? "2bit:0.25" : "2bit"});
      } catch (const InvalidArgument& error) {
        errors[rank] = error.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    CHECK(error ==
          "KVStore::create: the ranks' compression differs: 2bit:0.5 on ranks 0, 1; 2bit:0.25 on rank 2");
  }
}

TEST_CASE("what cannot be a store says so") {
  CHECK_THROWS_AS(KVStore::create("local", Communicator::create_local(1)[0]), InvalidArgument);
  CHECK_THROWS_AS(KVStore::create("allreduce", nullptr), InvalidArgument);
  CHECK_THROWS_WITH_AS(KVStore::create("allreduce", Communicator::create_local(1)[0], {.compression = "zip"}),
                       doctest::Contains("no compression 'zip'; there are none, fp16"), InvalidArgument);
  CHECK_THROWS_AS(KVStore::create("ring", Communicator::create_local(1)[0]), InvalidArgument);
}
