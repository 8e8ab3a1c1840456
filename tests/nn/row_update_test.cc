// Updates by row-sparse gradients: only the rows that are present change, each as a weight of its own.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <message_of.h>
#include <schedulers.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/optimizer.h>
#include <heddle/random.h>
#include <heddle/row_sparse.h>

namespace heddle {
namespace {

// One element and the updates of its row, by the published formulas, in double.
struct Element {
  double weight, first = 0, second = 0;
  int updates = 0;

  void sgd(double g, double momentum, bool nesterov, double decay) {
    g += decay * weight;
    first = momentum * first + g;
    weight -= 0.1 * (nesterov ? g + momentum * first : first);
  }
  void adam(double g, double decay, bool decoupled) {
    constexpr double lr = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    ++updates;
    if (decoupled) weight -= lr * decay * weight;
    if (!decoupled) g += decay * weight;
    first = beta1 * first + (1 - beta1) * g;
    second = beta2 * second + (1 - beta2) * g * g;
    const double mean = first / (1 - std::pow(beta1, updates)),
                 variance = second / (1 - std::pow(beta2, updates));
    weight -= lr * mean / (std::sqrt(variance) + epsilon);
  }
};
using Step = std::function<void(Element&, double g)>;

struct Case {
  std::string name;
  OptimizerParams params;
  Step step;
};

const std::vector<Case> kCases = {
    {"sgd", {{"lr", 0.1}}, [](Element& e, double g) { e.sgd(g, 0, false, 0); }},
    {"sgd", {{"lr", 0.1}, {"weight_decay", 0.01}}, [](Element& e, double g) { e.sgd(g, 0, false, 0.01); }},
    {"sgd",
     {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}},
     [](Element& e, double g) { e.sgd(g, 0.9, false, 0.01); }},
    {"sgd",
     {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1}},
     [](Element& e, double g) { e.sgd(g, 0.9, true, 0); }},
    {"adam", {{"lr", 0.01}, {"weight_decay", 0.1}}, [](Element& e, double g) { e.adam(g, 0.1, false); }},
    {"adamw", {{"lr", 0.01}}, [](Element& e, double g) { e.adam(g, 0.01, true); }}};

constexpr std::int64_t kRows = 300, kWidth = 11;

// A gradient of `count` lookups of random rows.
RowSparse random_gradient(Generator& generator, DType dtype, std::int64_t count = 200) {
  return row_sparse(generator.integers({count}, 0, kRows), generator.normal({count, kWidth}, 0, 1, dtype),
                    {kRows, kWidth});
}

// The weight after the updates that `gradients` asks for, in double: rows of the dense ones are all present.
struct Reference {
  std::vector<Element> elements;

  explicit Reference(const NDArray& weight) {
    for (const double w : weight.astype(DType::f64).to_vector<double>()) elements.push_back({w});
  }
  void update(const NDArray& grad, const Step& step) {
    const std::vector<double> g = grad.astype(DType::f64).to_vector<double>();
    for (std::size_t k = 0; k < g.size(); ++k) step(elements[k], 0.5 * g[k]);
  }
  void update(const RowSparse& grad, const Step& step) {
    const RowSparse present = grad.trimmed();
    const std::vector<std::int64_t> rows = present.rows().to_vector<std::int64_t>();
    const std::vector<double> g = present.values().astype(DType::f64).to_vector<double>();
    for (std::size_t k = 0; k < g.size(); ++k) {
      const std::size_t width = kWidth, row = static_cast<std::size_t>(rows[k / width]);
      step(elements[row * width + k % width], 0.5 * g[k]);
    }
  }
  void check(const NDArray& weight) const {
    const std::vector<double> got = weight.astype(DType::f64).to_vector<double>();
    double worst = 0;
    for (std::size_t k = 0; k < got.size(); ++k)
      worst = std::max(worst, std::abs(got[k] - elements[k].weight));
    CHECK(worst < (weight.dtype() == DType::f64 ? 1e-12 : 2e-5));
  }
};

NDArray list(const std::vector<std::int64_t>& rows) {
  return array<std::int64_t>(rows, {static_cast<std::int64_t>(rows.size())});
}

bool same_state(const Optimizer& a, const Optimizer& b) {
  const auto left = a.state(), right = b.state();
  return left.size() == right.size() && std::all_of(left.begin(), left.end(), [&](const auto& entry) {
           return right.contains(entry.first) &&
                  right.at(entry.first).to_string() == entry.second.to_string();
         });
}

}  // namespace

TEST_CASE("rows are updated as weights of their own, on every scheduler") {
  test::on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    for (const Case& c : kCases) {
      for (DType dtype : {DType::f32, DType::f64}) {
        CAPTURE(c.name);
        Generator generator(3);
        const NDArray weight = generator.normal({kRows, kWidth}, 0, 1, dtype);
        Reference reference(weight);
        const auto optimizer = create_optimizer(c.name, c.params);
        for (int i = 0; i < 6; ++i) {
          const RowSparse gradient = random_gradient(generator, dtype);
          optimizer->update(0, weight, gradient, {.grad_scale = 0.5});
          reference.update(gradient, c.step);
        }
        reference.check(weight);
      }
    }
  });
}

