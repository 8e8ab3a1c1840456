// Each optimizer beside its published formulas, computed serially in double, over random steps.
#include <algorithm>
#include <arguments.h>
#include <cmath>
#include <functional>
#include <map>
#include <message_of.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/optimizer.h>
#include <heddle/random.h>
#include <heddle/row_sparse.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Doubles = std::vector<double>;

// A weight and all that an optimizer may remember of it.
struct Formula {
  Doubles weight;
  OptimizerParams p;
  Doubles a = Doubles(weight.size()), b = a, c = a;
  int updates = 0;
  double product = 1;
};
using Step = std::function<void(Formula&, Doubles g)>;

double norm_of(const Doubles& x) {
  double sum = 0;
  for (const double one : x) sum += one * one;
  return std::sqrt(sum);
}

void add_decay(Formula& f, Doubles& g) {
  for (std::size_t i = 0; i < g.size(); ++i) g[i] += f.p.at("weight_decay") * f.weight[i];
}

void sgd(Formula& f, Doubles g) {
  add_decay(f, g);
  for (std::size_t i = 0; i < g.size(); ++i) {
    f.a[i] = f.p.at("momentum") * f.a[i] + g[i];
    f.weight[i] -= f.p.at("lr") * (f.p.at("nesterov") != 0 ? g[i] + f.p.at("momentum") * f.a[i] : f.a[i]);
  }
}

void moments(Formula& f, const Doubles& g) {
  const double beta1 = f.p.at("beta1"), beta2 = f.p.at("beta2");
  for (std::size_t i = 0; i < g.size(); ++i) {
    f.a[i] = beta1 * f.a[i] + (1 - beta1) * g[i];
    f.b[i] = beta2 * f.b[i] + (1 - beta2) * g[i] * g[i];
  }
}

void adam_step(Formula& f, Doubles g, bool decoupled) {
  ++f.updates;
  if (!decoupled) add_decay(f, g);
  moments(f, g);
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (decoupled) f.weight[i] *= 1 - f.p.at("lr") * f.p.at("weight_decay");
    f.c[i] = f.p.at("amsgrad") != 0 ? std::max(f.c[i], f.b[i]) : f.b[i];
    const double mean = f.a[i] / (1 - std::pow(f.p.at("beta1"), f.updates));
    const double variance = f.c[i] / (1 - std::pow(f.p.at("beta2"), f.updates));
    f.weight[i] -= f.p.at("lr") * mean / (std::sqrt(variance) + f.p.at("epsilon"));
  }
}

void nadam(Formula& f, Doubles g) {
  ++f.updates;
  const bool decoupled = f.p.at("decoupled_weight_decay") != 0;
  if (!decoupled) add_decay(f, g);
  moments(f, g);
  const auto momentum = [&](int step) {
    return f.p.at("beta1") * (1 - 0.5 * std::pow(0.96, step * f.p.at("momentum_decay")));
  };
  const double now = momentum(f.updates), next = momentum(f.updates + 1), lr = f.p.at("lr");
  f.product *= now;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (decoupled) f.weight[i] *= 1 - lr * f.p.at("weight_decay");
    const double root = std::sqrt(f.b[i] / (1 - std::pow(f.p.at("beta2"), f.updates))) + f.p.at("epsilon");
    f.weight[i] -= lr * (1 - now) / (1 - f.product) * g[i] / root;
    f.weight[i] -= lr * next / (1 - f.product * next) * f.a[i] / root;
  }
}

void adagrad(Formula& f, Doubles g) {
  ++f.updates;
  add_decay(f, g);
  const double lr = f.p.at("lr") / (1 + (f.updates - 1) * f.p.at("lr_decay"));
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (f.updates == 1) f.a[i] = f.p.at("initial_accumulator_value");
    f.a[i] += g[i] * g[i];
    f.weight[i] -= lr * g[i] / (std::sqrt(f.a[i]) + f.p.at("epsilon"));
  }
}

void rmsprop(Formula& f, Doubles g) {
  add_decay(f, g);
  const double alpha = f.p.at("alpha");
  for (std::size_t i = 0; i < g.size(); ++i) {
    f.a[i] = alpha * f.a[i] + (1 - alpha) * g[i] * g[i];
    f.b[i] = alpha * f.b[i] + (1 - alpha) * g[i];
    const double variance = f.p.at("centered") != 0 ? f.a[i] - f.b[i] * f.b[i] : f.a[i];
    f.c[i] = f.p.at("momentum") * f.c[i] + g[i] / (std::sqrt(variance) + f.p.at("epsilon"));
    f.weight[i] -= f.p.at("lr") * f.c[i];
  }
}

