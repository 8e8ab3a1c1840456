#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/kvstore.h>
#include <heddle/random.h>

using namespace heddle;

namespace {

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("a store without an optimizer keeps the sum of what is pushed") {
  auto store = KVStore::create("local");
  CHECK(store->type() == "local");
  NDArray start = array({1.0f, 2.0f}), out = zeros({2});
  store->init(7, start);
  start.fill(99);  // does not change the store's value, which is a copy
  store->pull(7, out);
  CHECK(out.to_vector<float>() == Floats{1, 2});
  store->push(7, {array({1.0f, 10.0f}), array({2.0f, 20.0f}), array({3.0f, 30.0f})});
  store->pull(7, out);
  CHECK(out.to_vector<float>() == Floats{6, 60});
  store->assign(7, array({5.0f, 5.0f}));
  store->pull(7, out);
  CHECK(out.to_vector<float>() == Floats{5, 5});
  store->barrier();
}

TEST_CASE("halves are summed in f32, and the sum is rounded once") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    auto store = KVStore::create("local");
    store->init(1, zeros({3}, dtype));
    // Added one after another in the halves' own dtype, 4096 + 1 would stay 4096.
    store->push(1, {full({3}, 4096, dtype), full({3}, 1, dtype), full({3}, -4096, dtype)});
    const NDArray out = zeros({3}, dtype);
    store->pull(1, out);
    CHECK(out.astype(DType::f32).to_vector<float>() == Floats{1, 1, 1});
  }
}