TEST_CASE("dense and row-sparse gradients may alternate") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    Generator generator(4);
    const NDArray weight = generator.normal({kRows, kWidth}, 0, 1, DType::f64);
    Reference reference(weight);
    const auto optimizer = create_optimizer(c.name, c.params);
    for (int i = 0; i < 8; ++i) {
      if (i % 4 < 2) {
        const NDArray gradient = generator.normal(weight.shape(), 0, 1, DType::f64);
        optimizer->update(0, weight, gradient, {.grad_scale = 0.5});
        reference.update(gradient, c.step);
      } else {
        const RowSparse gradient = random_gradient(generator, DType::f64);
        optimizer->update(0, weight, gradient, {.grad_scale = 0.5});
        reference.update(gradient, c.step);
      }
    }
    reference.check(weight);
    CHECK(optimizer->state().at("0.updates").item<std::int64_t>() == 8);
  }
}

TEST_CASE("sgd without momentum has the bits of the dense update") {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t width : {1, 3, 8, 17, 64, 203}) {
      CAPTURE(width);
      Generator generator(5);
      const NDArray weight = generator.normal({90, width}, 0, 1, dtype), dense = weight.copy();
      const auto rows = create_optimizer("sgd", {{"lr", 0.3}}), all = create_optimizer("sgd", {{"lr", 0.3}});
      for (int i = 0; i < 3; ++i) {
        const RowSparse gradient = row_sparse(generator.integers({40}, 0, 90),
                                              generator.normal({40, width}, 0, 1, dtype), {90, width});
        rows->update(0, weight, gradient, {.grad_scale = 0.7});
        all->update(0, dense, to_dense(gradient), {.grad_scale = 0.7});
      }
      CHECK(weight.astype(DType::f64).to_vector<double>() == dense.astype(DType::f64).to_vector<double>());
    }
  }
}

TEST_CASE("a gradient that has all rows updates like a dense one, bit for bit") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    Generator generator(6);
    const NDArray weight = generator.normal({70, 24}), dense = weight.copy(),
                  every = arange(0, 70, 1, DType::i64);
    const auto rows = create_optimizer(c.name, c.params), all = create_optimizer(c.name, c.params);
    for (int i = 0; i < 5; ++i) {
      const NDArray gradient = generator.normal({70, 24});
      rows->update(0, weight, retain(gradient, every));
      all->update(0, dense, gradient);
    }
    CHECK(weight.to_vector<float>() == dense.to_vector<float>());
  }
}

TEST_CASE("absent rows keep their weight, momenta and counts") {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    OptimizerParams params{{"weight_decay", 0.1}};
    if (std::string(name) == "sgd") params["momentum"] = 0.9;
    const auto optimizer = create_optimizer(name, params);
    const NDArray weight = ones({3, 2});
    optimizer->update(0, weight, ones({3, 2}));
    std::map<std::string, std::vector<float>> before;
    before["weight"] = weight[1].to_vector<float>();
    for (const auto& [key, array] : optimizer->state())
      if (array.ndim() == 2) before[key] = array[1].to_vector<float>();
    for (int i = 0; i < 2; ++i) optimizer->update(0, weight, retain(ones({3, 2}), list({0, 2})));
    CHECK(weight[1].to_vector<float>() == before["weight"]);
    CHECK(weight[0].to_vector<float>() != before["weight"]);
    for (const auto& [key, array] : optimizer->state()) {
      if (array.ndim() != 2) continue;
      CHECK(array[1].to_vector<float>() == before[key]);
      CHECK(array[0].to_vector<float>() != before[key]);
    }
    if (std::string(name) == "sgd") continue;
    CHECK(optimizer->state().at("0.row_updates").to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{3, 1, 3});
  }
}

TEST_CASE("an update without rows changes nothing but the number of updates") {
  for (const char* name : {"sgd", "adam"}) {
    const auto optimizer = create_optimizer(name);
    const NDArray weight = ones({3, 2}), empty = ones({0, 2});
    optimizer->update(0, weight, row_sparse(list({}), zeros({0, 2}), {3, 2}));
    optimizer->update(1, empty, row_sparse(list({}), zeros({0, 2}), {0, 2}));
    optimizer->update(2, ones({3, 0}), row_sparse(list({1}), zeros({1, 0}), {3, 0}));
    CHECK(weight.to_vector<float>() == std::vector<float>(6, 1));
    for (const char* key : {"0", "1", "2"})
      CHECK(optimizer->state().at(std::string(key) + ".updates").item<std::int64_t>() == 1);
  }
}

