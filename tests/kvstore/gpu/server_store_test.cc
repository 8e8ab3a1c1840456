// Stores on servers with arrays on GPUs: the workers of one job have theirs on the CPU, those of the other one on GPUs.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "../../gpu_arrays/problems.h"
#include "dist_job.h"
#include "stores.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// What each worker gets, of a job whose worker i has its arrays on device(i).
using Results = std::vector<std::vector<NDArray>>;
Results results_of(Job job, const std::function<Device(int)>& device,
                   const std::function<std::vector<NDArray>(KVStore&, Device)>& body) {
  Results all(static_cast<std::size_t>(job.workers));
  run_job(job, [&](KVStore& store) {
    for (const NDArray& one : body(store, device(store.rank()))) {
      NDArray copy = one.copy_to(cpu());
      copy.wait();
      all[static_cast<std::size_t>(store.rank())].push_back(copy);
    }
  });
  return all;
}

void check_alike(const Job& job, const std::function<std::vector<NDArray>(KVStore&, Device)>& body) {
  const Results here = results_of(
                    job, [](int) { return cpu(); }, body),
                there = results_of(
                    job, [](int rank) { return gpu_of(rank); }, body);
  for (std::size_t rank = 0; rank < here.size(); ++rank) {
    REQUIRE(here[rank].size() == there[rank].size());
    for (std::size_t i = 0; i < here[rank].size(); ++i) {
      CAPTURE(i);
      const std::vector<float> a = here[rank][i].to_vector<float>(), b = there[rank][i].to_vector<float>();
      CHECK(a == b);
    }
  }
  CHECK(problems() == "");
}

}  // namespace

TEST_CASE("servers: pushes from GPUs and pulls to them give the bits of the CPU") {
  check_alike({.workers = 2, .servers = 2}, [](KVStore& store, Device device) {
    const auto rank = static_cast<std::uint64_t>(store.rank());
    const std::vector<KVStore::Key> keys{1, 2, 3};
    const std::vector<Shape> shapes{{5, 7}, {300}, {70'000}};
    for (std::size_t i = 0; i < keys.size(); ++i) store.init(keys[i], numbers(i, shapes[i]).copy_to(device));
    store.set_optimizer("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
    std::vector<NDArray> gradients, out;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      gradients.push_back(numbers(10 + 3 * rank + i, shapes[i]).copy_to(device));
      out.push_back(NDArray(shapes[i], DType::f32, device));
    }
    store.push_pull(keys, gradients, out);
    store.push(keys, gradients);
    store.pull(keys, out);
    store.push(1, {gradients[0], gradients[0].copy_to(cpu())});
    const NDArray transposed({7, 5}, DType::f32, device);
    store.pull(1, transposed.transpose({1, 0}));
    store.push_pull(2, {&gradients[1], 1}, {&gradients[1], 1});  // pulls into the array that is pushed
    store.assign(3, gradients[2]);
    store.pull(3, out[2]);
    out.push_back(transposed.contiguous());
    out.push_back(gradients[1]);
    return out;
  });
}

TEST_CASE("servers: compressed values and rows from GPUs") {
  check_alike({.workers = 2, .compression = "1bit", .pull_compression = "fp16"}, [](KVStore& store,
                                                                                    Device device) {
    const NDArray out({70'000}, DType::f32, device), some({2, 3}, DType::f32, device);
    store.init(0, zeros({70'000}, DType::f32, device));
    store.init(1, numbers(4, {12, 3}).copy_to(device));
    store.set_optimizer("sgd", {{"lr", 0.5}});
    for (std::uint64_t round = 0; round < 3; ++round) {
      store.push(0, numbers(round + 7 * static_cast<std::uint64_t>(store.rank()), {70'000}).copy_to(device));
      store.pull(0, out);
    }
    store.push(1, row_sparse(array<std::int64_t>({3, 8}).copy_to(device), numbers(2, {2, 3}).copy_to(device),
                             {12, 3}));
    store.pull_rows(1, array<std::int64_t>({8, 0}).copy_to(device), some);
    return std::vector<NDArray>{out, some};
  });
}

TEST_CASE("servers: pushes and pulls of arrays on GPUs make no host thread wait for a device") {
  run_job({.workers = 1}, [](KVStore& store) {
    store.init(0, zeros({5000}, DType::f32, gpu_of(0)));
    store.set_optimizer("sgd", {{"lr", 0.5}});
    const NDArray gradient = ones({5000}, DType::f32, gpu_of(0)), out({5000}, DType::f32, gpu_of(0));
    const auto run = [&] {
      for (int i = 0; i < 5; ++i) store.push_pull(0, {&gradient, 1}, {&out, 1});
      out.wait();
    };
    run();  // makes streams and fills pools
    const std::uint64_t before = host_waits();
    run();
    CHECK(host_waits() - before == 0);
    CHECK(out.to_vector<float>()[17] == -5);
  });
  CHECK(problems() == "");
}

TEST_CASE("a trainer on servers with a network on a GPU") {
  const auto losses = [](const std::function<Device(int)>& device) {
    std::vector<std::vector<float>> all(2);
    run_job({.workers = 2}, [&](KVStore& store) {
      const Device mine = device(store.rank());
      Sequential net = small_net(1, mine);
      // The trainer shares the store with this frame, which owns it.
      Trainer trainer(net.parameters(), {.optimizer = "sgd",
                                         .params = {{"lr", 0.05}},
                                         .store = std::shared_ptr<KVStore>(&store, [](KVStore*) {})});
      for (std::uint64_t i = 0; i < 4; ++i) {
        const NDArray x =
            Generator(i + 50 * static_cast<std::uint64_t>(store.rank())).normal({8, 6}).copy_to(mine);
        const NDArray loss = mean(square(net(x)));
        loss.backward();
        trainer.step(0.5);
        all[static_cast<std::size_t>(store.rank())].push_back(loss.item<float>());
      }
    });
    return all;
  };
  const auto here = losses([](int) { return cpu(); }), there = losses([](int rank) { return gpu_of(rank); });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 4; ++i) CHECK(there[rank][i] == doctest::Approx(here[rank][i]).epsilon(1e-4));
  }
  CHECK(problems() == "");
}
