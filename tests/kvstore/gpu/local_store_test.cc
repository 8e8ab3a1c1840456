// "local" stores and trainers with arrays on one and several GPUs and on the CPU.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "../../gpu_arrays/problems.h"
#include "stores.h"

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i64,
                             DType::i32, DType::i16, DType::i8,     DType::u64,  DType::u32,
                             DType::u16, DType::u8,  DType::boolean};

std::vector<NDArray> on(const std::vector<Device>& devices, const std::vector<NDArray>& values) {
  std::vector<NDArray> all;
  for (std::size_t i = 0; i < values.size(); ++i)
    all.push_back(values[i].copy_to(devices[i % devices.size()]));
  return all;
}

RowSparse rows_on(Device device, DType dtype) {
  const NDArray rows = array<std::int64_t>({7, 2, 11, 2}).copy_to(device),
                values = numbers(5, {4, 3}, dtype).copy_to(device);
  return row_sparse(rows, values, {12, 3});
}

}  // namespace

TEST_CASE("a local store adds values of several GPUs and the CPU in one order, as on the CPU") {
  const std::vector<Device> there{gpu_of(1), gpu_of(0), cpu(), gpu_of(2)};
  for (const DType dtype : kDTypes) {
    CAPTURE(std::string(name_of(dtype)));
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 41}}) {
      std::vector<NDArray> values;
      for (std::uint64_t i = 0; i < 4; ++i) values.push_back(numbers(i, shape, dtype));
      for (const Device home : {gpu_of(0), cpu()}) {
        const auto here_store = KVStore::create(), there_store = KVStore::create();
        here_store->init(1, zeros(shape, dtype));
        there_store->init(1, zeros(shape, dtype, home));
        NDArray here(shape, dtype);
        std::vector<NDArray> out;
        for (const Device device : there) out.push_back(NDArray(shape, dtype, device));
        for (const std::size_t count : {4U, 2U, 1U}) {
          const std::vector<NDArray> some(values.begin(),
                                          values.begin() + static_cast<std::ptrdiff_t>(count));
          here_store->push(1, some);
          here_store->pull(1, here);
          there_store->push_pull(1, on(there, some), out);
          for (const NDArray& one : out) CHECK(same(here, one));
        }
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("a local store on GPUs: init, adopt, assign, views, the rule add") {
  const NDArray start = numbers(1, {4, 6}), more = numbers(2, {4, 6});
  const auto store = KVStore::create();
  const NDArray own = start.copy_to(gpu_of(0));
  store->adopt(0, own);
  store->init(1, start.copy_to(gpu_of(1)).transpose({1, 0}));
  store->push(0, more.copy_to(gpu_of(1)));
  CHECK(same(own, more));  // adopted: the array itself is the stored value
  store->assign(0, start);
  CHECK(same(own, start));
  const NDArray wide = zeros({8, 6}, DType::f32, gpu_of(0));
  store->pull(0, wide.slice(0, {1, 8, 2}));
  CHECK(same(wide.slice(0, {1, 8, 2}).contiguous(), start));
  store->pull(1, NDArray(wide.slice(0, {0, 8, 2})).transpose({1, 0}));
  CHECK(same(wide.slice(0, {0, 8, 2}).contiguous(), start));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto a = KVStore::create(), b = KVStore::create();
    a->init(7, start.astype(dtype));
    b->init(7, start.astype(dtype).copy_to(gpu_of(0)));
    NDArray x({4, 6}, dtype), y({4, 6}, dtype, gpu_of(0));
    for (KVStore* const each : {a.get(), b.get()}) {
      each->set_optimizer("add");
      each->push(7, more.astype(dtype).copy_to(each == a.get() ? cpu() : gpu_of(1)), {.grad_scale = 0.25});
      each->pull(7, each == a.get() ? x : y);
    }
    CHECK(same(x, y));
  }
  CHECK_THROWS_WITH_AS(store->push(0, zeros({3}, DType::f32, gpu_of(0))),
                       doctest::Contains("got f32 (3,), stored is f32 (4, 6)"), InvalidArgument);
  CHECK(problems() == "");
}

TEST_CASE("a local store on GPUs: rows are replaced, added and pulled as on the CPU") {
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const char* const rule : {"", "add", "add half"}) {
      CAPTURE(std::string(rule));
      std::vector<NDArray> whole, some, sparse;
      for (const Device device : {cpu(), gpu_of(0)}) {
        const auto store = KVStore::create();
        store->init("w", numbers(9, {12, 3}, dtype).copy_to(device));
        if (*rule) store->set_optimizer("add");
        store->push("w", rows_on(device.kind == DeviceKind::cuda ? gpu_of(1) : cpu(), dtype),
                    {.grad_scale = std::string(rule) == "add half" ? 0.5 : 1});
        whole.push_back(NDArray({12, 3}, dtype, device));
        store->pull("w", whole.back());
        some.push_back(NDArray({3, 3}, dtype, device));
        const NDArray list = array<std::int32_t>({11, 0, 11}).copy_to(device);
        store->pull_rows("w", list, some.back());
        sparse.push_back(to_dense(store->pull_rows("w", list)));
        CHECK(sparse.back().device() == device);
      }
      CHECK(same(whole[0], whole[1]));
      CHECK(same(some[0], some[1]));
      CHECK(same(sparse[0], sparse[1]));
    }
  }
  const auto store = KVStore::create();
  store->init("w", zeros({12, 3}, DType::f32, gpu_of(0)));
  const NDArray out({1, 3}, DType::f32, gpu_of(0));
  store->pull_rows("w", array<std::int64_t>({12}).copy_to(gpu_of(0)), out);
  CHECK_THROWS_WITH_AS(out.wait(), doctest::Contains("row 12 is out of range for an array of 12 rows"),
                       InvalidIndex);
  CHECK(problems() == "");
}

