// Members of NDArray that view or copy record gradients, as the functions of shape_ops.h do.
#include <functional>
#include <gradient_check.h>
#include <message_of.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using testing::check_gradients;

namespace {

using In = const std::vector<NDArray>&;
using Member = std::function<NDArray(const NDArray&)>;

NDArray values(Shape shape, std::uint64_t seed = 5) {
  return Generator(seed).uniform(shape, -2, 2, DType::f64);
}

// Members of NDArray that record a gradient, as calls for an array of shape (2, 3, 4).
const std::vector<std::pair<const char*, Member>> kMembers = {
    {"operator[]", [](const NDArray& x) { return x[1]; }},
    {"operator[] from the end", [](const NDArray& x) { return x[-2]; }},
    {"operator[] twice", [](const NDArray& x) { return x[1][2]; }},
    {"operator[] to a scalar", [](const NDArray& x) { return x[1][-1][3]; }},
    {"slice",
     [](const NDArray& x) {
       return x.slice(2, {1, 3});
     }},
    {"slice with a step", [](const NDArray& x) { return x.slice(2, {.begin = 3, .step = -2}); }},
    {"slice to one",
     [](const NDArray& x) {
       return x.slice(-2, {1, 2});
     }},
    {"slice to nothing",
     [](const NDArray& x) {
       return x.slice(1, {2, 2});
     }},
    {"index a slice", [](const NDArray& x) { return x.slice(1, {.step = -1})[0].slice(0, {.step = 2}); }},
    {"view_as",
     [](const NDArray& x) {
       return x.view_as({4, -1});
     }},
    {"permuted",
     [](const NDArray& x) {
       return x.permuted({-1, 0, 1});
     }},
    {"broadcast_view",
     [](const NDArray& x) {
       return x.slice(1, {0, 1}).broadcast_view({5, 2, 3, 4});
     }},
    {"copy", [](const NDArray& x) { return x.copy(); }},
    {"copy of a view",
     [](const NDArray& x) {
       return x.permuted({2, 1, 0})[1].copy();
     }},
    {"contiguous", [](const NDArray& x) { return x.contiguous(); }},
    {"contiguous of a view",
     [](const NDArray& x) {
       return x.permuted({2, 1, 0}).contiguous();
     }},
    {"astype", [](const NDArray& x) { return x.astype(DType::f64); }},
    {"copy_to", [](const NDArray& x) { return x.copy_to(cpu(1)).copy_to(cpu(0)); }},
    {"view",
     [](const NDArray& x) {
       return x.view({3, 2}, {8, -3}, 5);
     }},
    {"view of a slice",
     [](const NDArray& x) {
       return x.slice(0, {1, 2}).view({2, 5}, {5, 1}, 13);
     }},
    {"view whose elements share memory",
     [](const NDArray& x) {
       return x.view({8, 5}, {2, 1}, 1);
     }},
    {"view of a strided array",
     [](const NDArray& x) {
       return x.permuted({2, 0, 1}).view({7}, {3}, 2);
     }},
};

}  // namespace

TEST_CASE("gradients through members agree with finite differences") {
  for (const auto& [name, member] : kMembers) {
    CAPTURE(name);
    check_gradients([&](In in) { return square(member(in[0])); }, {values({2, 3, 4})});
    check_gradients([&](In in) { return square(member(exp(in[0]))) * 2; }, {values({2, 3, 4})});
  }
}

TEST_CASE("members leave the tape under NoGrad, and detach() always") {
  NDArray w = values({2, 3, 4});
  set_requires_grad(w);
  for (const auto& [name, member] : kMembers) {
    CAPTURE(name);
    CHECK(requires_grad(member(w)));
    CHECK_FALSE(requires_grad(member(w.detach())));
    CHECK_FALSE(requires_grad(member(w).detach()));
    NoGrad no_grad;
    // contiguous() is excepted: it returns w itself, which is a leaf.
    if (std::string_view(name) != "contiguous") CHECK_FALSE(requires_grad(member(w)));
  }
}

TEST_CASE("parts that repeat add up, beside the whole") {
  check_gradients(
      [](In in) {
        return in[0][0] * in[0][0] + in[0][1] * in[0].slice(0, {0, 1})[0];
      },
      {values({2, 3})});
  check_gradients(
      [](In in) {
        return concat({in[0][1], in[0][1].copy(), in[0][0] * in[0][1]});
      },
      {values({2, 3})});
  NDArray w = values({4});
  set_requires_grad(w);
  backward(w[2] + w[2] + sum(w) + sum(w.slice(0, {.begin = 2})));
  CHECK(grad(w).to_vector<double>() == std::vector<double>{1, 1, 4, 2});
}

