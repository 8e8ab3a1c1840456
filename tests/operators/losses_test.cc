// Losses: their values by hand, their gradients, and what they refuse.
#include <cmath>
#include <message_of.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using Doubles = std::vector<double>;
using In = const std::vector<NDArray>&;

NDArray normal(const Shape& shape, std::uint64_t seed) {
  return Generator(seed).normal(shape, 0, 1, DType::f64);
}

void check_values(const NDArray& loss, const Doubles& expected) {
  const Doubles values = loss.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

}  // namespace

TEST_CASE("losses of classes take any axes in front: as of the rows one after the other") {
  Generator numbers(1);
  NDArray logits = numbers.normal({2, 3, 5}, 0, 1, DType::f64);
  set_requires_grad(logits);
  const NDArray labels = array<std::int64_t>({0, 4, 2, -1, 1, 3}, {2, 3}), known = abs(labels);
  const NDArray rows = logits.detach().view_as({6, 5});
  const auto same = [](const NDArray& a, const NDArray& b) {
    return a.to_vector<double>() == b.view_as(a.shape()).to_vector<double>();
  };
  CHECK(same(cross_entropy(logits.detach(), known), cross_entropy(rows, known.view_as({6}))));
  CHECK(same(cross_entropy(rows[0], known(0, 0)),
             cross_entropy(rows(Slice{.end = 1}), known.view_as({6})(Slice{.end = 1}))));
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const ClassOptions options{.smoothing = 0.1, .reduction = reduction};
    const NDArray found = cross_entropy_with(logits.detach(), labels, options);
    CHECK(found.shape() == (reduction == Reduction::none ? Shape{2, 3} : Shape{}));
    CHECK(same(found, cross_entropy_with(rows, labels.view_as({6}), options)));
  }
  backward(cross_entropy(logits, known));
  NDArray flat = rows.copy();
  set_requires_grad(flat);
  backward(cross_entropy(flat, known.view_as({6})));
  CHECK(same(grad(logits), grad(flat)));
}

TEST_CASE("losses of elements by hand, and their reductions") {
  const NDArray y = array<double>({1, 2, 4}), target = array<double>({1, 0, 1});
  check_values(mse_loss(y, target, Reduction::none), {0, 4, 9});
  check_values(mse_loss(y, target), {13.0 / 3});
  check_values(mse_loss(y, target, Reduction::sum), {13});
  check_values(l1_loss(y, target, Reduction::none), {0, 2, 3});
  check_values(huber_loss(y, target, 2.5, Reduction::none), {0, 2, 2.5 * (3 - 1.25)});
  check_values(hinge_loss(array<double>({0.5, 2, -1}), array<double>({1, 1, -1}), 1, Reduction::none),
               {0.5, 0, 0});
  check_values(bce_with_logits(array<double>({0, 2, -2}), array<double>({1, 1, 0}), 1, Reduction::none),
               {std::log(2), std::log1p(std::exp(-2)), std::log1p(std::exp(-2))});
  check_values(bce_with_logits(array<double>({2, -2}), array<double>({1, 0}), 3, Reduction::none),
               {3 * std::log1p(std::exp(-2)), std::log1p(std::exp(-2))});
  check_values(bce_with_logits(array<double>({1000, -1000}), array<double>({0, 1})), {1000});
  const NDArray p = array<double>({0.5, 0.5, 0, 1}, {2, 2}), q = log(full({2, 2}, 0.25, DType::f64));
  check_values(kl_div(q, p, Reduction::none), {0.5 * std::log(2), 0.5 * std::log(2), 0, std::log(4)});
  check_values(kl_div(q, p), {(std::log(2) + std::log(4)) / 2});
  const NDArray a = zeros({2, 2}, DType::f64), near = array<double>({3, 4, 0, 1}, {2, 2}),
                far = array<double>({0, 1, 6, 8}, {2, 2});
  check_values(triplet_loss(a, near, far, 1, Reduction::none), {5, 0});
}