TEST_CASE("pushes and pulls on GPUs make no host thread wait for a device") {
  const auto store = KVStore::create();
  store->init(0, zeros({500}, DType::f32, gpu_of(0)));
  store->set_optimizer("sgd", {{"lr", 0.5}, {"momentum", 0.9}});
  const std::vector<NDArray> gradients{ones({500}, DType::f32, gpu_of(0)), ones({500}, DType::f32, gpu_of(1)),
                                       ones({500})},
      out{NDArray({500}, DType::f32, gpu_of(1)), NDArray({500}), NDArray({500}, DType::f32, gpu_of(0))};
  const auto run = [&] {
    for (int i = 0; i < 5; ++i) store->push_pull(0, gradients, out);
    for (const NDArray& one : out) one.wait();
  };
  run();  // makes streams and fills pools
  const std::uint64_t before = host_waits();
  run();
  CHECK(host_waits() - before == 0);
  CHECK(same(out[0], out[1]));
  CHECK(problems() == "");
}

TEST_CASE("a trainer of replicas on several GPUs trains as one of replicas on the CPU") {
  struct Run {
    std::vector<NDArray> first, second;
  };
  const auto train = [](Device a, Device b) {
    Sequential one = small_net(1, a), two = small_net(2, b);
    Trainer trainer(std::vector<std::vector<Parameter>>{one.parameters(), two.parameters()},
                    {.optimizer = "adam", .params = {{"lr", 0.01}}});
    for (std::uint64_t i = 0; i < 4; ++i) {
      for (Sequential* const net : {&one, &two}) {
        const Device device = net == &one ? a : b;
        const NDArray x = Generator(i + (net == &one ? 0 : 50)).normal({8, 6}).copy_to(device);
        mean(square((*net)(x))).backward();
      }
      trainer.step(0.5);
    }
    Run run;
    for (const Parameter& p : one.parameters()) run.first.push_back(p.value.detach().copy_to(cpu()));
    for (const Parameter& p : two.parameters()) run.second.push_back(p.value.detach().copy_to(cpu()));
    return run;
  };
  const Run here = train(cpu(), cpu(1)), there = train(gpu_of(0), gpu_of(1)), mixed = train(gpu_of(0), cpu());
  for (std::size_t i = 0; i < here.first.size(); ++i) {
    CHECK(same(there.first[i], there.second[i]));
    CHECK(same(mixed.first[i], mixed.second[i]));
    CHECK(max(abs(there.first[i] - here.first[i])).item<float>() < 1e-4F);
    CHECK(max(abs(mixed.first[i] - here.first[i])).item<float>() < 1e-4F);
  }
  CHECK(problems() == "");
}
