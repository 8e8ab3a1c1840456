// Rows in stores without servers: in one process, and over ranks.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "allreduce_job.h"

using namespace heddle;
using heddle::test::on_ranks;

namespace {

using Rows = std::vector<std::int64_t>;
using Floats = std::vector<float>;

NDArray list(const Rows& rows) { return array(rows, {std::ssize(rows)}); }

RowSparse same(const Rows& rows, double value, const Shape& shape) {
  return row_sparse(list(rows), full({std::ssize(rows), shape[1]}, value), shape);
}

Floats pulled(KVStore& store, KVStore::Key key, const Shape& shape) {
  const NDArray out(shape);
  store.pull(key, out);
  return out.to_vector<float>();
}

}  // namespace

TEST_CASE("local store: rows are replaced, or updated by the optimizer as it updates them alone") {
  const auto store = KVStore::create("local");
  store->init(0, zeros({4, 2}));
  const std::vector<RowSparse> devices{same({0, 2}, 1, {4, 2}), same({2, 3}, 2, {4, 2})};
  store->push(0, devices);
  CHECK(pulled(*store, 0, {4, 2}) == Floats{1, 1, 0, 0, 3, 3, 2, 2});
  const NDArray out({3, 2});
  store->pull_rows(0, array<std::int32_t>({3, 0, 3}), out);
  CHECK(out.to_vector<float>() == Floats{2, 2, 1, 1, 2, 2});
  CHECK(store->pull_rows(0, list({2})).trimmed().values().to_vector<float>() == Floats{3, 3});

  store->set_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}});
  const auto oracle = create_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}});
  NDArray weight = array<float>({1, 1, 0, 0, 3, 3, 2, 2}).view_as({4, 2});
  for (int step = 0; step < 3; ++step) {
    const RowSparse gradient = same({step, 3}, 1, {4, 2});
    store->push(0, gradient, {.grad_scale = 0.5});
    oracle->update(0, weight, gradient, {.grad_scale = 0.5});
  }
  CHECK(pulled(*store, 0, {4, 2}) == weight.to_vector<float>());
}

TEST_CASE("local store: misuse of rows throws at the call, and rows that there are not fail the op") {
  const auto store = KVStore::create("local");
  store->init(0, zeros({4, 2}));
  store->init(1, zeros({4}, DType::i32));
  CHECK_THROWS_WITH_AS(store->push(0, same({0}, 1, {5, 2})),
                       "KVStore::push, key 0: got row-sparse f32 (5, 2), stored is f32 (4, 2)",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(store->push(0, std::vector<RowSparse>{}),
                       doctest::Contains("the list of arrays is empty"), InvalidArgument);
  CHECK_THROWS_WITH_AS(store->pull_rows(1, list({0})),
                       doctest::Contains("rows are those of a floating array"), InvalidArgument);
  CHECK_THROWS_WITH_AS(store->pull_rows(0, NDArray()), doctest::Contains("rows are an undefined array"),
                       InvalidArgument);
  CHECK_THROWS_AS(store->pull_rows(2, list({0})), InvalidArgument);
  CHECK_THROWS_AS(store->pull_rows(0, list({4})).wait(), Error);
}

// The ranks push different numbers of rows. Rank 0 pushes none.
TEST_CASE("allreduce store: rows are summed over the ranks, in their order beside whole values") {
  for (const std::string compression : {"none", "2bit"}) {
    CAPTURE(compression);
    const auto body = [](KVStore& store) {
      store.init(0, zeros({6, 2}));
      store.init(1, zeros({3}));
      const Rows mine = store.rank() == 0 ? Rows{} : store.rank() == 1 ? Rows{1, 5} : Rows{0, 1, 2};
      for (int round = 1; round <= 3; ++round) {
        store.push(1, zeros({3}));
        store.push(0, same(mine, round * store.rank(), {6, 2}));
        const auto r = static_cast<float>(round);
        CHECK(pulled(store, 0, {6, 2}) == Floats{2 * r, 2 * r, 3 * r, 3 * r, 2 * r, 2 * r, 0, 0, 0, 0, r, r});
      }
      const NDArray out({2, 2});
      store.pull_rows(0, list({5, 1}), out);
      CHECK(out.to_vector<float>() == Floats{3, 3, 9, 9});
      // This push waits in a bucket, and still counts before the push of rows that follows.
      store.push(0, full({6, 2}, 0));
      store.push(0, same({3}, 1, {6, 2}));
      CHECK(pulled(store, 0, {6, 2})[6] == 3);
    };
    on_ranks(3, body, {.compression = compression});
  }
}

TEST_CASE("allreduce store: a trainer of a model with an embedding does what it does in one process") {
  const auto learn = [](std::shared_ptr<KVStore> store, int rank, int workers) {
    NDArray table = full({20, 4}, 0.5);
    set_requires_grad(table);
    Trainer trainer({{"table", table}},
                    {.optimizer = "adam", .params = {{"lr", 0.125}}, .store = std::move(store)});
    for (int step = 0; step < 5; ++step) {
      NDArray loss;
      for (int sample = rank; sample < 2; sample += workers) {
        const NDArray error = embedding(table, list({step + 9 * sample, 3}), {.sparse_grad = true}) - 1.0;
        loss = loss.defined() ? loss + sum(error * error) : sum(error * error);
      }
      backward(loss);
      trainer.step(0.5);
    }
    return table.to_vector<float>();
  };
  const auto expected = learn(nullptr, 0, 1);
  on_ranks(2, [&](KVStore& store) {
    const auto got = learn(std::shared_ptr<KVStore>(&store, [](KVStore*) {}), store.rank(), 2);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  });
}

TEST_CASE("a trainer of replicas of which some have row-sparse gradients") {
  const auto learn = [](const std::vector<bool>& sparse) {
    std::vector<std::vector<Parameter>> replicas;
    for (std::size_t i = 0; i < sparse.size(); ++i) {
      NDArray table = ones({5, 2});
      set_requires_grad(table);
      replicas.push_back({{"table", table}});
    }
    Trainer trainer(replicas, {.params = {{"lr", 0.5}}});
    for (std::int64_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < sparse.size(); ++i) {
        const NDArray rows = list({step, 2 + static_cast<std::int64_t>(i)});
        backward(sum(embedding(replicas[i][0].value, rows, {.sparse_grad = sparse[i]})));
      }
      trainer.step();
    }
    return replicas[1][0].value.to_vector<float>();
  };
  const auto expected = learn({false, false});
  CHECK(learn({true, true}) == expected);
  CHECK(learn({true, false}) == expected);
}
