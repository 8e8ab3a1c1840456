#include <gradient_check.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using testing::check_gradients;

namespace {

NDArray values(Shape shape, std::uint64_t seed = 5) {
  return Generator(seed).uniform(shape, -2, 2, DType::f64);
}

using In = const std::vector<NDArray>&;

}  // namespace

TEST_CASE("gradients of views") {
  const NDArray x = values({2, 3, 4});
  check_gradients([](In in) { return reshape(in[0], {4, -1}); }, {x});
  check_gradients([](In in) { return reshape(transpose(in[0]), {-1}); }, {x});
  check_gradients([](In in) { return flatten(in[0]); }, {x});
  check_gradients([](In in) { return transpose(in[0]); }, {x});
  check_gradients([](In in) { return transpose(in[0], {1, 2, 0}); }, {x});
  check_gradients([](In in) { return transpose(in[0], {-1, 0, 1}); }, {x});
  check_gradients([](In in) { return expand_dims(in[0], -1); }, {x});
  check_gradients([](In in) { return squeeze(in[0], {1}); }, {values({2, 1, 3})});
  check_gradients([](In in) { return broadcast_to(in[0], {2, 3, 4}); }, {values({3, 1})});
  check_gradients([](In in) { return broadcast_to(in[0], {2, 0}); }, {values({2, 1})});
  for (const Slice& range : {Slice{1, 3}, Slice{{}, {}, -1}, Slice{3, {}, -2}, Slice{2, 2}}) {
    check_gradients([=](In in) { return slice(in[0], 2, range); }, {x});
  }
}

TEST_CASE("gradients of joins") {
  check_gradients([](In in) { return concat(in, 1); }, {values({2, 3}), values({2, 0}), values({2, 1}, 6)});
  check_gradients([](In in) { return stack(in, -1); }, {values({2, 3}), values({2, 3}, 6)});
  check_gradients([](In in) { return concat({in[0], in[0], square(in[0])}, 0); }, {values({2, 3})});
  check_gradients(
      [](In in) {
        return concat({in[0], in[1]}, 0);
      },
      {values({2}), array<std::int32_t>({1, 2, 3})});
}

TEST_CASE("gradients of take add up where an index repeats") {
  const NDArray repeated = array<std::int64_t>({2, 0, 2, -1, -1, 2}, {2, 3});
  for (int axis : {0, 1, -1}) {
    check_gradients([=](In in) { return take(in[0], in[1], axis); }, {values({3, 3, 4}), repeated});
  }
  check_gradients([](In in) { return take(transpose(in[0]), in[1], 0); }, {values({2, 4}), repeated});
  check_gradients([](In in) { return take(in[0], in[1]); }, {values({3}), zeros({0}, DType::i32)});
  NDArray table = zeros({5, 100}, DType::f64);
  set_requires_grad(table);
  backward(sum(take(table, array<std::int32_t>({1, 1, 1, 4}))));
  const std::vector<double> rows = sum(grad(table), {1}).to_vector<double>();
  CHECK(rows == std::vector<double>{0, 300, 0, 0, 100});
}

TEST_CASE("gradients pass through casts between floating dtypes alone") {
  NDArray x = array<float>({1, 2});
  set_requires_grad(x);
  const NDArray wide = cast(x, DType::f64);
  CHECK(requires_grad(wide));
  CHECK_FALSE(requires_grad(cast(x, DType::i64)));
  backward(sum(wide * 3));
  CHECK(grad(x).dtype() == DType::f32);
  CHECK(grad(x).to_vector<float>() == std::vector<float>{3, 3});
  CHECK(cast(x, DType::f32).storage() == x.storage());
}

TEST_CASE("copies are on the tape") {
  const NDArray x = values({2, 3});
  check_gradients([](In in) { return copy(in[0]); }, {x});
  check_gradients([](In in) { return contiguous(in[0]); }, {x});
  check_gradients([](In in) { return contiguous(transpose(in[0])); }, {x});
  NDArray w = ones({2, 3});
  set_requires_grad(w);
  const NDArray there = copy_to(w * 2, cpu(1));
  CHECK(there.device() == cpu(1));
  backward(sum(there * 5));
  CHECK(grad(w).device() == cpu());
  CHECK(grad(w).to_vector<float>() == std::vector<float>(6, 10));
  CHECK(copy(w).storage() != w.storage());
  CHECK(contiguous(w).storage() == w.storage());
}