TEST_CASE("values of several devices are summed in their order and pulled to each") {
  auto store = KVStore::create();
  std::vector<NDArray> values, out;
  for (int i = 0; i < 4; ++i) {
    // In f32 1e8 + 3 is rounded, so that any other order of additions gives a different sum.
    float value = i == 0 ? 1e8f : i == 3 ? -1e8f : 3.0f;
    values.push_back(full({50'000}, value, DType::f32, cpu(i)));
    out.push_back(zeros({50'000}, DType::f32, cpu(i)));
  }
  float expected = 1e8f;
  expected += 3.0f;
  expected += 3.0f;
  expected += -1e8f;
  store->init(0, zeros({50'000}, DType::f32, cpu(1)));
  store->push_pull(0, values, out);
  for (int i = 0; i < 4; ++i) {
    CHECK(out[static_cast<std::size_t>(i)].device() == cpu(i));
    CHECK(out[static_cast<std::size_t>(i)].to_vector<float>() == Floats(50'000, expected));
  }
}

TEST_CASE("every dtype and strided values can be pushed") {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8}) {
    auto store = KVStore::create();
    NDArray value = arange(0, 6, 1, dtype).view_as({2, 3}), out = zeros({3, 2}, dtype);
    store->init(1, zeros({3, 2}, dtype));
    store->push(1, {value.permuted({1, 0}), value.permuted({1, 0})});
    store->pull(1, out);
    CHECK(out.astype(DType::f32).to_vector<float>() == Floats{0, 6, 2, 8, 4, 10});
  }
}

TEST_CASE("broadcast gives every array one start") {
  auto store = KVStore::create();
  std::vector<NDArray> out{zeros({2}), zeros({2}, DType::f32, cpu(1))};
  store->broadcast(3, array({4.0f, 5.0f}), out);
  for (const NDArray& array : out) CHECK(array.to_vector<float>() == Floats{4, 5});
}

TEST_CASE("with an optimizer a push is an update") {
  auto store = KVStore::create();
  store->init(0, array({1.0f, 1.0f}));
  store->set_optimizer("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
  NDArray out = zeros({2}), gradient = array({1.0f, 2.0f});
  store->push(0, {gradient, gradient});
  store->pull(0, out);
  CHECK(out.to_vector<float>() == Floats{0, -1});
  store->push(0, gradient, {.lr = 1.0, .grad_scale = 2});  // the velocity becomes (2, 4) * 0.5 + (2, 4)
  store->pull(0, out);
  CHECK(out.to_vector<float>() == Floats{-3, -7});
  CHECK(store->optimizer_state().size() == 2);
}

TEST_CASE("the state of a store's optimizer can be carried over") {
  OptimizerParams params{{"lr", 0.1}};
  auto one = KVStore::create(), two = KVStore::create();
  Generator generator(8);
  NDArray weight = generator.normal({10}), a = zeros({10}), b = zeros({10});
  one->init(0, weight);
  one->set_optimizer("adam", params);
  one->push(0, generator.normal({10}));
  one->pull(0, a);
  two->init(0, a);
  two->set_optimizer("adam", params);
  two->set_optimizer_state(one->optimizer_state());
  NDArray gradient = generator.normal({10});
  one->push(0, gradient);
  two->push(0, gradient);
  one->pull(0, a);
  two->pull(0, b);
  CHECK(a.to_vector<float>() == b.to_vector<float>());
}

TEST_CASE("a store says what is wrong at the call") {
  CHECK_THROWS_WITH_AS(
      KVStore::create("dist"),
      doctest::Contains("KVStore::create: there is no type 'dist'; there are local, allreduce, dist_sync"),
      InvalidArgument);
  for (const char* type : {"dist_sync", "dist_async", "dist_ssp:2"}) {
    CHECK_THROWS_WITH_AS(KVStore::create(type, std::shared_ptr<Communicator>()),
                         ("KVStore::create: a " + std::string(type) +
                          " store has no communicator: its workers meet at its servers")
                             .c_str(),
                         InvalidArgument);
  }
  auto store = KVStore::create();
  NDArray x = zeros({2});
  store->init(1, x);
  CHECK_THROWS_WITH_AS(store->init(1, x), "KVStore::init, key 1: the key exists already", InvalidArgument);
  CHECK_THROWS_WITH_AS(store->push(2, x), "KVStore::push, key 2: the key is unknown; init it first",
                       InvalidArgument);
  CHECK_THROWS_AS(store->pull(2, x), InvalidArgument);
  CHECK_THROWS_AS(store->assign(2, x), InvalidArgument);
  CHECK_THROWS_WITH_AS(store->push(1, zeros({3})), "KVStore::push, key 1: got f32 (3,), stored is f32 (2,)",
                       InvalidArgument);
  CHECK_THROWS_AS(store->push(1, {x, zeros({2}, DType::f64)}), InvalidArgument);
  CHECK_THROWS_AS(store->pull(1, zeros({1})), InvalidArgument);
  CHECK_THROWS_AS(store->push(1, std::vector<NDArray>{}), InvalidArgument);
  CHECK_THROWS_AS(store->push(1, NDArray()), InvalidArgument);
  CHECK_THROWS_AS(store->init(5, NDArray()), InvalidArgument);
  CHECK_THROWS_AS(store->set_optimizer("none"), InvalidArgument);
  CHECK_THROWS_AS(store->set_optimizer_state({}), InvalidArgument);
  CHECK(store->optimizer_state().empty());
}

TEST_CASE("a refused call changes nothing, on every type of store") {
  const std::shared_ptr<KVStore> stores[] = {KVStore::create("local"),
                                             KVStore::create("allreduce", Communicator::create_local(1)[0])};
  for (const auto& store : stores) {
    CAPTURE(store->type());
    Engine other;
    NDArray foreign, out = zeros({2});
    {
      const EngineScope scope(other);
      foreign = ones({2});
    }
    const std::string of_another = "the array belongs to another engine than the store";
    if (store->type() == "allreduce")
      CHECK_THROWS_WITH_AS(store->init(0, foreign), doctest::Contains(of_another.c_str()), InvalidArgument);
    store->init(0, zeros({2}));
    store->init(1, zeros({2}, DType::i32));
    store->set_optimizer("sgd", {{"lr", 1}});
    store->push(0, ones({2}));
    // Each call that follows throws at once. If the store found these errors only when it sums up, the other
    // pushes of the key would fail too.
    CHECK_THROWS_AS(store->push(0, ones({2}), {.lr = -1}), InvalidArgument);
    CHECK_THROWS_AS(store->push(0, ones({2}), {.lr = std::nan("")}), InvalidArgument);
    CHECK_THROWS_WITH_AS(store->push(0, ones({2}), {.grad_scale = HUGE_VAL}),
                         "optimizer sgd: grad_scale must be finite, not inf", InvalidArgument);
    CHECK_THROWS_AS(store->push(1, ones({2}, DType::i32)), InvalidArgument);
    CHECK_THROWS_WITH_AS(store->push(0, foreign), doctest::Contains(of_another.c_str()), InvalidArgument);
    CHECK_THROWS_WITH_AS(store->pull(0, foreign), doctest::Contains(of_another.c_str()), InvalidArgument);
    CHECK_THROWS_WITH_AS(store->assign(0, foreign), doctest::Contains(of_another.c_str()), InvalidArgument);
    CHECK_THROWS_AS(store->init(0, ones({2})), InvalidArgument);
    store->push(0, ones({2}));
    store->pull(0, out);
    CHECK(out.to_vector<float>() == Floats{-2, -2});
    store->pull(0, out);
    CHECK(out.to_vector<float>() == Floats{-2, -2});
  }
}

TEST_CASE("keys may be any numbers") {
  const auto store = KVStore::create("allreduce", Communicator::create_local(1)[0]);
  const KVStore::Key keys[] = {std::numeric_limits<std::int64_t>::max(),
                               std::numeric_limits<std::int64_t>::min(), -1, 0};
  for (const KVStore::Key key : keys) store->init(key, zeros({2}));
  for (const KVStore::Key key : keys) store->push(key, full({2}, 3));
  for (const KVStore::Key key : keys) {
    const NDArray out = zeros({2});
    store->pull(key, out);
    CHECK(out.to_vector<float>() == Floats{3, 3});
  }
}

TEST_CASE("an op that fails poisons the key until it is overwritten") {
  auto store = KVStore::create();
  store->init(0, zeros({2}));
  NDArray bad = zeros({2}), out = zeros({2});
  bad.engine().push([] { throw std::domain_error("broken gradient"); },
                    {.mutate = {bad.var()}, .name = "breaks"});
  store->push(0, bad);
  store->pull(0, out);
  CHECK_THROWS_WITH_AS(out.wait(), "broken gradient", std::domain_error);
  store->push(0, ones({2}));
  store->pull(0, out);
  CHECK(out.to_vector<float>() == Floats{1, 1});
}

TEST_CASE("clear_errors brings back what was stored before the error") {
  auto store = KVStore::create();
  store->init(0, array({1.0f, 2.0f}));
  store->set_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}});
  NDArray bad = zeros({2}), out = zeros({2});
  bad.engine().push([] { throw std::domain_error("broken gradient"); },
                    {.mutate = {bad.var()}, .name = "breaks"});
  store->push(0, ones({2}));
  store->push(0, bad);
  store->push(0, ones({2}));
  store->pull(0, out);
  CHECK_THROWS_AS(out.wait(), std::domain_error);
  store->clear_errors();
  store->pull(0, out);
  CHECK(out.to_vector<float>() == Floats{0, 1});
  CHECK(store->optimizer_state().at("0.updates").item<std::int64_t>() == 1);
  store->push(0, ones({2}));
  store->pull(0, out);
  CHECK(out.to_vector<float>() == Floats{-1.5, -0.5});
}

TEST_CASE("a push of rows is refused beforehand by an optimizer that needs whole gradients") {
  const std::shared_ptr<KVStore> store = KVStore::create();
  store->init("w", ones({3, 2}));
  store->set_optimizer("lars");
  CHECK_THROWS_AS(store->push("w", row_sparse(array<std::int64_t>({1}), ones({1, 2}), {3, 2})),
                  InvalidArgument);
  CHECK(store->optimizer_state().empty());
}
