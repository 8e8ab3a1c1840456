// "allreduce" stores with arrays on GPUs: over ranks of this process, whose back end reduces arrays of the CPU, and over the back
// end nccl, with NCCL's functions over host memory in its place (comm/device/host_nccl.h).
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "../../comm/device/host_nccl.h"
#include "../../comm/ranks.h"
#include "../../gpu_arrays/problems.h"
#include "files.h"
#include "stores.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Where the arrays of the ranks are, and who reduces them.
enum class Kind { host, staged, nccl, staged_beside_nccl };
constexpr Kind kOnGpus[] = {Kind::staged, Kind::nccl, Kind::staged_beside_nccl};

using Body = std::function<std::vector<NDArray>(const std::shared_ptr<KVStore>&, Device)>;

// What the ranks get: the values of arrays, by rank.
using Results = std::vector<std::vector<std::vector<double>>>;
Results results_of(Kind kind, const Body& body, const KVStoreOptions& options = {}, int size = 2) {
  const HostNccl nccl(8, DeviceKind::cuda);
  const TemporaryDirectory directory;
  Results all(static_cast<std::size_t>(size));
  const bool by_nccl = kind == Kind::nccl || kind == Kind::staged_beside_nccl;
  const Outcomes outcomes = on_threads(size, [&](int rank) {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    CommOptions settings{.backend = by_nccl ? "nccl" : "tcp", .reproducible = true, .engine = &engine};
    const std::shared_ptr<Communicator> ranks =
        Communicator::create(settings, {rank, size, rank, size, "unix:" + directory.file("ranks")});
    if (by_nccl) CHECK(ranks->device() == gpu(rank));
    const Device device = kind == Kind::host                 ? cpu()
                          : kind == Kind::staged_beside_nccl ? gpu(rank + size)
                                                             : gpu(rank);
    for (const NDArray& one : body(KVStore::create("allreduce", ranks, options), device)) {
      all[static_cast<std::size_t>(rank)].push_back(one.detach().astype(DType::f64).to_vector<double>());
    }
  });
  for (const std::exception_ptr& error : outcomes) CHECK(text_of(error) == "");
  return all;
}

void check_alike(const Body& body, const KVStoreOptions& options = {}) {
  const auto here = results_of(Kind::host, body, options);
  for (const Kind kind : kOnGpus) {
    CAPTURE(static_cast<int>(kind));
    const auto there = results_of(kind, body, options);
    for (std::size_t rank = 0; rank < here.size(); ++rank) {
      REQUIRE(here[rank].size() == there[rank].size());
      for (std::size_t i = 0; i < here[rank].size(); ++i) {
        CAPTURE(i);
        CHECK(here[rank][i] == there[rank][i]);
      }
    }
  }
  CHECK(problems() == "");
}

// Small values go in buckets, large ones alone.
const std::vector<Shape> kShapes{{5, 7}, {}, {300}, {0}, {100'000}, {33}};

}  // namespace

TEST_CASE("allreduce stores on GPUs: sums, buckets and large values have the bits of the CPU") {
  check_alike([](const std::shared_ptr<KVStore>& store, Device device) {
    std::vector<NDArray> out;
    const auto rank = static_cast<std::uint64_t>(store->rank());
    for (std::size_t i = 0; i < kShapes.size(); ++i)
      store->init(static_cast<std::int64_t>(i), numbers(i + 100 * rank, kShapes[i]).copy_to(device));
    store->init("integers", numbers(3, {40}, DType::i32).copy_to(device));
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < kShapes.size(); ++i) {
        const auto key = static_cast<std::int64_t>(i);
        store->push(key, numbers(7 * i + rank, kShapes[i]).copy_to(device));
      }
      store->push("integers", numbers(rank, {40}, DType::i32).copy_to(device));
      for (std::size_t i = 0; i < kShapes.size(); ++i) {
        out.push_back(NDArray(kShapes[i], DType::f32, device));
        store->pull(static_cast<std::int64_t>(i), out.back());
      }
      out.push_back(NDArray({40}, DType::i32, device));
      store->pull("integers", out.back());
      if (round == 0) store->set_optimizer("add");
      if (round == 1) store->assign(0, numbers(rank, kShapes[0]).copy_to(device));
    }
    return out;
  });
}