TEST_CASE("losses of classes: weights, ignored rows, smoothing") {
  const NDArray logits = normal({4, 3}, 1), weight = array<double>({1, 2, 3});
  const NDArray labels = array<std::int64_t>({2, 0, 1, 2});
  const NDArray logarithms = log_softmax(logits);
  const Doubles l = logarithms.to_vector<double>();
  check_values(cross_entropy_with(logits, labels), {cross_entropy(logits, labels).item<double>()});
  check_values(nll_loss(logarithms, labels, {.reduction = Reduction::none}), {-l[2], -l[3], -l[7], -l[11]});
  check_values(nll_loss(logarithms, labels, {.weight = weight}),
               {-(3 * l[2] + l[3] + 2 * l[7] + 3 * l[11]) / 9});
  check_values(nll_loss(logarithms, array<std::int64_t>({2, -7, 1, -7}), {.weight = weight, .ignore = -7}),
               {-(3 * l[2] + 2 * l[7]) / 5});
  check_values(nll_loss(logarithms, labels, {.ignore = 2, .reduction = Reduction::none}),
               {0, -l[3], -l[7], 0});
  const NDArray smoothed = one_hot(labels, 3, DType::f64) * 0.7 + 0.1;
  check_values(cross_entropy_with(logits, labels, {.smoothing = 0.3}),
               {soft_cross_entropy(logits, smoothed).item<double>()});
  CHECK(cross_entropy_with(logits.astype(DType::f16), labels, {.smoothing = 0.1}).dtype() == DType::f16);
  CHECK(std::isnan(nll_loss(logarithms, labels * 0 - 1).item<double>()));  // no row counts
}

TEST_CASE("gradients of losses agree with finite differences") {
  const NDArray y = normal({4, 3}, 1), target = sigmoid(normal({4, 3}, 2)), weight = array<double>({1, 2, 3});
  const NDArray labels = array<std::int64_t>({2, 0, -1, 2});
  for (const Reduction r : {Reduction::mean, Reduction::none}) {
    testing::check_gradients([&](In in) { return mse_loss(in[0], in[1], r); }, {y, target});
    testing::check_gradients([&](In in) { return l1_loss(in[0], in[1], r); }, {y, target});
    testing::check_gradients([&](In in) { return huber_loss(in[0], in[1], 0.8, r); }, {y, target});
    testing::check_gradients([&](In in) { return bce_with_logits(in[0], in[1], 2, r); }, {y, target});
    testing::check_gradients([&](In in) { return kl_div(in[0], in[1], r); }, {y, target});
    testing::check_gradients([&](In in) { return hinge_loss(in[0], in[1], 1, r); }, {y, target});
    testing::check_gradients([&](In in) { return triplet_loss(in[0], in[1], in[2], 1, r); },
                             {y, target, normal({4, 3}, 3)});
    testing::check_gradients([&](In in) { return soft_cross_entropy(in[0], in[1], r); }, {y, target});
    testing::check_gradients(
        [&](In in) { return nll_loss(in[0], labels, {.weight = weight, .reduction = r}); }, {y});
    testing::check_gradients(
        [&](In in) {
          return cross_entropy_with(in[0], labels, {.weight = weight, .smoothing = 0.2, .reduction = r});
        },
        {y});
  }
}

TEST_CASE("losses refuse what does not fit, in their own names") {
  const NDArray x = ones({2, 3}), labels = zeros({2}, DType::i64);
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([&] { mse_loss(x, ones({2})); }).starts_with("mse_loss: "));
  CHECK(why([&] { mse_loss(ones({2}, DType::i32), x); }) == "mse_loss: dtype i32; wanted a floating one");
  CHECK(why([&] { huber_loss(x, x, 0); }) == "huber_loss: delta is 0; want a positive number");
  CHECK(why([&] { nll_loss(x, zeros({3}, DType::i64)); }) ==
        "nll_loss: the array is (2, 3), labels (3,); wanted (..., C) with at least one class, and (...)");
  CHECK(why([&] { nll_loss(x, zeros({2})); }) == "nll_loss: labels are f32; want integers");
  CHECK(why([&] { nll_loss(x, labels, {.weight = ones({2})}); }) == "nll_loss: weight is (2,); want (3,)");
  CHECK(why([&] { nll_loss(x, labels, {.smoothing = 0.1}); }).find("cross_entropy_with has it") !=
        std::string::npos);
  CHECK(why([&] { cross_entropy_with(x, labels, {.smoothing = 2}); }) ==
        "cross_entropy_with: smoothing is 2; want 0 to 1");
  CHECK(why([&] { soft_cross_entropy(x, ones({2})); }).starts_with("soft_cross_entropy: "));
  CHECK_THROWS_AS(nll_loss(x, labels + 3).wait(), Error);
  CHECK_THROWS_AS(nll_loss(x, labels - 2).wait(), Error);  // no number from the end
}