void adadelta(Formula& f, Doubles g) {
  add_decay(f, g);
  const double rho = f.p.at("rho"), epsilon = f.p.at("epsilon");
  for (std::size_t i = 0; i < g.size(); ++i) {
    f.a[i] = rho * f.a[i] + (1 - rho) * g[i] * g[i];
    const double step = std::sqrt(f.b[i] + epsilon) / std::sqrt(f.a[i] + epsilon) * g[i];
    f.b[i] = rho * f.b[i] + (1 - rho) * step * step;
    f.weight[i] -= f.p.at("lr") * step;
  }
}

void lion(Formula& f, const Doubles& g) {
  const double beta1 = f.p.at("beta1"), beta2 = f.p.at("beta2");
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double c = beta1 * f.a[i] + (1 - beta1) * g[i];
    f.a[i] = beta2 * f.a[i] + (1 - beta2) * g[i];
    const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    f.weight[i] -= f.p.at("lr") * (sign + f.p.at("weight_decay") * f.weight[i]);
  }
}

void lamb(Formula& f, const Doubles& g) {
  ++f.updates;
  moments(f, g);
  Doubles r(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double mean = f.a[i] / (1 - std::pow(f.p.at("beta1"), f.updates));
    const double variance = f.b[i] / (1 - std::pow(f.p.at("beta2"), f.updates));
    r[i] = mean / (std::sqrt(variance) + f.p.at("epsilon")) + f.p.at("weight_decay") * f.weight[i];
  }
  const double weight = norm_of(f.weight), update = norm_of(r);
  const double trust = weight > 0 && update > 0 ? weight / update : 1;
  for (std::size_t i = 0; i < g.size(); ++i) f.weight[i] -= f.p.at("lr") * trust * r[i];
}

void lars(Formula& f, Doubles g) {
  const double weight = norm_of(f.weight), grad = norm_of(g);
  const double ratio = weight > 0 && grad > 0
                           ? f.p.at("trust_coefficient") * weight /
                                 (grad + f.p.at("weight_decay") * weight + f.p.at("epsilon"))
                           : 1;
  add_decay(f, g);
  for (double& one : g) one *= ratio;
  f.p["weight_decay"] = 0;  // sgd does not add it again
  const OptimizerParams all = f.p;
  sgd(f, g);
}

struct Case {
  std::string name;
  OptimizerParams params;
  Step step;
};

