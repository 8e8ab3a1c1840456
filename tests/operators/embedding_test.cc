#include <cstddef>
#include <cstdint>
#include <gradient_check.h>
#include <memory>
#include <message_of.h>
#include <schedulers.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/random.h>
#include <heddle/sequential.h>

namespace heddle {
namespace {

using testing::check_gradients;

NDArray list(const std::vector<std::int64_t>& numbers) {
  return array<std::int64_t>(numbers, {static_cast<std::int64_t>(numbers.size())});
}

NDArray leaf(const Shape& shape, DType dtype = DType::f64, std::uint64_t seed = 3) {
  NDArray x = Generator(seed).normal(shape, 0, 1, DType::f64).astype(dtype);
  set_requires_grad(x);
  return x;
}

std::vector<std::byte> bytes_of(const NDArray& x) {
  const NDArray whole = x.detach().contiguous();
  whole.wait();
  const auto* begin = whole.data<const std::byte>();
  return {begin, begin + whole.size() * static_cast<std::int64_t>(size_of(whole.dtype()))};
}

// An array on a device for which there are no kernels.
NDArray pinned(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]());
  return {std::make_shared<Storage>(current_engine(), cpu_pinned(), bytes,
                                    std::shared_ptr<std::byte>(memory, memory.get())),
          shape, dtype};
}

void check_near(const NDArray& a, const NDArray& b) {
  const std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i < left.size(); ++i) CHECK(left[i] == doctest::Approx(right[i]).epsilon(1e-14));
}

// The gradient of the table for a loss that is not linear in the table, after `count` lookups.
NDArray table_gradient(const Shape& table, const NDArray& indices, DType dtype, bool sparse, int count = 1) {
  const NDArray weight = leaf(table, dtype);
  for (int i = 0; i < count; ++i) {
    const NDArray y = embedding(weight, indices, {.sparse_grad = sparse});
    backward(y, y.detach() * 2);
  }
  CHECK(grad(weight).defined() != sparse);
  CHECK(row_sparse_grad(weight).defined() == sparse);
  return sparse ? to_dense(row_sparse_grad(weight)) : grad(weight);
}

}  // namespace

TEST_CASE("embedding looks up rows") {
  const NDArray table = arange(0, 6).view_as({3, 2});
  CHECK(embedding(table, list({2, 0, 2})).to_vector<float>() == std::vector<float>{4, 5, 0, 1, 4, 5});
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 3}, Shape{0}, Shape{2, 0, 1}}) {
    for (DType dtype : {DType::i32, DType::i64}) {
      const NDArray indices = Generator(1).integers(shape, 0, 7).astype(dtype);
      for (const Shape& rows : {Shape{7}, Shape{7, 5}, Shape{7, 2, 3}, Shape{7, 0}}) {
        const NDArray weight = Generator(2).normal(rows);
        const NDArray y = embedding(weight, indices), expected = take(weight, indices);
        CHECK(y.shape() == expected.shape());
        CHECK(y.to_vector<float>() == expected.to_vector<float>());
      }
    }
  }
  const NDArray pairs = array<std::int32_t>({0, 1, 2, 0}, {2, 2});
  CHECK(embedding(transpose(arange(0, 6).view_as({2, 3})), transpose(pairs)).to_vector<float>() ==
        std::vector<float>{0, 3, 2, 5, 1, 4, 0, 3});
}

TEST_CASE("embedding's gradient agrees with finite differences") {
  const NDArray table = Generator(5).normal({5, 3}, 0, 1, DType::f64);
  for (const NDArray& indices : {list({4, 0, 4, 4, 1}), list({}), full({}, 2, DType::i64),
                                 array<std::int64_t>({0, 1, 2, 1, 1, 1}, {2, 3})}) {
    check_gradients([&](const std::vector<NDArray>& in) { return square(embedding(in[0], indices)); },
                    {table});
  }
  check_gradients(
      [](const std::vector<NDArray>& in) {
        return square(embedding(in[0] * in[0], list({1, 1})));
      },
      {table});
}

TEST_CASE("a row-sparse gradient agrees with finite differences") {
  const NDArray indices = array<std::int64_t>({3, 0, 3, 3}, {2, 2});
  const auto loss = [&](const NDArray& weight) {
    return sum(power(embedding(weight, indices, {.sparse_grad = true}), 3));
  };
  const NDArray weight = leaf({4, 2});
  backward(loss(weight));
  const std::vector<double> gradient = to_dense(row_sparse_grad(weight)).to_vector<double>();
  const std::vector<double> values = weight.to_vector<double>();
  const double step = 1e-5;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = [&](double value) {
      std::vector<double> moved = values;
      moved[i] = value;
      return loss(array<double>(moved, {4, 2})).item<double>();
    };
    CHECK(gradient[i] ==
          doctest::Approx((at(values[i] + step) - at(values[i] - step)) / (2 * step)).epsilon(1e-7));
  }
}

