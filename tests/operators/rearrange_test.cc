// Slices, orders, repetition, padding and diagonals: gradients, views, errors.
#include <gradient_check.h>
#include <limits>
#include <message_of.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using testing::check_gradients;

namespace {

using In = const std::vector<NDArray>&;

NDArray values(Shape shape, std::uint64_t seed = 5) {
  return Generator(seed).uniform(shape, -2, 2, DType::f64);
}

std::string refusal(auto&& call) { return test::message_of<InvalidArgument>(call); }

}  // namespace

TEST_CASE("gradients of parts and orders") {
  const NDArray x = values({4, 3, 2});
  check_gradients([](In in) { return square(split(in[0], 2)[1]); }, {x});
  check_gradients([](In in) { return split(in[0], std::vector<std::int64_t>{1, 1, -1}, 0)[2]; }, {x});
  check_gradients(
      [](In in) {
        const auto parts = chunk(in[0], 2, 1);
        return sum(parts[0], {1}) * sum(parts[1], {1});
      },
      {x});
  check_gradients([](In in) { return unstack(in[0], -1)[1] * unstack(in[0], 2)[0]; }, {x});
  check_gradients([](In in) { return swapaxes(in[0], 0, -1); }, {x});
  check_gradients([](In in) { return moveaxis(in[0], {0, 1}, {2, 0}); }, {x});
  check_gradients([](In in) { return flip(in[0]); }, {x});
  check_gradients([](In in) { return rot90(in[0], 3, {0, 2}); }, {x});
  check_gradients([](In in) { return roll(in[0], {5}); }, {x});
  check_gradients([](In in) { return roll(in[0], {-1, 1}, {0, 2}); }, {x});
  check_gradients([](In in) { return atleast_3d(in[0]); }, {values({3})});
}

TEST_CASE("gradients of repetition, padding and diagonals") {
  const NDArray x = values({2, 3});
  check_gradients([](In in) { return tile(in[0], {2, 1, 3}); }, {x});
  check_gradients([](In in) { return repeat(in[0], 2, 1); }, {x});
  check_gradients([](In in) { return repeat(in[0], std::vector<std::int64_t>{2, 0, 1}, 1); }, {x});
  check_gradients([](In in) { return repeat(in[0], 0); }, {x});
  check_gradients(
      [](In in) {
        const auto grid = meshgrid({in[0], in[1]});
        return grid[0] * grid[1];
      },
      {values({2}), values({3})});
  check_gradients([](In in) { return pad(in[0], {1, 2}, {0, 1}, PadMode::constant, 3); }, {x});
  for (const PadMode mode : {PadMode::edge, PadMode::reflect, PadMode::wrap})
    check_gradients([=](In in) { return pad(in[0], {1, 5}, {2, 1}, mode); }, {x});
  check_gradients([](In in) { return square(diagonal(in[0], 1)); }, {x});
  check_gradients([](In in) { return diagonal(transpose(in[0]), -1) + diagonal(in[0], 1); }, {x});
  check_gradients([](In in) { return diag(in[0], -2); }, {values({3})});
  check_gradients([](In in) { return tril(in[0], 1) * triu(in[0]); }, {values({2, 3, 3})});
  check_gradients([](In in) { return matrix_trace(in[0], 0, 1, 2); }, {values({2, 3, 3})});
}

TEST_CASE("blocks are put together as NumPy puts them") {
  const NDArray a = values({2, 2}), v = values({3}), one = values({2, 1});
  const NDArray y = block({{a, one}, {v}});
  CHECK(y.shape() == Shape{3, 3});
  CHECK(y(2).to_vector<double>() == v.to_vector<double>());
  CHECK(y(0, Slice{0, 2}).to_vector<double>() == a(0).to_vector<double>());
  CHECK(y(kAll, 2)(Slice{0, 2}).to_vector<double>() == one.to_vector<double>());
  CHECK(block({{values({1, 2, 3})}, {v}}).shape() == Shape{1, 3, 3});
  check_gradients([](In in) { return square(block({{in[0], in[1]}, {in[2]}})); }, {a, one, v});
  CHECK_THROWS_AS(block({}), InvalidArgument);
  CHECK_THROWS_AS(block({{a}, {}}), InvalidArgument);
  CHECK_THROWS_AS(block({{a}, {v}}), InvalidArgument);
}