const std::vector<Case> kCases = {
    {"sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1}, {"weight_decay", 0.01}}, sgd},
    {"adam", {}, [](Formula& f, Doubles g) { adam_step(f, std::move(g), false); }},
    {"adam",
     {{"amsgrad", 1}, {"weight_decay", 0.1}, {"lr", 0.01}},
     [](Formula& f, Doubles g) { adam_step(f, std::move(g), false); }},
    {"adamw", {{"amsgrad", 1}}, [](Formula& f, Doubles g) { adam_step(f, std::move(g), true); }},
    {"nadam", {}, nadam},
    {"nadam", {{"lr", 0.01}, {"weight_decay", 0.1}, {"momentum_decay", 0}}, nadam},
    {"nadam",
     {{"beta1", 0.99}, {"momentum_decay", 0.1}, {"weight_decay", 0.1}, {"decoupled_weight_decay", 1}},
     nadam},
    {"adagrad", {}, adagrad},
    {"adagrad", {{"lr_decay", 0.1}, {"weight_decay", 0.1}, {"initial_accumulator_value", 0.5}}, adagrad},
    {"rmsprop", {}, rmsprop},
    {"rmsprop", {{"momentum", 0.9}, {"weight_decay", 0.1}, {"lr", 0.001}}, rmsprop},
    {"rmsprop", {{"centered", 1}, {"alpha", 0.9}, {"lr", 0.001}}, rmsprop},
    {"rmsprop", {{"centered", 1}, {"momentum", 0.5}, {"lr", 0.001}, {"alpha", 0.9}}, rmsprop},
    {"adadelta", {}, adadelta},
    {"adadelta", {{"lr", 0.5}, {"rho", 0.8}, {"weight_decay", 0.1}}, adadelta},
    {"lion", {}, lion},
    {"lion", {{"lr", 0.01}, {"weight_decay", 0.1}}, lion},
    {"lamb", {}, lamb},
    {"lamb", {{"lr", 0.01}, {"weight_decay", 0}}, lamb},
    {"lars", {}, lars},
    {"lars", {{"weight_decay", 0.01}, {"nesterov", 1}, {"trust_coefficient", 0.1}}, lars}};

Doubles doubles(const NDArray& x) { return x.astype(DType::f64).to_vector<double>(); }

double worst_difference(const Doubles& a, const Doubles& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// lars() changes its parameters, so each step gets them anew.
void step(const Case& c, Formula& f, const OptimizerParams& params, Doubles g) {
  f.p = params;
  c.step(f, std::move(g));
}

}  // namespace

TEST_CASE("every optimizer has a formula here") {
  std::set<std::string> named, all;
  for (const Case& c : kCases) named.insert(c.name);
  for (const OptimizerInfo& info : optimizers()) {
    all.insert(info.name);
    CHECK(info.documentation.size() > 10);
    CHECK(create_optimizer(info.name)->params().size() == info.params.size());
  }
  CHECK(named == all);
}

TEST_CASE("random steps follow the formulas") {
  for (const Case& c : kCases) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(c.name);
      CAPTURE(name_of(dtype));
      Generator generator(17);
      const Shape shape{5, 1'313};
      const NDArray weight = generator.normal(shape, 0, 1, dtype);
      const auto optimizer = create_optimizer(c.name, c.params);
      Formula f{.weight = doubles(weight), .p = optimizer->params()};
      for (int i = 0; i < (kSanitized ? 10 : 50); ++i) {
        const NDArray grad = generator.normal(shape, 0, 1, dtype);
        const double lr = optimizer->params().at("lr") * (1 + 0.5 * (i % 3));
        optimizer->update("w", weight, grad, {.lr = lr, .grad_scale = 0.5});
        Doubles g = doubles(grad);
        for (double& one : g) one *= 0.5;
        OptimizerParams params = optimizer->params();
        params["lr"] = lr;
        step(c, f, params, std::move(g));
      }
      // A sign of lion and a variance near 0 magnify rounding.
      const double tolerance = dtype == DType::f64 ? 1e-11 : c.name == "lion" ? 0.1 : 5e-4;
      CHECK(worst_difference(doubles(weight), f.weight) < tolerance);
    }
  }
}

TEST_CASE("a weight may be without elements or have one, and decay may be scaled") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const auto optimizer = create_optimizer(c.name, c.params);
    optimizer->update("none", zeros({0, 3}), zeros({0, 3}));
    const NDArray one = full({}, 0.75, DType::f64), grad = full({}, -0.5, DType::f64);
    Formula f{.weight = {0.75}, .p = optimizer->params()};
    for (int i = 0; i < 3; ++i) {
      optimizer->update("one", one, grad, {.decay_scale = 0.25});
      OptimizerParams params = optimizer->params();
      params["weight_decay"] *= 0.25;
      step(c, f, params, {-0.5});
    }
    CHECK(one.item<double>() == doctest::Approx(f.weight[0]).epsilon(1e-12));
  }
}

TEST_CASE("a weight of zeros has steps too where norms scale them") {
  for (const char* name : {"lamb", "lars"}) {
    const NDArray weight = zeros({3}), grad = ones({3});
    create_optimizer(name)->update(0, weight, grad);
    for (const float one : weight.to_vector<float>()) CHECK(one < 0);
    const NDArray still = ones({3});
    create_optimizer(name, {{"weight_decay", 0}})->update(0, still, zeros({3}));
    CHECK(still.to_vector<float>() == std::vector<float>{1, 1, 1});
  }
}