TEST_CASE("gradients reach leaves of other dtypes, and devices, through members") {
  NDArray w = ones({3});
  set_requires_grad(w);
  backward(sum(w.astype(DType::f64)[1] * 3 + w.astype(DType::f16).astype(DType::f64)[1]));
  CHECK(grad(w).dtype() == DType::f32);
  CHECK(grad(w).to_vector<float>() == std::vector<float>{0, 4, 0});
  CHECK_FALSE(requires_grad(w.astype(DType::i32)));
  clear_grad(w);
  backward(sum(w.copy_to(cpu(1)) * 5));
  CHECK(grad(w).device() == cpu());
}

TEST_CASE("views without elements have gradients of zero") {
  for (const Shape& shape : {Shape{5, 0}, Shape{0, 3}, Shape{2, 0, 3}}) {
    NDArray w = zeros(shape, DType::f64);
    set_requires_grad(w);
    NDArray y =
        sum(w.slice(1, {.step = 2}).copy()) + sum(w.permuted(shape.size() == 2 ? Dims{1, 0} : Dims{2, 0, 1}));
    if (shape[0] > 0) y = y + sum(w[-1]) + sum(expand_dims(w[shape[0] - 1], 0)) + sum(w.view({0}, {1}, 0));
    backward(y);
    CHECK(grad(w).shape() == shape);
  }
  NDArray w = values({3});
  set_requires_grad(w);
  backward(sum(w.slice(0, {1, 1})) + sum(w.view({0, 2}, {1, 1}, 3)));
  CHECK(grad(w).to_vector<double>() == std::vector<double>{0, 0, 0});
}

TEST_CASE("a view of a leaf may get new values; what saved the old ones is found") {
  NDArray w = values({2, 3});
  set_requires_grad(w);
  const NDArray row = w[1], linear = row * 2, squared = square(row);
  w[1].fill(7);
  w.slice(0, {0, 1})[0].slice(0, {.step = 2}).assign(ones({2}, DType::f64));
  CHECK(row.to_vector<double>() == std::vector<double>{7, 7, 7});
  CHECK_THROWS_WITH_AS(backward(sum(squared)),
                       "square: an array saved for its gradient was changed in place after it was recorded",
                       Error);
  backward(sum(linear));
  CHECK(grad(w).to_vector<double>() == std::vector<double>{0, 0, 0, 2, 2, 2});
}

TEST_CASE("changes in place that the tape would have to follow are refused through members") {
  NDArray w = values({2, 3});
  set_requires_grad(w);
  const NDArray y = w * 2;
  CHECK_THROWS_AS(y[0].fill(1), Error);
  CHECK_THROWS_AS(y.slice(1, {0, 1}).assign(zeros({1})), Error);
  CHECK_THROWS_AS(zeros({3}, DType::f64).assign(w[0]), Error);
  CHECK_THROWS_AS(w.copy().fill(1), Error);
  NDArray row = w[0];
  CHECK_THROWS_AS(row += 1, Error);
  NoGrad no_grad;
  const std::vector<double> before = w[0].to_vector<double>();
  NDArray free_row = w[0];
  free_row += 1;
  y[0].fill(1);
  CHECK(w[0].to_vector<double>()[0] == before[0] + 1);
}

TEST_CASE("a view of elements that share memory cannot give them gradients") {
  NDArray w = values({3});
  set_requires_grad(w);
  CHECK(test::message_of([&] {
          w.broadcast_view({2, 3}).view({3}, {1}, 0);
        }) ==
        "view: an array of shape (2, 3) with strides (0, 1) requires a gradient, and its elements share "
        "memory; "
        "copy() it first");
}

TEST_CASE("what a view shows beside its array's own elements is a constant") {
  NDArray memory = values({6}), w = memory.slice(0, {2, 4});
  set_requires_grad(w);
  backward(sum(w.view({6}, {1}, 0) * 3));
  CHECK(grad(w).to_vector<double>() == std::vector<double>{3, 3});
}

TEST_CASE("nothing is saved by reading, printing and saving an array that requires a gradient") {
  NDArray w = values({2, 2});
  set_requires_grad(w);
  CHECK(w[0].to_vector<double>().size() == 2);
  CHECK_FALSE(w.to_string().empty());
  CHECK(w[0][0].item<double>() == w.to_vector<double>()[0]);
}

}  // namespace heddle