TEST_CASE("the state of rows moves to another optimizer, which then goes on the same") {
  for (const Case& c : kCases) {
    Generator generator(7);
    const NDArray weight = generator.normal({kRows, kWidth});
    const auto straight = create_optimizer(c.name, c.params), resumed = create_optimizer(c.name, c.params);
    for (int i = 0; i < 3; ++i) straight->update(4, weight, random_gradient(generator, DType::f32));
    const NDArray copy = weight.copy();
    resumed->set_state(straight->state(), {{4, copy}});
    CHECK(same_state(*straight, *resumed));
    for (int i = 0; i < 2; ++i) {
      const RowSparse gradient = random_gradient(generator, DType::f32);
      straight->update(4, weight, gradient);
      resumed->update(4, copy, gradient);
    }
    CHECK(weight.to_vector<float>() == copy.to_vector<float>());
    CHECK(same_state(*straight, *resumed));
  }
}

TEST_CASE("counts of rows that do not fit are refused") {
  const auto adam = create_optimizer("adam"), sgd = create_optimizer("sgd");
  const NDArray x = zeros({2, 3}), counts = ones({2}, DType::i64), one = ones({1}, DType::i64);
  const std::map<std::string, NDArray> state{
      {"0.mean", x}, {"0.variance", x}, {"0.updates", one}, {"0.row_updates", counts}};
  const auto with = [&](const NDArray& row_updates) {
    std::map<std::string, NDArray> other = state;
    other["0.row_updates"] = row_updates;
    return other;
  };
  const auto refusal = [](auto&& call) { return test::message_of<InvalidArgument>(call); };
  CHECK(refusal([&] { adam->set_state(with(full({2}, -2, DType::i64))); }) ==
        "optimizer adam: '0.row_updates' has -2");
  CHECK(refusal([&] {
          adam->set_state(with(ones({3}, DType::i64)), {{0, x}});
        }) == "optimizer adam: '0.row_updates' is (3,), its weight (2, 3)");
  CHECK_THROWS_AS(adam->set_state(with(ones({2}))), InvalidArgument);
  CHECK(refusal([&] {
          sgd->set_state({{"0.updates", one}, {"0.row_updates", counts}});
        }) == "optimizer sgd keeps no state called '0.row_updates'");
  CHECK(adam->state().empty());
  adam->set_state(with(ones({3}, DType::i64)));
  CHECK(refusal([&] { adam->update(0, x, x); }) ==
        "optimizer adam: weight 0's row_updates is (3,), its weight (2, 3)");
  adam->set_state(state);
  CHECK(adam->state().size() == 4);
}

TEST_CASE("an update that is skipped leaves no trace, also if it was the first") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      Generator generator(9);
      const NDArray weight = generator.normal({kRows, kWidth}), expected = weight.copy();
      const auto failing = create_optimizer(c.name, c.params), plain = create_optimizer(c.name, c.params);
      const NDArray dense = generator.normal({kRows, kWidth});
      const RowSparse gradient = random_gradient(generator, DType::f32);
      failing->update(0, weight, dense);
      plain->update(0, expected, dense);
      failing->update(0, weight, row_sparse(list({kRows}), ones({1, kWidth}), {kRows, kWidth}));
      CHECK_THROWS_AS(weight.wait(), Error);
      failing->clear_errors();
      engine.clear_error(weight.var());
      failing->update(0, weight, gradient);
      plain->update(0, expected, gradient);
      CHECK(weight.to_vector<float>() == expected.to_vector<float>());
      CHECK(same_state(*failing, *plain));
    }
  });
}

TEST_CASE("updates of rows say what is wrong at the call") {
  const auto sgd = create_optimizer("sgd");
  const RowSparse gradient = retain(ones({2, 3}), list({1}));
  const auto refusal = [&](const NDArray& weight, UpdateOptions options = {}) {
    return test::message_of<InvalidArgument>([&] { sgd->update(3, weight, gradient, options); });
  };
  const std::string both = "; both must be f32 or both f64, of one shape";
  CHECK(refusal(ones({2, 4})) ==
        "optimizer sgd, weight 3: the weight is f32 (2, 4), the gradient f32 (2, 3)" + both);
  CHECK(refusal(ones({2, 3}, DType::f64)) ==
        "optimizer sgd, weight 3: the weight is f64 (2, 3), the gradient f32 (2, 3)" + both);
  CHECK(refusal(ones({3, 2}).permuted({1, 0})) == "optimizer sgd, weight 3: the weight must be contiguous");
  CHECK(refusal(ones({2, 3}), {.lr = -1}).starts_with("optimizer sgd: lr must be"));
  CHECK(sgd->state().empty());
}

TEST_CASE("values of a row-sparse gradient may overlap the weight") {
  const NDArray all = Generator(1).normal({41, 2});
  const NDArray weight = all(Slice{.begin = 1}), values = all(Slice{.end = 40});
  const NDArray rows = arange(0, 40).astype(DType::i64), count = array<std::int64_t>({40});
  const NDArray expected = weight.copy();
  const RowSparse gradient({40, 2}, rows, values, count), apart({40, 2}, rows, values.copy(), count);
  create_optimizer("sgd", {{"lr", 0.5}})->update(0, expected, apart);
  create_optimizer("sgd", {{"lr", 0.5}})->update(0, weight, gradient);
  CHECK(weight.to_vector<float>() == expected.to_vector<float>());
}

}  // namespace heddle