TEST_CASE("updates have the same bits with any number of workers") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const auto run = [&](int workers) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      Generator generator(18);
      const NDArray weight = generator.normal({100'003});
      const auto optimizer = create_optimizer(c.name, c.params);
      for (int i = 0; i < 3; ++i) optimizer->update(0, weight, generator.normal({100'003}));
      return weight.to_vector<float>();
    };
    const std::vector<float> one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(4));
  }
}

TEST_CASE("saved state goes on with the same bits") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    Generator generator(19);
    const NDArray weight = generator.normal({3, 40});
    const auto straight = create_optimizer(c.name, c.params), resumed = create_optimizer(c.name, c.params);
    for (int i = 0; i < 4; ++i) straight->update("w", weight, generator.normal({3, 40}));
    const NDArray copy = weight.copy();
    resumed->set_state(straight->state(), {{"w", copy}});
    for (int i = 0; i < 4; ++i) {
      const NDArray grad = generator.normal({3, 40});
      straight->update("w", weight, grad);
      resumed->update("w", copy, grad);
    }
    CHECK(weight.to_vector<float>() == copy.to_vector<float>());
  }
}

TEST_CASE("rows are updated as weights of their own, or row-sparse gradients are refused") {
  constexpr std::int64_t kRows = 40, kWidth = 7;
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    Generator generator(20);
    const NDArray weight = generator.normal({kRows, kWidth}, 0, 1, DType::f64);
    const auto optimizer = create_optimizer(c.name, c.params);
    const auto gradient = [&] {
      return row_sparse(generator.integers({20}, 0, kRows), generator.normal({20, kWidth}, 0, 1, DType::f64),
                        {kRows, kWidth});
    };
    if (optimizer->needs_whole()) {
      CHECK(message_of<InvalidArgument>([&] {
              optimizer->update(0, weight, gradient());
            }).starts_with("optimizer " + c.name + ", weight 0: the gradient is row-sparse"));
      CHECK(optimizer->state().empty());
      continue;
    }
    const Doubles begin = doubles(weight);
    std::vector<Formula> rows;
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto from = begin.begin() + static_cast<std::ptrdiff_t>(row) * kWidth;
      rows.push_back({.weight = {from, from + kWidth}, .p = optimizer->params()});
    }
    for (int i = 0; i < 12; ++i) {
      const RowSparse some = gradient().trimmed();
      i % 4 == 3 ? optimizer->update(0, weight, to_dense(some)) : optimizer->update(0, weight, some);
      const Doubles dense = doubles(to_dense(some));
      std::vector<bool> present(kRows, i % 4 == 3);
      for (const std::int64_t row : some.rows().to_vector<std::int64_t>())
        present[static_cast<std::size_t>(row)] = true;
      for (std::size_t row = 0; row < kRows; ++row) {
        const auto from = dense.begin() + static_cast<std::ptrdiff_t>(row) * kWidth;
        if (present[row]) step(c, rows[row], optimizer->params(), {from, from + kWidth});
      }
    }
    Doubles expected;
    for (const Formula& row : rows) expected.insert(expected.end(), row.weight.begin(), row.weight.end());
    CHECK(worst_difference(doubles(weight), expected) < 1e-11);
  }
}

TEST_CASE("parameters out of their range are refused by name") {
  const auto why = [](const std::string& name, const OptimizerParams& params) {
    return message_of<InvalidArgument>([&] { create_optimizer(name, params); });
  };
  CHECK(why("nadam", {{"beta1", 1}}) == "optimizer nadam: beta1 must be in [0, 1), not 1");
  CHECK(why("adam", {{"amsgrad", 0.5}}) == "optimizer adam: amsgrad must be 0 or 1, not 0.5");
  CHECK(why("lars", {{"trust_coefficient", 0}}) ==
        "optimizer lars: trust_coefficient must be positive, not 0");
  CHECK(why("rmsprop", {{"rho", 0.5}}) ==
        "optimizer rmsprop has no parameter 'rho'; it has alpha, centered, epsilon, lr, momentum, "
        "weight_decay");
  CHECK(message_of<InvalidArgument>([] {
          create_optimizer("lion")->update(0, ones({2}), ones({2}), {.decay_scale = -1});
        }) == "optimizer lion: decay_scale must be finite and not negative, not -1");
  for (const OptimizerInfo& info : optimizers()) {
    for (const OptimizerInfo::Param& param : info.params) {
      CAPTURE(info.name);
      CAPTURE(param.name);
      CHECK_THROWS_AS(create_optimizer(info.name, {{param.name, -1}}), InvalidArgument);
      CHECK_THROWS_AS(create_optimizer(info.name, {{param.name, std::nan("")}}), InvalidArgument);
    }
  }
}