TEST_CASE("a row-sparse gradient has the bits of the dense one, on every scheduler") {
  test::on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray few = list({1, 4, 1, 1, 0}), pairs = array<std::int32_t>({2, 2, 4, 2}, {2, 2});
    const NDArray often = Generator(4).integers({3000}, 0, 40);
    for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      for (const NDArray& indices : {few, pairs, list({}), full({}, 3, DType::i64)})
        CHECK(bytes_of(table_gradient({5, 3}, indices, dtype, true)) ==
              bytes_of(table_gradient({5, 3}, indices, dtype, false)));
      CHECK(bytes_of(table_gradient({5000, 70}, often, dtype, true)) ==
            bytes_of(table_gradient({5000, 70}, often, dtype, false)));
    }
    CHECK(bytes_of(table_gradient({6}, few, DType::f32, true)) ==
          bytes_of(table_gradient({6}, few, DType::f32, false)));
    CHECK(bytes_of(table_gradient({50, 2, 3}, often, DType::f32, true)) ==
          bytes_of(table_gradient({50, 2, 3}, often, DType::f32, false)));
  });
}

TEST_CASE("a row-sparse gradient has the rows that were looked up") {
  const NDArray weight = leaf({9, 2}, DType::f32);
  backward(sum(embedding(weight, list({7, 2, 7}), {.sparse_grad = true})));
  const RowSparse gradient = row_sparse_grad(weight).trimmed();
  CHECK(gradient.shape() == weight.shape());
  CHECK(gradient.rows().to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 7});
  CHECK(gradient.values().to_vector<float>() == std::vector<float>{1, 1, 2, 2});
  clear_grad(weight);
  CHECK_FALSE(row_sparse_grad(weight).defined());
}

TEST_CASE("row-sparse gradients of several uses and passes add up") {
  const NDArray three = table_gradient({5, 3}, list({1, 4, 1}), DType::f64, true, 3);
  check_near(three, table_gradient({5, 3}, list({1, 4, 1}), DType::f64, true) * 3);
  check_near(three, table_gradient({5, 3}, list({1, 4, 1}), DType::f64, false, 3));
  const NDArray weight = leaf({4, 1});
  const EmbeddingOptions sparse{.sparse_grad = true};
  const NDArray loss =
      sum(embedding(weight, list({0, 3}), sparse)) + sum(embedding(weight, list({3, 1}), sparse));
  backward(loss, {}, true);
  backward(loss);
  const RowSparse gradient = row_sparse_grad(weight).trimmed();
  CHECK(gradient.rows().to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 3});
  CHECK(gradient.values().to_vector<double>() == std::vector<double>{2, 2, 4});
  CHECK_FALSE(grad(weight).defined());
  CHECK_THROWS_AS(backward(loss), Error);  // fails, since the first backward() has freed the tape
}

TEST_CASE("a leaf with dense and row-sparse gradients has their sum as its dense one") {
  const std::vector<double> expected{2, 4, 2, 3};
  const EmbeddingOptions sparse{.sparse_grad = true};
  const auto rows = [&](const NDArray& weight) { return sum(embedding(weight, list({1, 1, 3}), sparse)); };
  const auto check = [&](const NDArray& weight) {
    CHECK_FALSE(row_sparse_grad(weight).defined());
    CHECK(grad(weight).to_vector<double>() == expected);
  };
  SUBCASE("in one pass, the dense one first") {
    const NDArray weight = leaf({4, 1}), first = rows(weight);
    backward(first + sum(weight * 2));
    check(weight);
  }
  SUBCASE("in one pass, the row-sparse one first") {
    const NDArray weight = leaf({4, 1}), first = sum(weight * 2);
    backward(first + rows(weight));
    check(weight);
  }
  SUBCASE("in two passes") {
    const NDArray weight = leaf({4, 1}), other = leaf({4, 1});
    backward(rows(weight));
    backward(sum(weight * 2));
    check(weight);
    backward(sum(other * 2));
    backward(rows(other));
    check(other);
  }
  SUBCASE("with a gradient of parts") {
    const NDArray weight = leaf({4, 1});
    const NDArray parts = sum(weight[0]) * 2 + sum(slice(weight, 0, {1, 3})) * 2 + sum(weight[3]) * 2;
    backward(parts + rows(weight));
    check(weight);
  }
  SUBCASE("in lent memory") {
    const NDArray weight = leaf({4, 1}), memory = zeros({4, 1}, DType::f64);
    lend_gradient_memory(weight, memory);
    backward(rows(weight));
    CHECK(row_sparse_grad(weight).defined());
    backward(sum(take(weight, list({0, 1, 2, 3}))) * 2);
    check(weight);
    CHECK(grad(weight).storage() == memory.storage());
  }
}

