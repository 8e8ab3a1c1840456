// Rows of values on servers: workers as threads, servers in this process, real connections.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "arguments.h"
#include "dist_job.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Rows = std::vector<std::int64_t>;

NDArray list(const Rows& rows) { return array(rows, {std::ssize(rows)}); }

// A row-sparse array that stores these rows, with `value` in each of their elements.
RowSparse same(const Rows& rows, double value, const Shape& shape, DType dtype = DType::f32) {
  Shape values = shape;
  values[0] = std::ssize(rows);
  return row_sparse(list(rows), full(values, value, dtype), shape);
}

std::vector<double> doubles(const NDArray& value) { return value.astype(DType::f64).to_vector<double>(); }

}  // namespace

TEST_CASE(
    "dist rows: sums of k rounds of n workers are k n(n+1)/2 in each row that was touched, and in no other") {
  constexpr int kWorkers = 3, kRounds = 4;
  for (const char* transport : kTransports) {
    for (const std::string type : {"dist_sync", "dist_async", "dist_ssp:1"}) {
      CAPTURE(std::string(transport));
      CAPTURE(type);
      run_job({.workers = kWorkers, .servers = 3, .type = type, .transport = transport}, [&](KVStore& store) {
        store.set_optimizer("add");
        // The first shape is small and stays on one server. The others are large enough, with f32 and f64, to
        // be split over the servers; the sizes of their rows are no multiple of 64 bytes, the usual alignment
        // of parts.
        const std::vector<Shape> shapes = {{5, 2}, {40'000, 33}, {30'000, 4, 9}, {1'000'003}};
        const std::vector<DType> dtypes =
            test::kSanitized ? std::vector{DType::bf16} : std::vector{DType::f32, DType::f64, DType::bf16};
        std::int64_t key = 0;
        for (const Shape& shape : shapes) {
          for (const DType dtype : dtypes) {
            const std::int64_t n = shape[0];
            Rows touched{0, 2, n / 3, n / 3 + 1, n / 2, n - 1};
            std::sort(touched.begin(), touched.end());
            touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
            store.init(key, zeros(shape, dtype));
            for (int round = 0; round < kRounds; ++round)
              store.push(key, same(touched, store.rank() + 1, shape, dtype));
            store.barrier();
            const Rows wanted{n - 1, 1 % n, 2, n - 1, 0};
            Shape room = shape;
            room[0] = std::ssize(wanted);
            const NDArray out(room, dtype), all(shape, dtype);
            store.pull_rows(key, list(wanted), out);
            store.pull(key++, all);
            const auto values = doubles(all), found = doubles(out);
            const std::size_t width = values.size() / static_cast<std::size_t>(n);
            for (std::int64_t row = 0; row < n; ++row) {
              const bool is_touched = std::find(touched.begin(), touched.end(), row) != touched.end();
              const double sum = is_touched ? kRounds * kWorkers * (kWorkers + 1) / 2 : 0;
              const auto begin = values.begin() + row * static_cast<std::ptrdiff_t>(width);
              const auto right = std::count(begin, begin + static_cast<std::ptrdiff_t>(width), sum);
              if (right != static_cast<std::ptrdiff_t>(width)) FAIL_CHECK("row " << row << " of " << shape);
              for (std::size_t i = 0; i < wanted.size(); ++i)
                if (wanted[i] == row) CHECK(found[i * width] == sum);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("dist rows: lists of rows and rows of more than a piece, of which all or none are named") {
  for (const char* transport : kTransports) {
    CAPTURE(std::string(transport));
    run_job({.workers = 2, .servers = 2, .transport = transport}, [](KVStore& store) {
      constexpr std::int64_t kMany = 400'000;
      const Shape shape{kMany, 2};
      store.set_optimizer("add");
      store.init(0, zeros(shape));
      const NDArray every = arange(0, kMany, 1, DType::i64);
      const NDArray values = arange(0, 2 * kMany).view_as(shape);
      store.push(0, row_sparse(every, values, shape));
      store.push(0, same({}, 1, shape));
      const NDArray out(shape), none({0, 2});
      store.pull_rows(0, every, out);
      store.pull_rows(0, list({}), none);
      none.wait();
      const auto got = out.to_vector<float>();
      for (std::size_t i = 0; i < got.size(); i += 997) CHECK(got[i] == 2 * static_cast<float>(i));
      const RowSparse found = store.pull_rows(0, array<std::int32_t>({7, 399'999, 7})).trimmed();
      CHECK(found.rows().to_vector<std::int64_t>() == Rows{7, 399'999});
      CHECK(found.values().to_vector<float>() == std::vector<float>{28, 30, 1'599'996, 1'599'998});
    });
  }
}

TEST_CASE(
    "dist rows: an optimizer on servers gives what it gives in one process, also when rows and values mix") {
  const Shape shape{30'000, 40};  // large enough to be split over the servers
  for (const std::string optimizer : {"sgd", "adam", "adamw"}) {
    if (test::kSanitized && optimizer == "adamw") continue;
    CAPTURE(optimizer);
    OptimizerParams params{{"lr", 0.5}};
    if (optimizer == "sgd") params["momentum"] = 0.5;
    const auto train = [&](KVStore& store, int workers) {
      store.init(0, ones(shape));
      store.set_optimizer(optimizer, params);
      for (int step = 0; step < 6; ++step) {
        const double mine = 1.0 / workers;
        if (step == 3) {
          store.push(0, full(shape, mine));
        } else {
          store.push(0, same({step, 20'000, 29'999 - step}, mine, shape));
        }
      }
      const NDArray out(shape);
      store.pull(0, out);
      auto all = out.to_vector<float>();
      for (const auto& [name, value] : store.optimizer_state()) {
        if (value.dtype() != DType::f32) continue;
        CHECK(value.shape() == shape);
        const auto more = value.to_vector<float>();
        all.insert(all.end(), more.begin(), more.end());
      }
      return all;
    };
    const auto expected = train(*KVStore::create("local"), 1);
    run_job({.workers = 2, .servers = 3}, [&](KVStore& store) { CHECK(train(store, 2) == expected); });
  }
}

TEST_CASE(
    "dist rows: state of rows goes through a checkpoint to a job with other servers, and to a local store") {
  const Shape shape{60'000, 20};
  const auto begin = [&](KVStore& store) {
    store.init(3, ones(shape));
    store.set_optimizer("adam", {{"lr", 0.1}});
  };
  const auto train = [&](KVStore& store, int workers, int from, int to) {
    for (int step = from; step < to; ++step)
      store.push(3, same({step, 30'000 + step, 59'999}, 1.0 / workers, shape));
    const NDArray out(shape);
    store.pull(3, out);
    return out.to_vector<float>();
  };
  const auto local = KVStore::create("local");
  begin(*local);
  const auto middle = train(*local, 1, 0, 4);
  const auto state = local->optimizer_state();
  std::map<std::string, std::vector<float>> arrays;
  for (const char* name : {"3.mean", "3.variance"}) arrays[name] = state.at(name).to_vector<float>();
  const auto counts = state.at("3.row_updates").to_vector<std::int64_t>();
  const auto wanted = train(*local, 1, 4, 8);
  for (const int servers : {1, 3}) {
    CAPTURE(servers);
    run_job({.workers = 2, .servers = servers}, [&](KVStore& store) {
      begin(store);
      std::map<std::string, NDArray> given{{"3.updates", array<std::int64_t>({4})},
                                           {"3.row_updates", array(counts, {shape[0]})}};
      for (const auto& [name, values] : arrays) given[name] = array(values, shape);
      store.set_optimizer_state(given);
      store.assign(3, array(middle, shape));
      const auto before = store.optimizer_state();
      CHECK(before.at("3.row_updates").to_vector<std::int64_t>() == counts);
      CHECK(before.at("3.mean").to_vector<float>() == arrays.at("3.mean"));
      store.barrier();
      CHECK(train(store, 2, 4, 8) == wanted);
    });
  }
}

TEST_CASE("dist rows: a model with an embedding learns what it learns in one process") {
  constexpr std::int64_t kWords = 50, kWide = 8;
  for (const std::string optimizer : {"sgd", "adam"}) {
    CAPTURE(optimizer);
    const auto learn = [&](std::shared_ptr<KVStore> store, int rank, int workers) {
      NDArray table = full({kWords, kWide}, 0.5), scale = ones({kWide});
      set_requires_grad(table), set_requires_grad(scale);
      Trainer trainer({{"table", table}, {"scale", scale}},
                      {.optimizer = optimizer, .params = {{"lr", 0.0625}}, .store = std::move(store)});
      for (int step = 0; step < 8; ++step) {
        NDArray loss;
        for (int sample = rank; sample < 2; sample += workers) {
          const NDArray words = list({(step + 7 * sample) % kWords, (3 * step) % kWords, 4});
          const NDArray error = embedding(table, words, {.sparse_grad = true}) * scale - 1.0;
          const NDArray one = sum(error * error);
          loss = loss.defined() ? loss + one : one;
        }
        backward(loss);
        CHECK(row_sparse_grad(table).defined());
        trainer.step(0.5);
      }
      auto all = table.to_vector<float>();
      const auto more = scale.to_vector<float>();
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const auto expected = learn(KVStore::create("local"), 0, 1);
    for (const std::string type : {"dist_sync"}) {
      run_job({.workers = 2, .servers = 2, .type = type}, [&](KVStore& store) {
        const std::shared_ptr<KVStore> shared(&store, [](KVStore*) {});
        const auto got = learn(shared, store.rank(), store.workers());
        REQUIRE(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-4));
      });
    }
  }
}

TEST_CASE("dist rows: misuse throws at the call, and rows that there are not fail the op") {
  run_job({.workers = 1, .servers = 2}, [](KVStore& store) {
    store.init(5, zeros({4, 3}));
    store.init(6, zeros({4, 3}, DType::i64));
    store.init(7, zeros({}));
    store.init(8, zeros({3, 1'000'000}));
    const RowSparse rows = same({1}, 1, {4, 3});
    const auto throws = [](const std::function<void()>& call, const std::string& text) {
      CHECK_THROWS_WITH_AS(call(), doctest::Contains(text.c_str()), InvalidArgument);
    };
    throws([&] { store.push(9, rows); }, "key 9: the key is unknown");
    throws([&] { store.push(5, RowSparse()); }, "key 5: got an undefined row-sparse array");
    throws([&] { store.push(5, same({1}, 1, {5, 3})); }, "got row-sparse f32 (5, 3), stored is f32 (4, 3)");
    throws([&] { store.push(5, same({1}, 1, {4, 3}, DType::f64)); }, "got row-sparse f64 (4, 3)");
    throws([&] { store.pull_rows(6, list({1})); },
           "stored is i64 (4, 3); rows are those of a floating array");
    throws([&] { store.pull_rows(7, list({1})); }, "stored is f32 ()");
    throws([&] { store.pull_rows(5, zeros({1})); }, "rows are f32 (1,); wanted is one axis of i32 or i64");
    throws(
        [&] {
          store.pull_rows(5, list({1}), zeros({2, 3}));
        },
        "out is f32 (2, 3), these rows are f32 (1, 3)");
    throws([&] { store.push(8, same({1}, 1, {3, 1'000'000})); }, "3 rows of 4000000 bytes are cut");
    const RowSparse found = store.pull_rows(5, list({0, 4}));
    CHECK_THROWS_WITH(found.wait(), doctest::Contains("key 5: row 4 is out of range for an array of 4 rows"));
    const NDArray out({1, 3});
    store.pull_rows(5, list({-1}), out);
    CHECK_THROWS_WITH(out.wait(), doctest::Contains("row -1"));
  });
}

TEST_CASE("dist rows: an array without rows or elements") {
  run_job({.workers = 2, .servers = 2}, [](KVStore& store) {
    store.set_optimizer("add");
    for (const Shape& shape : {Shape{0, 3}, Shape{4, 0}}) {
      const KVStore::Key key = shape[0];
      store.init(key, zeros(shape));
      store.push(key, same({}, 1, shape));
      const NDArray out({0, shape[1]});
      store.pull_rows(key, list({}), out);
      out.wait();
      store.pull(key, zeros(shape));
    }
  });
}
