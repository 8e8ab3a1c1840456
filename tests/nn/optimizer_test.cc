#include <cmath>
#include <map>
#include <message_of.h>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/optimizer.h>
#include <heddle/random.h>

using namespace heddle;
using namespace heddle::test;

namespace {

// The published formulas, one element at a time, in double: what the fused kernels must agree with.
struct Reference {
  double weight, first = 0, second = 0;
  int updates = 0;

  void sgd(double g, double lr, double momentum, bool nesterov, double decay) {
    g += decay * weight;
    first = momentum * first + g;
    weight -= lr * (nesterov ? g + momentum * first : first);
  }
  void adam(double g, double lr, double decay, bool decoupled) {
    constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    ++updates;
    if (decoupled) weight -= lr * decay * weight;
    if (!decoupled) g += decay * weight;
    first = beta1 * first + (1 - beta1) * g;
    second = beta2 * second + (1 - beta2) * g * g;
    double mean = first / (1 - std::pow(beta1, updates)), variance = second / (1 - std::pow(beta2, updates));
    weight -= lr * mean / (std::sqrt(variance) + epsilon);
  }
};

// Five updates of 40,000 weights (several chunks and a tail) against the reference.
template <class Step>
void compare(const std::string& name, const OptimizerParams& params, DType dtype, Step&& step) {
  Generator generator(3);
  const Shape shape{40'001};
  NDArray weight = generator.normal(shape, 0, 1, dtype);
  std::vector<Reference> expected;
  for (double w : weight.astype(DType::f64).to_vector<double>()) expected.push_back({w});
  auto optimizer = create_optimizer(name, params);
  for (int i = 0; i < 5; ++i) {
    NDArray grad = generator.normal(shape, 0, 1, dtype);
    optimizer->update(0, weight, grad, {.grad_scale = 0.5});
    std::vector<double> g = grad.astype(DType::f64).to_vector<double>();
    for (std::size_t k = 0; k < g.size(); ++k) step(expected[k], 0.5 * g[k]);
  }
  std::vector<double> got = weight.astype(DType::f64).to_vector<double>();
  double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5, worst = 0;
  for (std::size_t k = 0; k < got.size(); ++k) worst = std::max(worst, std::abs(got[k] - expected[k].weight));
  CAPTURE(name);
  CHECK(worst < tolerance);
}

}  // namespace

TEST_CASE("optimizers follow their formulas") {
  for (DType dtype : {DType::f32, DType::f64}) {
    compare("sgd", {{"lr", 0.1}}, dtype, [](Reference& r, double g) { r.sgd(g, 0.1, 0, false, 0); });
    compare("sgd", {{"lr", 0.1}, {"weight_decay", 0.01}}, dtype,
            [](Reference& r, double g) { r.sgd(g, 0.1, 0, false, 0.01); });
    compare("sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}}, dtype,
            [](Reference& r, double g) { r.sgd(g, 0.1, 0.9, false, 0.01); });
    compare("sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1}}, dtype,
            [](Reference& r, double g) { r.sgd(g, 0.1, 0.9, true, 0); });
    compare("adam", {{"lr", 0.01}, {"weight_decay", 0.1}}, dtype,
            [](Reference& r, double g) { r.adam(g, 0.01, 0.1, false); });
    compare("adamw", {{"lr", 0.01}}, dtype, [](Reference& r, double g) { r.adam(g, 0.01, 0.01, true); });
  }
}

TEST_CASE("the learning rate of an update overrides the optimizer's") {
  NDArray weight = array({1.0f, 2.0f}), grad = array({1.0f, 1.0f});
  auto sgd = create_optimizer("sgd", {{"lr", 0.5}});
  sgd->update(0, weight, grad, {.lr = 0.25});
  CHECK(weight.to_vector<float>() == std::vector<float>{0.75f, 1.75f});
  sgd->update(0, weight, grad);
  CHECK(weight.to_vector<float>() == std::vector<float>{0.25f, 1.25f});
}

TEST_CASE("keys have states of their own") {
  auto sgd = create_optimizer("sgd", {{"lr", 1}, {"momentum", 0.5}});
  NDArray a = zeros({1}), b = zeros({1}), one = ones({1});
  sgd->update(0, a, one);
  sgd->update(0, a, one);
  sgd->update(1, b, one);
  CHECK(a.item<float>() == -2.5f);
  CHECK(b.item<float>() == -1.0f);
}

TEST_CASE("a gradient may be a view, a weight may be a part of an array") {
  NDArray base = array({1.0f, 2.0f, 3.0f, 4.0f}), grads = array<float>({1, 9, 2, 9}, {2, 2});
  NDArray weight = base.slice(0, {.begin = 1, .end = 3});
  create_optimizer("sgd", {{"lr", 1}})->update(0, weight, grads.permuted({1, 0})[0]);
  CHECK(base.to_vector<float>() == std::vector<float>{1, 1, 1, 4});
}

TEST_CASE("state moves to another optimizer, which then goes on the same") {
  for (const char* name : {"sgd", "adam"}) {
    OptimizerParams params{{"lr", 0.1}};
    if (std::string(name) == "sgd") params["momentum"] = 0.9;
    Generator generator(5);
    NDArray weight = generator.normal({100}), first = generator.normal({100}),
            second = generator.normal({100});
    auto straight = create_optimizer(name, params), resumed = create_optimizer(name, params);
    straight->update(4, weight, first);
    NDArray copy = weight.copy();
    resumed->set_state(straight->state());
    straight->update(4, weight, second);
    resumed->update(4, copy, second);
    CHECK(weight.to_vector<float>() == copy.to_vector<float>());
  }
}

TEST_CASE("state that does not fit is refused") {
  auto adam = create_optimizer("adam");
  NDArray x = zeros({2});
  CHECK_THROWS_WITH_AS(adam->set_state({{"0.velocity", x}}),
                       "optimizer adam keeps no state called '0.velocity'", InvalidArgument);
  CHECK_THROWS_WITH_AS(adam->set_state({{"0.mean", x}}), "optimizer adam: '0.variance' is missing",
                       InvalidArgument);
  CHECK_THROWS_AS(adam->set_state({{"mean", x}}), InvalidArgument);
  CHECK_THROWS_AS(adam->set_state({{"1x.mean", x}}), InvalidArgument);
  adam->set_state({{"0.mean", x}, {"0.variance", x}, {"0.updates", array<std::int64_t>({1})}});
  CHECK_THROWS_WITH_AS(adam->update(0, zeros({3}), zeros({3})),
                       "optimizer adam: weight 0 is f32 (3,), its state is f32 (2,)", InvalidArgument);
}

TEST_CASE("state is checked against the weights") {
  auto sgd = create_optimizer("sgd", {{"momentum", 0.9}});
  const std::map<std::string, NDArray> state{{"3.velocity", ones({2})},
                                             {"3.updates", array<std::int64_t>({1})}};
  CHECK_THROWS_WITH_AS(sgd->set_state(state, {{3, ones({4})}}),
                       "optimizer sgd: '3.velocity' is f32 (2,), its weight f32 (4,)", InvalidArgument);
  CHECK_THROWS_WITH_AS(sgd->set_state(state, {{0, ones({2})}}), "optimizer sgd: '3.updates' is of no weight",
                       InvalidArgument);
  CHECK(sgd->state().empty());
  sgd->set_state(state, {{3, ones({2})}});
  CHECK(sgd->state().size() == 2);
}

TEST_CASE("optimizers say what is wrong at the call") {
  CHECK_THROWS_WITH_AS(create_optimizer("sdg"),
                       "there is no optimizer 'sdg'; there are adadelta, adagrad, adam, adamw, lamb, lars, "
                       "lion, nadam, rmsprop "
                       "and sgd",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(
      create_optimizer("sgd", {{"momentun", 0.9}}),
      "optimizer sgd has no parameter 'momentun'; it has lr, momentum, nesterov, weight_decay",
      InvalidArgument);
  CHECK_THROWS_AS(create_optimizer("sgd", {{"lr", -1}}), InvalidArgument);
  CHECK_THROWS_AS(create_optimizer("sgd", {{"momentum", 1}}), InvalidArgument);
  CHECK_THROWS_AS(create_optimizer("sgd", {{"nesterov", 1}}), InvalidArgument);
  CHECK_THROWS_AS(create_optimizer("adam", {{"epsilon", 0}}), InvalidArgument);
  auto sgd = create_optimizer("sgd");
  CHECK_THROWS_AS(sgd->update(0, zeros({2}), zeros({3})), InvalidArgument);
  CHECK_THROWS_AS(sgd->update(0, zeros({2}), zeros({2}, DType::f64)), InvalidArgument);
  CHECK_THROWS_AS(sgd->update(0, zeros({2}, DType::i32), zeros({2}, DType::i32)), InvalidArgument);
  CHECK_THROWS_AS(sgd->update(0, zeros({2, 2}).permuted({1, 0}), zeros({2, 2})), InvalidArgument);
  CHECK_THROWS_AS(sgd->update(0, NDArray(), zeros({2})), InvalidArgument);
  CHECK_THROWS_AS(sgd->update(0, zeros({2}), zeros({2}), {.lr = -1.0}), InvalidArgument);
}

TEST_CASE("an update can be checked beforehand, and is refused by the same words") {
  const auto sgd = create_optimizer("sgd");
  const NDArray weight = ones({2}), whole = ones({2}, DType::i32);
  CHECK_NOTHROW(sgd->check(3, weight, {.lr = 0.5, .grad_scale = -2}));
  const std::pair<NDArray, UpdateOptions> refused[] = {
      {weight, {.lr = -1}}, {weight, {.grad_scale = std::nan("")}}, {whole, {}}, {NDArray(), {}}};
  for (const auto& [array, options] : refused) {
    const std::string before = message_of<InvalidArgument>([&] { sgd->check(3, array, options); });
    CHECK(before != "no error");
    CHECK(before == message_of<InvalidArgument>([&] { sgd->update(3, array, array, options); }));
  }
  CHECK(sgd->state().empty());
}

TEST_CASE("a gradient may overlap its weight: it is read as it was before the update") {
  const std::int64_t count = 100000;
  for (const char* name : {"sgd", "adam"}) {
    for (const bool behind : {false, true}) {
      const NDArray all = Generator(1).normal({count + 1});
      const NDArray first = all(Slice{.end = count}), second = all(Slice{.begin = 1});
      const NDArray &weight = behind ? first : second, &gradient = behind ? second : first;
      const NDArray expected = weight.copy(), apart = gradient.copy();
      create_optimizer(name, {{"lr", 0.5}})->update(0, weight, gradient);
      create_optimizer(name, {{"lr", 0.5}})->update(0, expected, apart);
      CHECK(weight.to_vector<float>() == expected.to_vector<float>());
    }
  }
}