TEST_CASE("allreduce stores on GPUs: an optimizer and its state") {
  check_alike([](const std::shared_ptr<KVStore>& store, Device device) {
    const auto rank = static_cast<std::uint64_t>(store->rank());
    store->init(0, numbers(1, {50}).copy_to(device));
    store->set_optimizer("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
    store->push(0, numbers(2 + rank, {50}).copy_to(device));
    NDArray out({50}, DType::f32, device);
    store->pull(0, out);
    auto state = store->optimizer_state();
    for (auto& [name, value] : state)
      if (name.ends_with("velocity")) value = value * static_cast<double>(rank + 1);  // rank 0's is taken
    store->set_optimizer_state(state);
    store->push(0, numbers(5 + rank, {50}).copy_to(device));
    store->pull(0, out);
    return std::vector<NDArray>{out};
  });
}

TEST_CASE("allreduce stores on GPUs: rows") {
  check_alike([](const std::shared_ptr<KVStore>& store, Device device) {
    const std::int64_t rank = store->rank();
    store->init(0, numbers(1, {12, 3}).copy_to(device));
    const RowSparse rows = row_sparse(array<std::int64_t>({1 + rank, 8}).copy_to(device),
                                      numbers(2, {2, 3}).copy_to(device), {12, 3});
    store->push(0, rows);
    store->set_optimizer("add");
    store->push(0, rows, {.grad_scale = 0.5});
    const NDArray out({12, 3}, DType::f32, device), some({2, 3}, DType::f32, device);
    store->pull(0, out);
    store->pull_rows(0, array<std::int64_t>({8, 0}).copy_to(device), some);
    return std::vector<NDArray>{out, some};
  });
}

TEST_CASE("allreduce stores on GPUs: compressed gradients go by way of the CPU") {
  check_alike(
      [](const std::shared_ptr<KVStore>& store, Device device) {
        store->init(0, zeros({4000}, DType::f32, device));
        NDArray out({4000}, DType::f32, device);
        for (std::uint64_t round = 0; round < 3; ++round) {
          store->push(0,
                      numbers(round + 9 * static_cast<std::uint64_t>(store->rank()), {4000}).copy_to(device));
          store->pull(0, out);
        }
        auto residuals = store->residuals();
        store->set_residuals(residuals);
        store->push(0, numbers(77, {4000}).copy_to(device));
        store->pull(0, out);
        return std::vector<NDArray>{out};
      },
      {.compression = "1bit"});
}

TEST_CASE("a trainer over allreduce with networks on GPUs") {
  const Body train = [](const std::shared_ptr<KVStore>& store, Device device) {
    manual_seed(1);
    Sequential net{Dense(6, 300, {.relu = true}), Dense(300, 300, {.relu = true}),
                   Dense(300, 3)};  // the middle weight goes alone
    net.to(device);
    LossScaler scaler;
    Trainer trainer(net.parameters(),
                    {.optimizer = "sgd", .params = {{"lr", 0.01}}, .store = store, .scaler = scaler});
    std::vector<NDArray> losses;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const NDArray x =
          Generator(i + 50 * static_cast<std::uint64_t>(store->rank())).normal({4, 6}).copy_to(device);
      const NDArray loss = mean(square(net(x)));
      scaler.scale(loss).backward();
      trainer.step(0.5);
      losses.push_back(loss.detach());
    }
    for (const Parameter& p : net.parameters()) losses.push_back(p.value.detach());
    return losses;
  };
  const auto here = results_of(Kind::host, train);
  for (const Kind kind : kOnGpus) {
    const auto there = results_of(kind, train);
    for (std::size_t i = 0; i < here[0].size(); ++i) {
      double difference = 0;
      for (std::size_t k = 0; k < here[0][i].size(); ++k)
        difference = std::max(difference, std::abs(there[0][i][k] - here[0][i][k]));
      CHECK(difference < 1e-4);
      if (i >= 3) CHECK(there[0][i] == there[1][i]);  // the ranks have one model
    }
  }
  CHECK(problems() == "");
}

TEST_CASE(
    "allreduce stores on GPUs: buckets are reduced on the GPU, in few calls, without a wait of the host") {
  const HostNccl nccl(8, DeviceKind::cuda);
  const TemporaryDirectory directory;
  const Outcomes outcomes = on_threads(1, [&](int) {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    const std::shared_ptr<Communicator> ranks = Communicator::create(
        {.backend = "nccl", .engine = &engine}, {0, 1, 0, 1, "unix:" + directory.file("ranks")});
    const auto store = KVStore::create("allreduce", ranks);
    std::vector<NDArray> gradients, out;
    std::vector<KVStore::Key> keys;
    for (std::int64_t i = 0; i < 30; ++i) {
      keys.push_back(i);
      gradients.push_back(full({100}, static_cast<double>(i), DType::f32, gpu(0)));
      out.push_back(NDArray({100}, DType::f32, gpu(0)));
      store->init(i, gradients.back());
    }
    store->set_optimizer("sgd", {{"lr", 1.0}});
    const auto run = [&] {
      store->push_pull(keys, gradients, out);
      for (const NDArray& one : out) one.wait();
    };
    run();
    const int starts = nccl.starts;
    const std::uint64_t before = host_waits();
    run();
    CHECK(nccl.starts - starts == 1);
    CHECK(host_waits() - before == 0);
    CHECK(out[7].to_vector<float>()[3] == -7);
    CHECK(store->gradient_memory(0).defined() == false);
    store->init(99, zeros({100'000}, DType::f32, gpu(0)));
    CHECK(store->gradient_memory(99).device() == gpu(0));
  });
  for (const std::exception_ptr& error : outcomes) CHECK(text_of(error) == "");
  CHECK(problems() == "");
}
