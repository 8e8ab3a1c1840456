// The optimizer "add" gives the same results in all kinds of stores.
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "dist_job.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// What one process does with its store. The process pushes the values of the workers first .. last - 1.
using Body = std::function<void(KVStore&, int first, int last)>;

void on_allreduce(int workers, const Body& body) {
  auto ranks = Communicator::create_local(workers, {.reproducible = true});
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto store = KVStore::create("allreduce", std::move(ranks[rank]));
        body(*store, static_cast<int>(rank), static_cast<int>(rank) + 1);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void on_all_kinds(int workers, const Body& body) {
  SUBCASE("local") { body(*KVStore::create("local"), 0, workers); }
  SUBCASE("allreduce") { on_allreduce(workers, body); }
  SUBCASE("dist_sync") {
    run_job({.workers = workers, .servers = 2},
            [&](KVStore& store) { body(store, store.rank(), store.rank() + 1); });
  }
}

NDArray pulled(KVStore& store, Key key, const Shape& shape, DType dtype) {
  NDArray out(shape, dtype);
  store.pull(key, out);
  return out;
}

// Checks that every element of `array` is `value`. Compares as f64, which represents every tested value.
void check_all(const NDArray& array, double value) {
  const std::vector<double> values = array.astype(DType::f64).to_vector<double>();
  CHECK(values == std::vector<double>(values.size(), value));
}

// The rows that `worker` pushes: row 0, which all workers push, and row 1 or 2.
RowSparse rows_of(int worker, DType dtype) {
  const NDArray rows = array<std::int64_t>({0, 1 + worker % 2});
  return row_sparse(rows, full({2, 3}, worker + 1, dtype), {4, 3});
}

// The initial value for a dtype. Just above it f16 and bf16 represent only even integers, so a worker's 1 is
// lost unless the values of all workers are summed first.
double base_of(DType dtype) { return dtype == DType::f16 ? 2048 : dtype == DType::bf16 ? 256 : 10; }
double rounded(double value, DType dtype) {
  return full({}, value, DType::f64).astype(dtype).astype(DType::f64).item<double>();
}

const std::vector<DType> kDtypes = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                    DType::i32, DType::i64, DType::u8,  DType::i16};

void dense_sums(KVStore& store, int first, int last, int workers) {
  store.set_optimizer("add");
  for (std::size_t i = 0; i < kDtypes.size(); ++i) {
    const DType dtype = kDtypes[i];
    const Key key = static_cast<Key>(i);
    // The value of key 0 is reduced alone, the small values of the other keys in buckets.
    const Shape shape = i == 0 ? Shape{100'000} : Shape{3};
    store.init(key, full(shape, base_of(dtype), dtype));
    std::vector<NDArray> values;
    for (int worker = first; worker < last; ++worker) values.push_back(ones(shape, dtype));
    store.push(key, values);
    const double once = rounded(base_of(dtype) + workers, dtype);
    check_all(pulled(store, key, shape, dtype), once);
    const double scale = is_floating(dtype) ? 2 : 1;
    store.push(key, values, {.grad_scale = scale});
    check_all(pulled(store, key, shape, dtype), rounded(once + workers * scale, dtype));
  }
  CHECK(store.optimizer_state().empty());
  store.set_optimizer_state({});
  store.push(Key(1), std::vector<NDArray>(static_cast<std::size_t>(last - first), ones({3}, DType::f64)));
  check_all(pulled(store, 1, {3}, DType::f64), 10 + 4 * workers);
}

void row_sums(KVStore& store, int first, int last, int workers) {
  store.set_optimizer("add");
  const double sum = workers * (workers + 1) / 2.0;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Key key = static_cast<Key>(static_cast<int>(dtype));
    store.init(key, full({4, 3}, base_of(dtype), dtype));
    std::vector<RowSparse> pushed;
    for (int worker = first; worker < last; ++worker) pushed.push_back(rows_of(worker, dtype));
    store.push(key, pushed);
    store.push(key, pushed, {.grad_scale = 0.5});
    const NDArray out = pulled(store, key, {4, 3}, dtype);
    check_all(out.slice(0, {0, 1}), rounded(rounded(base_of(dtype) + sum, dtype) + sum / 2, dtype));
    check_all(out.slice(0, {3, 4}), base_of(dtype));
  }
}

}  // namespace

TEST_CASE("add: stores of all kinds have the same sums of dense values, whatever their dtype") {
  for (const int workers : {2, 3}) {
    CAPTURE(workers);
    on_all_kinds(workers,
                 [&](KVStore& store, int first, int last) { dense_sums(store, first, last, workers); });
  }
}

TEST_CASE("add: stores of all kinds have the same sums of row-sparse values") {
  for (const int workers : {2, 3}) {
    CAPTURE(workers);
    on_all_kinds(workers,
                 [&](KVStore& store, int first, int last) { row_sums(store, first, last, workers); });
  }
}

TEST_CASE("add: a half times a scale is rounded once, dense and in rows") {
  constexpr std::int64_t kRows = 200;
  on_all_kinds(1, [&](KVStore& store, int, int) {
    store.set_optimizer("add");
    for (const DType dtype : {DType::f16, DType::bf16}) {
      Generator generator(7);
      const NDArray begin = generator.normal({kRows, 3}).astype(dtype),
                    push = generator.normal({kRows, 3}).astype(dtype);
      const auto expected =
          (begin.astype(DType::f32) + push.astype(DType::f32) * 0.3).astype(dtype).astype(DType::f32);
      const Key dense = static_cast<Key>(2 * static_cast<int>(dtype)),
                rows = static_cast<Key>(dense.number() + 1);
      for (const Key& key : {dense, rows}) store.init(key, begin);
      store.push(dense, push, {.grad_scale = 0.3});
      store.push(rows, row_sparse(arange(kRows).astype(DType::i64), push, {kRows, 3}), {.grad_scale = 0.3});
      for (const Key& key : {dense, rows})
        CHECK(pulled(store, key, {kRows, 3}, dtype).astype(DType::f32).to_vector<float>() ==
              expected.to_vector<float>());
    }
  });
}

TEST_CASE("add: what it cannot do is refused at the call") {
  on_all_kinds(1, [](KVStore& store, int, int) {
    CHECK_THROWS_WITH_AS(store.set_optimizer("add", {{"lr", 0.1}}),
                         doctest::Contains("'add' has no parameter 'lr'"), InvalidArgument);
    store.set_optimizer("add");
    store.init(0, ones({2}, DType::i32));
    store.init(1, ones({2, 2}));
    CHECK_THROWS_WITH_AS(store.push(0, ones({2}, DType::i32), {.grad_scale = 0.5}),
                         doctest::Contains("key 0: grad_scale is 0.5; what is added to i32 has a scale of 1"),
                         InvalidArgument);
    const double infinite = std::numeric_limits<double>::infinity();
    CHECK_THROWS_AS(store.push(1, ones({2, 2}), {.grad_scale = infinite}), InvalidArgument);
    const RowSparse rows = row_sparse(array<std::int64_t>({1}), ones({1, 2}), {2, 2});
    CHECK_THROWS_AS(store.push(1, rows, {.grad_scale = infinite}), InvalidArgument);
    check_all(pulled(store, 0, {2}, DType::i32), 1);
    store.set_optimizer("sgd", {{"lr", 1}});  // replaces "add"
    store.push(1, ones({2, 2}));
    check_all(pulled(store, 1, {2, 2}, DType::f32), 0);
  });
}