TEST_CASE("where no element moves the result is a view") {
  const NDArray x = zeros({4, 3});
  std::vector<NDArray> views = split(x, 2);
  for (const auto& list : {chunk(x, 3), unstack(x, 1), broadcast_arrays({x, x})})
    views.insert(views.end(), list.begin(), list.end());
  for (const NDArray& view :
       {swapaxes(x, 0, 1), moveaxis(x, {0}, {1}), flip(x), rot90(x), atleast_3d(x), diagonal(x), diag(x)})
    views.push_back(view);
  for (const NDArray& view : views) CHECK(view.storage() == x.storage());
  // The results of operators that copy are never views of x, even if they have the elements of x in the same
  // order.
  for (const NDArray& made : {roll(x, {0}), roll(x, {4}, {0}), tile(x, {1}), repeat(x, 1, 0),
                              pad(x, {0}, {0}, PadMode::edge), tril(x, 9)})
    CHECK(made.storage() != x.storage());
  split(x, 2)[1].fill(5);
  CHECK(sum(x).item<float>() == 30);
}

TEST_CASE("a part is rearranged in whatever layout it comes, in every dtype") {
  for (const DType dtype : kAllDTypes) {
    const NDArray x = arange(0, 12, 1, DType::f64).view_as({3, 4}).astype(dtype),
                  odd = transpose(x).slice(0, {.step = 2});
    const NDArray plain = odd.copy();
    const auto same = [](const NDArray& a, const NDArray& b) {
      REQUIRE(a.shape() == b.shape());
      CHECK(all(a == b).item<bool>());
    };
    same(tile(odd, {2, 2}), tile(plain, {2, 2}));
    same(repeat(odd, 3, 0), repeat(plain, 3, 0));
    same(roll(odd, {1}), roll(plain, {1}));
    same(pad(odd, {2}, {1}, PadMode::reflect), pad(plain, {2}, {1}, PadMode::reflect));
    same(pad(odd, {2}, {1}), pad(plain, {2}, {1}));
    same(diagonal(odd, 1), diagonal(plain, 1));
    same(triu(odd), triu(plain));
  }
}

TEST_CASE("series and arrays like others") {
  CHECK(linspace(1, 2, 5, true, DType::f64).to_vector<double>() == std::vector{1.0, 1.25, 1.5, 1.75, 2.0});
  CHECK(linspace(0, 4, 4, false).to_vector<float>() == std::vector<float>{0, 1, 2, 3});
  CHECK(linspace(3, 9, 1).to_vector<float>() == std::vector<float>{3});
  CHECK(linspace(0, 1, 0).size() == 0);
  // The last element is exactly the upper bound.
  CHECK(linspace(0, 0.3, 7).slice(0, {.begin = -1}).item<float>() == 0.3F);
  CHECK(logspace(0, 3, 4, true, 2, DType::i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{1, 2, 4, 8});
  const NDArray like = zeros({2, 3}, DType::i8, cpu(1));
  CHECK(all(full_like(like, 7) == 7).item<bool>());
  for (const NDArray& y : {full_like(like, 7), ones_like(like), empty_like(like)}) {
    CHECK(y.shape() == like.shape());
    CHECK(y.dtype() == DType::i8);
    CHECK(y.device() == cpu(1));
  }
}

TEST_CASE("pad puts integers of any size around integers, and numbers as fill does") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK(pad(array<std::int64_t>({1}), {1}, {0}, PadMode::constant, large).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{large, 1});
  CHECK(pad(array<std::uint64_t>({1}), {0}, {1}, PadMode::constant, ~std::uint64_t{0})
            .to_vector<std::uint64_t>() == std::vector<std::uint64_t>{1, ~std::uint64_t{0}});
  CHECK(pad(array<std::int64_t>({1}), {1}, {0}, PadMode::constant, 2.7).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{2, 1});
}