TEST_CASE("views share memory") {
  const NDArray x = arange(0, 6).view_as({2, 3});
  for (const NDArray& view : {reshape(x, {3, 2}), transpose(x), flatten(x), expand_dims(x, 0), squeeze(x),
                              broadcast_to(x, {4, 2, 3}), slice(x, 1, {1, 2})}) {
    CHECK(view.storage() == x.storage());
  }
  CHECK(reshape(transpose(x), {6}).storage() != x.storage());
  CHECK(reshape(transpose(x), {6}).to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("an index out of range is an op error that names it, its position and its bound") {
  const NDArray x = zeros({5, 2});
  CHECK_THROWS_WITH_AS(take(x, array<std::int64_t>({0, 1, 2, 3, 8, 1}, {2, 3})).wait(),
                       "take: index 8 at position (1, 1) is out of range for size 5", Error);
  CHECK_THROWS_WITH_AS(take(x, transpose(array<std::int64_t>({0, 1, 2, 3, 8, 1}, {2, 3}))).wait(),
                       "take: index 8 at position (1, 1) is out of range for size 5", Error);
  CHECK_THROWS_WITH_AS(take(x, full({}, 5, DType::i64)).wait(),
                       "take: index 5 at position () is out of range for size 5", Error);
  CHECK_THROWS_WITH_AS(take(x, array<std::int32_t>({4, 7})).wait(),
                       "take: index 7 at position 1 is out of range for size 5", Error);
  CHECK_THROWS_WITH_AS(take(x, array<std::int64_t>({-6})).wait(),
                       "take: index -6 at position 0 is out of range for size 5", Error);
  CHECK_THROWS_WITH_AS(one_hot(array<std::int64_t>({-1}), 3).wait(),
                       "one_hot: index -1 at position 0 is out of range for size 3", Error);
}

TEST_CASE("bad shapes and axes are found at the call") {
  const NDArray x = zeros({2, 3});
  CHECK_THROWS_AS(reshape(x, {4}), InvalidArgument);
  CHECK_THROWS_AS(reshape(x, {-1, -1}), InvalidArgument);
  CHECK_THROWS_AS(reshape(x, {-1, 4}), InvalidArgument);
  CHECK_THROWS_AS(flatten(x, 3), InvalidArgument);
  CHECK_THROWS_AS(transpose(x, {0}), InvalidArgument);
  CHECK_THROWS_AS(transpose(x, {0, 0}), InvalidArgument);
  CHECK_THROWS_AS(expand_dims(x, 3), InvalidArgument);
  CHECK_THROWS_WITH_AS(squeeze(x, {0}), "squeeze: axis 0 of shape (2, 3) has not size 1", InvalidArgument);
  CHECK_THROWS_WITH_AS(broadcast_to(x, {3}), "broadcast_to: (2, 3) does not broadcast to (3,)",
                       InvalidArgument);
  CHECK_THROWS_AS(broadcast_to(x, {4, 3}), InvalidArgument);
  CHECK_THROWS_AS(slice(x, 2, {}), InvalidArgument);
  CHECK_THROWS_AS(slice(x, 0, {0, 1, 0}), InvalidArgument);
  CHECK_THROWS_WITH_AS(concat({}), "concat: no arrays", InvalidArgument);
  CHECK_THROWS_WITH_AS(concat({x, zeros({2, 4})}), "concat: shapes (2, 3) and (2, 4) differ off axis 0",
                       InvalidArgument);
  CHECK_THROWS_AS(concat({x, zeros({3})}), InvalidArgument);
  CHECK_THROWS_WITH_AS(stack({x, zeros({3, 2})}), "stack: shapes (2, 3) and (3, 2) differ", InvalidArgument);
  CHECK_THROWS_WITH_AS(take(x, x), "take: indices have dtype f32; wanted integers", InvalidArgument);
  CHECK_THROWS_AS(one_hot(zeros({2}, DType::i32), -1), InvalidArgument);
}

}  // namespace heddle