TEST_CASE("a view of a gradient that becomes dense is not changed by its row-sparse part") {
  const NDArray weight = leaf({2, 1}), seed = ones({2, 1}, DType::f64);
  backward(sum(embedding(weight, list({1}), {.sparse_grad = true})));
  backward(weight, seed);
  CHECK(grad(weight).to_vector<double>() == std::vector<double>{1, 2});
  CHECK(seed.to_vector<double>() == std::vector<double>{1, 1});
}

TEST_CASE("only a leaf has a row-sparse gradient") {
  const NDArray weight = leaf({4, 1}), plain = ones({4, 1});
  const auto refusal = [](const NDArray& table) {
    return test::message_of<InvalidArgument>([&] { embedding(table, list({0}), {.sparse_grad = true}); });
  };
  CHECK(refusal(weight * 2) ==
        "embedding: only a leaf has a row-sparse gradient; this array was computed from others");
  CHECK(refusal(weight.view_as({2, 2})).starts_with("embedding: only a leaf"));
  CHECK(refusal(plain) == "no error");
  CHECK_FALSE(requires_grad(embedding(plain, list({0}), {.sparse_grad = true})));
  const NoGrad no_grad;
  CHECK(refusal(weight * 2) == "no error");
}

TEST_CASE("operators of one's own may have a row-sparse gradient, of the leaf's shape and dtype") {
  NDArray weight = leaf({4, 1});
  const auto recorded = [&](const RowSparse& gradient) {
    NDArray y = zeros({1}, DType::f64);
    record_rows("first_row", y, weight, {},
                [=](const NDArray& g) { return scale(gradient, g.item<double>()); });
    return y;
  };
  backward(recorded(retain(ones({4, 1}, DType::f64), list({0}))) * 3);
  CHECK(to_dense(row_sparse_grad(weight)).to_vector<double>() == std::vector<double>{3, 0, 0, 0});
  CHECK_THROWS_WITH_AS(
      backward(recorded(retain(ones({4, 1}), list({0})))),
      "first_row: its gradient is f32(4, 1) on cpu(0) where the input is f64(4, 1) on cpu(0)", Error);
  const NDArray late = recorded(retain(ones({4, 1}, DType::f64), list({1})));
  set_requires_grad(weight, false);
  backward(late);
  CHECK(to_dense(row_sparse_grad(weight)).to_vector<double>() == std::vector<double>{3, 0, 0, 0});
}

TEST_CASE("an index out of range is an op error that names it, its position and the number of rows") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray table = ones({5, 2}), weight = leaf({5, 2});
    CHECK_THROWS_WITH_AS(embedding(table, list({0, 5})).wait(),
                         "embedding: index 5 at position 1 is out of range for size 5", Error);
    CHECK_THROWS_WITH_AS(embedding(table, array<std::int32_t>({0, 1, -1, 4}, {2, 2})).wait(),
                         "embedding: index -1 at position (1, 0) is out of range for size 5", Error);
    CHECK_THROWS_AS(embedding(ones({0, 2}), list({0})).wait(), Error);
    const std::string message = "embedding: index 9 at position 0 is out of range for size 5";
    for (bool sparse : {false, true}) {
      clear_grad(weight);
      backward(sum(square(embedding(weight, list({9}), {.sparse_grad = sparse}))));
      const auto wait = [&] { sparse ? row_sparse_grad(weight).wait() : grad(weight).wait(); };
      CHECK(test::message_of(wait) == message);
    }
    clear_grad(weight);
    // The gradient is wrong too, although the backward op does not read the result of the failed lookup.
    backward(sum(embedding(weight, list({9}), {.sparse_grad = true})));
    CHECK(test::message_of([&] { row_sparse_grad(weight).wait(); }) == message);
  });
}

TEST_CASE("embedding refuses what it cannot look up") {
  const auto refusal = [](auto&& call) { return test::message_of<InvalidArgument>(call); };
  const NDArray table = ones({5, 2}), most = zeros({1, 1, 1, 1, 1, 1, 1, 1}, DType::i64);
  CHECK(refusal([&] { embedding(table, table); }) == "embedding: indices have dtype f32; wanted integers");
  CHECK(refusal([&] { embedding(ones({}), list({0})); }) == "embedding: a weight of shape () has no rows");
  CHECK(refusal([&] { embedding(table, most); }).ends_with("make more than 8 dimensions"));
  CHECK(refusal([&] { embedding(table, list({0}).copy_to(cpu(1))); }) ==
        "embedding: arrays on cpu(0) and cpu(1); copy_to() one of them");
}