TEST_CASE("parts between no indices are one part") {
  const NDArray x = zeros({4, 3});
  CHECK(split(x, std::vector<std::int64_t>{}, 1).size() == 1);
  const OperatorValues parts = call_operator("split", {x, array(std::vector<float>{}, {0})});
  CHECK(std::get<std::vector<NDArray>>(parts[0]).size() == 1);
}

TEST_CASE("refusals of what rearranges say what came") {
  const NDArray x = zeros({4, 3});
  CHECK(refusal([&] { split(x, 3); }) == "split: axis 0 of shape (4, 3) has no 3 equal parts");
  CHECK(refusal([&] { chunk(x, 0); }) == "chunk: chunks is 0; wanted 1 or more");
  CHECK(refusal([&] { unstack(x, 2); }).starts_with("unstack: axis 2"));
  CHECK(refusal([&] { moveaxis(x, {0, 0}, {0, 1}); }) == "moveaxis: axis 0 is given twice");
  CHECK(refusal([&] { moveaxis(x, {0}, {0, 1}); }) == "moveaxis: 1 axes for 2 places");
  CHECK(refusal([&] { rot90(x, 1, {0, -2}); }) == "rot90: axis 0 is given twice");
  CHECK(refusal([&] { roll(x, {1, 2}); }) == "roll: 2 shifts without axes; wanted one");
  CHECK(refusal([&] { tile(x, {-1}); }) == "tile: a number of copies is -1; wanted 0 or more");
  CHECK(refusal([&] { repeat(x, std::vector<std::int64_t>{1, 2}, 1); }) == "repeat: 2 repeats for 3 entries");
  CHECK(refusal([&] { pad(x, {1, 1, 1}, {1}); }) == "pad: before has 3 numbers for shape (4, 3)");
  CHECK(refusal([&] { pad(x, {1}, {-1}); }) == "pad: after is (-1, -1); wanted 0 or more");
  CHECK(refusal([&] { tril(zeros({3})); }) == "tril: an array of shape (3,); wanted two axes or more");
  CHECK(refusal([&] {
          diag(zeros({1, 1, 1}));
        }) == "diag: an array of shape (1, 1, 1); wanted two axes or one");
  CHECK(refusal([&] { meshgrid({x}); }) == "meshgrid: an array of shape (4, 3); wanted one axis");
  CHECK(refusal([&] { linspace(0, 1, -1); }) == "linspace: num is -1; wanted 0 or more");
  CHECK(refusal([&] {
          call_operator("split", {x, 0.5});
        }) == "split: indices_or_sections is a float or a bool; wanted an int or a list of ints");
}

TEST_CASE("diagonals of arrays without elements") {
  CHECK(diagonal(zeros({0, 5, 5}), 1, 1, 2).shape() == Shape{0, 4});
  CHECK(diagonal(zeros({5, 3, 0}), 3, 1, 0).shape() == Shape{0, 2});
  CHECK(diagonal(zeros({2, 5, 4, 0}), -1, 2, 0).shape() == Shape{5, 0, 2});
  CHECK(matrix_trace(zeros({0, 5, 5}), 1, 1, 2).shape() == Shape{0});
}

TEST_CASE("linspace from and to infinities, the largest numbers and integers") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(linspace(kInf, kInf, 4, true, DType::f64).to_vector<double>() == std::vector<double>(4, kInf));
  CHECK(linspace(-kInf, -kInf, 2).to_vector<float>() ==
        std::vector<float>(2, -std::numeric_limits<float>::infinity()));
  CHECK(logspace(kInf, kInf, 3, true, 10, DType::f64).to_vector<double>() == std::vector<double>(3, kInf));
  CHECK(linspace(-1.5e308, 1.5e308, 5, true, DType::f64).to_vector<double>() ==
        std::vector<double>{-1.5e308, -0.75e308, 0, 0.75e308, 1.5e308});
  // For integer dtypes linspace rounds down, as NumPy does.
  CHECK(linspace(0, -3, 50, true, DType::i64).to_vector<std::int64_t>()[17] == -2);
  CHECK(linspace(-2, 2, 6, true, DType::i32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{-2, -2, -1, 0, 1, 2});
  CHECK(linspace(-1, 0, 4, true, DType::f32).to_vector<float>()[1] == doctest::Approx(-2.0 / 3));
}

}  // namespace heddle
