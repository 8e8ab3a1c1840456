// Error messages of operators name the called function, not one of those that it uses.
#include <cmath>
#include <message_of.h>
#include <string>

#include <doctest/doctest.h>

#include <heddle/layers.h>
#include <heddle/ops.h>

namespace heddle {
namespace {

std::string refusal(auto&& call) { return test::message_of<InvalidArgument>(call); }
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

}  // namespace

TEST_CASE("operators that rearrange name themselves and the shape") {
  const NDArray x = zeros({2, 3}), most = zeros({1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(refusal([&] { transpose(x, {0}); }) ==
        "transpose: axes (0,) for shape (2, 3); wanted each of its 2 axes once");
  CHECK(refusal([&] {
          transpose(x, {0, 0});
        }) == "transpose: axes (0, 0) for shape (2, 3) name axis 0 twice");
  CHECK(refusal([&] {
          transpose(x, {0, 2});
        }) == "transpose: axis 2 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] { reshape(x, {4}); }) == "reshape: shape (2, 3) has 6 elements, (4,) does not");
  CHECK(refusal([&] { reshape(x, {-1, -1}); }) == "reshape: more than one -1 in (-1, -1)");
  CHECK(refusal([&] { reshape(x, {-1, 4}); }) == "reshape: shape (2, 3) does not fit (-1, 4)");
  CHECK(refusal([&] { reshape(x, {kHuge, kHuge}); }).starts_with("reshape: shape ("));
  CHECK(refusal([&] { broadcast_to(x, {3}); }) == "broadcast_to: (2, 3) does not broadcast to (3,)");
  CHECK(refusal([&] { broadcast_to(x, {2, -3}); }) == "broadcast_to: shape (2, -3) has a negative number");
  CHECK(refusal([&] { expand_dims(x, 4); }) == "expand_dims: axis 4 for shape (2, 3); wanted -3 to 2");
  CHECK(refusal([&] { expand_dims(most, 0); }) ==
        "expand_dims: an array of shape (1, 1, 1, 1, 1, 1, 1, 1) has as many dimensions as there can be");
  CHECK(refusal([&] { squeeze(x, {4}); }) ==
        "squeeze: axis 4 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] { slice(x, 2, {}); }) ==
        "slice: axis 2 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] {
          concat({x, x}, 2);
        }) == "concat: axis 2 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] { stack({x, x}, 5); }) == "stack: axis 5 for shape (2, 3); wanted -3 to 2");
  CHECK(refusal([&] { stack({most}); }).starts_with("stack: an array of shape (1,"));
  CHECK(refusal([&] { take(x, zeros({1}, DType::i64), 2); }) ==
        "take: axis 2 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal([&] { one_hot(most.astype(DType::i32), 3); }).starts_with("one_hot: labels of shape (1,"));
}

TEST_CASE("operators with an axis name themselves and the shape") {
  const NDArray x = zeros({2, 3});
  const std::string rest = ": axis 2 of an array of shape (2, 3), which has 2 dimensions";
  CHECK(refusal([&] { sum(x, {2}); }) == "sum" + rest);
  CHECK(refusal([&] { mean(x, {2}); }) == "mean" + rest);
  CHECK(refusal([&] { max(x, {2}); }) == "max" + rest);
  CHECK(refusal([&] { argmax(x, 2); }) == "argmax" + rest);
  CHECK(refusal([&] { softmax(x, 2); }) == "softmax" + rest);
  CHECK(refusal([&] { log_softmax(x.astype(DType::f16), 2); }) == "log_softmax" + rest);
}

TEST_CASE("comparisons name themselves and keep the order of their operands") {
  const NDArray a = zeros({2}), b = zeros({3});
  CHECK(refusal([&] { greater(a, b); }) == "greater: shapes (2,) and (3,) do not broadcast together");
  CHECK(refusal([&] { greater_equal(a, b); }) ==
        "greater_equal: shapes (2,) and (3,) do not broadcast together");
  CHECK(refusal([&] { greater(1, 2); }) == "greater: two scalars; wanted at least one array");
  CHECK(refusal([&] { less(a, b); }) == "less: shapes (2,) and (3,) do not broadcast together");
}

TEST_CASE("updates in place name their operator") {
  NDArray x = zeros({3}), small = zeros({3}, DType::u8), bits = zeros({3}, DType::boolean);
  CHECK(refusal([&] {
          x += zeros({2, 3});
        }) == "add_: an operand of shape (2, 3) does not broadcast to a target of shape (3,)");
  CHECK(refusal([&] { x -= zeros({2}); }) == "subtract_: shapes (3,) and (2,) do not broadcast together");
  CHECK(refusal([&] { small *= 300; }) == "multiply_: 300 does not fit u8");
  CHECK(refusal([&] { bits -= bits; }).starts_with("subtract_: dtype bool"));
  CHECK(refusal([&] { small /= 2; }) == "divide_: a result of dtype f64 does not fit u8");
}

TEST_CASE("layers say what came, with its dtype") {
  CHECK(refusal([] {
          Dense(3, 4)(zeros({2, 2}, DType::f64));
        }) == "Dense(3, 4): the input is f64 (2, 2), wanted is (batch..., 3)");
  CHECK(refusal([] { clip(zeros({1}), 2, 1); }).starts_with("clip: min is 2"));
  CHECK(refusal([] { arange(0, 1, 0); }).starts_with("arange: from 0 to before 1, where step is 0; wanted"));
  CHECK(refusal([] { clip(zeros({1}), std::nan(""), 1); }).starts_with("clip: min is nan"));
}

}  // namespace heddle