TEST_CASE("indices that changed after the lookup are refused by backward()") {
  for (bool sparse : {false, true}) {
    const NDArray weight = leaf({5, 2}), indices = list({0, 1});
    const NDArray y = embedding(weight, indices, {.sparse_grad = sparse});
    indices.fill(2);
    CHECK_THROWS_AS(backward(sum(y)), Error);
  }
}

TEST_CASE("a device without kernels is an error that names the operator and the device") {
  const NDArray table = pinned({5, 2}, DType::f32), at = pinned({2}, DType::i64);
  const std::string rest = " has no cpu_pinned kernel in this build";
  CHECK(test::message_of([&] { embedding(table, at); }) == "embedding" + rest);
  CHECK(test::message_of([&] { retain(table, at); }) == "retain" + rest);
  CHECK(test::message_of([&] { row_sparse(at, pinned({2, 2}, DType::f32), {5, 2}); }) == "row_sparse" + rest);
  const RowSparse x({5, 2}, at, pinned({2, 2}, DType::f32), pinned({1}, DType::i64));
  CHECK(test::message_of([&] { sum({x, x}); }) == "sum_rows" + rest);
  CHECK(test::message_of([&] { retain(x, at); }) == "retain_rows" + rest);
  CHECK(test::message_of([&] { add_rows(table, x); }) == "add_rows" + rest);
  const auto sgd = create_optimizer("sgd");
  CHECK(test::message_of([&] { sgd->update(0, table, x); }) == "sgd_update_rows" + rest);
}

TEST_CASE("an embedding layer has a table and trains, with either kind of gradient") {
  std::vector<float> trained[2];
  for (bool sparse : {false, true}) {
    Generator generator(6);
    Sequential net{Embedding(20, 4, {.sparse_grad = sparse}, generator), Flatten(),
                   Dense(8, 2, {}, generator)};
    const NDArray weight = net.parameters()[0].value, before = weight.detach().copy();
    CHECK(net.parameters()[0].name == "0.weight");
    CHECK(weight.shape() == Shape{20, 4});
    const auto sgd = create_optimizer("sgd", {{"lr", 0.5}});
    const NDArray indices = array<std::int64_t>({1, 2, 3, 4, 5, 1}, {3, 2}), labels = list({0, 1, 0});
    float first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
      const NDArray loss = cross_entropy(net(indices), labels);
      last = loss.item<float>();
      if (step == 0) first = last;
      backward(loss);
      for (const Parameter& parameter : net.parameters()) {
        if (parameter.name != "0.weight") sgd->update(1, parameter.value, grad(parameter.value));
        if (parameter.name != "0.weight") continue;
        sparse ? sgd->update(0, weight, row_sparse_grad(weight)) : sgd->update(0, weight, grad(weight));
      }
      for (const Parameter& parameter : net.parameters()) clear_grad(parameter.value);
    }
    CHECK(last < 0.1f * first);
    CHECK(weight[7].to_vector<float>() == before[7].to_vector<float>());
    CHECK(weight[4].to_vector<float>() != before[4].to_vector<float>());
    trained[sparse] = weight.to_vector<float>();
  }
  CHECK(trained[0] == trained[1]);
}

TEST_CASE("an embedding layer says what it is and what it wants") {
  Generator generator(1);
  const NDArray weight = Embedding(2000, 10, {.stddev = 0.1}, generator).parameters()[0].value;
  CHECK(mean(square(weight)).item<float>() == doctest::Approx(0.01).epsilon(0.05));
  CHECK(requires_grad(weight));
  CHECK(Embedding(3, 2).to_string() == "Embedding(3, 2)");
  CHECK(Embedding(3, 2, {.sparse_grad = true}).to_string() == "Embedding(3, 2, sparse_grad)");
  CHECK(test::message_of<InvalidArgument>([] { Embedding(3, 2)(ones({4})); }) ==
        "Embedding(3, 2): the input is f32 (4,), wanted is integers");
  CHECK_THROWS_AS(Embedding(0, 2), InvalidArgument);
  CHECK_THROWS_AS(Embedding(3, 0), InvalidArgument);
  CHECK_THROWS_AS(Embedding(3, 2, {.stddev = -1}), InvalidArgument);
}

}  // namespace heddle
