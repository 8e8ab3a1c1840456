// Networks whose products are of 8-bit integers.
#include <cmath>
#include <limits>
#include <memory>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/engine.h>
#include <heddle/fold_batch_norms.h>
#include <heddle/layers.h>
#include <heddle/model.h>
#include <heddle/ops.h>
#include <heddle/quantize.h>
#include <heddle/sequential.h>

#include "files.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

Sequential images_net(Generator& generator) {
  return Sequential{
      Conv2d(3, 8, 3, {.padding = "same"}, generator), Relu(), MaxPool2d(2),
      Sequential(Conv2d(8, 8, 3, {.groups = 2, .bias = false, .relu = true}, generator), Flatten()),
      Dense(72, 10, {}, generator)};
}

// The norm of the difference, relative to that of b.
double error(const NDArray& a, const NDArray& b) {
  const NDArray x = a.detach().astype(DType::f64), y = b.detach().astype(DType::f64);
  return norm(x - y).item<double>() / norm(y).item<double>();
}

}  // namespace

TEST_CASE("quantize: a Sequential gives nearly the same, in fewer bytes") {
  Generator generator(1);
  Sequential net = images_net(generator);
  net.train(false);
  const NDArray x = generator.normal({16, 3, 10, 10}, 0, 1), wanted = net(x);
  const QuantizeReport report = quantize(net, {x.slice(0, {0, 8}), x.slice(0, {8, 16})});
  REQUIRE(report.layers.size() == 3);
  CHECK(report.kept.empty());
  CHECK(report.layers[0].path == "0");
  CHECK(report.layers[0].layer == "Conv2d(3, 8, 3, padding 'same')");
  CHECK(report.layers[1].path == "3.0");
  CHECK(report.layers[1].zero_point == 0);  // behind a relu
  for (const QuantizeReport::Row& row : report.layers) {
    CHECK(row.error > 0);
    CHECK(row.error < 0.02);
  }
  CHECK(report.bytes_after < report.bytes_before / 2);
  CHECK(error(net(x), wanted) < 0.03);
  CHECK(net[0].to_string() == "QuantizedConv2d(3, 8, 3, padding 'same', relu)");
  CHECK(net[1].to_string() == "Identity");
  CHECK(net.parameters().empty());

  const test::TemporaryDirectory folder;
  save_model(folder.file("net"), net);
  const std::shared_ptr<Module> loaded = load_model(folder.file("net"));
  loaded->train(false);
  CHECK((*loaded)(x).to_vector<float>() == net(x).to_vector<float>());
  CHECK(loaded->state()[0].value.dtype() == DType::i8);
}

TEST_CASE("quantize: the scales are those of the inputs and weights") {
  Sequential net{Dense(2, 2, {.relu = true})};
  net.state()[0].value.detach().assign(array<float>({1, -2, 0, 0}).reshape(2, 2));
  net.state()[1].value.detach().assign(array<float>({0.5f, -1}));
  net.train(false);
  const NDArray x = array<float>({-1, 3, 0.5f, 4.1f}).reshape(2, 2);
  const QuantizeReport report = quantize(net, {x});
  CHECK(report.layers[0].scale == doctest::Approx(5.1 / 255));
  CHECK(report.layers[0].zero_point == 50);
  const auto state = net.state();
  CHECK(state[0].value.to_vector<std::int8_t>() == std::vector<std::int8_t>{64, -127, 0, 0});
  CHECK(state[1].value.to_vector<float>()[0] == doctest::Approx(2 / 127.0));
  CHECK(state[1].value.to_vector<float>()[1] == 1);
  CHECK(state[2].name == "0.bias");
  CHECK(net(zeros({1, 2})).to_vector<float>() == std::vector<float>{0.5f, 0});
}

TEST_CASE("quantize: a relu behind a folded batch norm becomes part of the layer") {
  Sequential net{Dense(4, 3), BatchNorm(3), Relu(), Dense(3, 2), Tanh()};
  net.train(false);
  fold_batch_norms(net);
  const NDArray x = Generator(8).normal({20, 4}, 0, 1), wanted = net(x);
  quantize(net, {x});
  CHECK(
      net.to_string() ==
      "Sequential{\n  QuantizedDense(4, 3, relu)\n  Identity\n  Identity\n  QuantizedDense(3, 2)\n  Tanh\n}");
  CHECK(error(net(x), wanted) < 0.03);
}

TEST_CASE("quantize: a Model of several inputs, shared layers, an operator relu") {
  Generator generator(2);
  const Symbol a = input("a", {kInferred, 6}), b = input("b", {kInferred, 6});
  const Dense shared(6, 8, {}, generator);
  const Symbol both = connect("concat", {{connect(shared, a), connect(shared, b)}, 1});
  const Symbol hidden = connect("relu", {connect(Dense(16, 12, {}, generator), both)});
  Model model({a, b}, {connect(Dense(12, 4, {}, generator), hidden), hidden});
  model.train(false);
  const NDArray x = generator.normal({20, 6}, 0, 1), y = generator.normal({20, 6}, 1, 2);
  const std::vector<NDArray> wanted = model.run({x, y});
  const QuantizeReport report = quantize(model, [&] { model.run({x, y}); });
  CHECK(report.layers.size() == 3);
  const std::vector<NDArray> found = model.run({x, y});
  CHECK(error(found[0], wanted[0]) < 0.03);
  CHECK(error(found[1], wanted[1]) < 0.03);
  CHECK(model.to_string().find("relu_0") == std::string::npos);  // part of quantized_dense_1
  const test::TemporaryDirectory folder;
  save_model(folder.file("model"), model);
  const std::shared_ptr<Module> loaded = load_model(folder.file("model"));
  loaded->train(false);
  CHECK(loaded->run({x, y})[0].to_vector<float>() == found[0].to_vector<float>());
}

TEST_CASE("quantize: what stays as it is, and why") {
  struct Own : Module {
    Dense first = child("first", Dense(4, 4));
    Sequential rest = child("rest", Sequential(Dense(4, 4)));
    NDArray forward(const NDArray& x) override { return rest(first(x)); }
  };
  Sequential net{Own(), Dense(4, 4), Dense(4, 4)};
  net.train(false);
  net[2].after_call([](const Module&, std::span<const NDArray>, std::span<NDArray>) {});
  const QuantizeReport report = quantize(net, {ones({3, 4})}, {.skip = {"1"}});
  REQUIRE(report.kept.size() == 3);
  CHECK(report.kept[0].path == "0.first");
  CHECK(report.kept[0].reason == "it is held by a class that is no Sequential and no Model");
  CHECK(report.kept[1].reason == "skipped");
  CHECK(report.kept[2].reason == "it has hooks");
  REQUIRE(report.layers.size() == 1);
  CHECK(report.layers[0].path == "0.rest.0");
  CHECK(net[1].to_string() == "Dense(4, 4)");
  CHECK(report.to_string().find("'1' stays: skipped\n") != std::string::npos);

  Generator generator(3);
  Sequential others = images_net(generator);
  others.train(false);
  const QuantizeReport strict = quantize(others, {generator.normal({4, 3, 10, 10}, 0, 1)}, {.max_error = 0});
  CHECK(strict.layers.empty());
  CHECK(strict.kept.size() == 3);
  CHECK(others[0].to_string() == "Conv2d(3, 8, 3, padding 'same')");
}

TEST_CASE("quantize: a percentile cuts off what is rare") {
  Generator generator(4);
  NDArray x = generator.normal({1000, 8}, 0, 1);
  x.slice(0, {0, 1}).fill(1000);
  Sequential by_range{Dense(8, 8, {}, generator)};
  Sequential by_percentile{Dense(8, 8)};
  by_percentile.state()[0].value.detach().assign(by_range.state()[0].value.detach());
  by_range.train(false);
  by_percentile.train(false);
  const NDArray others = x.slice(0, {1, 1000}), wanted = by_range(others);
  quantize(by_range, {x});
  const QuantizeReport report = quantize(by_percentile, {x}, {.percentile = 99.8});
  CHECK(report.layers[0].scale < 0.1);
  CHECK(error(by_percentile(others), wanted) < 0.05);
  CHECK(error(by_range(others), wanted) > 0.5);
}

TEST_CASE("quantize: bad calls are refused, and nothing changes") {
  Sequential net{Dense(3, 2), Dense(2, 2)};
  const auto refusal = [&](const std::vector<NDArray>& batches, const QuantizeOptions& options = {}) {
    return message_of<InvalidArgument>([&] { quantize(net, batches, options); });
  };
  CHECK(refusal({ones({1, 3})}) == "quantize: the module is in training mode; call net.train(false)");
  net.train(false);
  net[1].train();
  CHECK(refusal({ones({1, 3})}) == "quantize: '1' is in training mode; call net.train(false)");
  net.train(false);
  CHECK(refusal({}) == "quantize: there are no batches for calibration");
  CHECK(refusal({ones({1, 3})}, {.percentile = 40}) ==
        "quantize: percentile is 40; want more than 50, to 100");
  CHECK(refusal({ones({1, 3})}, {.max_error = -1}) == "quantize: max_error is -1; want 0 or more");
  CHECK(refusal({ones({1, 3})}, {.skip = {"7"}}) == "quantize: skip: there is no Dense or Conv '7'");
  CHECK(message_of<InvalidArgument>([&] { quantize(net, [] {}); }) ==
        "quantize: calibration has called none of the layers; want batches of examples");
  const NDArray bad = full({1, 3}, std::numeric_limits<float>::quiet_NaN(), DType::f32);
  CHECK(refusal({bad}).starts_with("quantize: the input of '0' has numbers that are NaN or infinite, from "));
  CHECK(net.to_string() == "Sequential{\n  Dense(3, 2)\n  Dense(2, 2)\n}");
  CHECK(net.parameters().size() == 4);
}

TEST_CASE("quantize: a layer alone stays, and the report says so") {
  Dense net(3, 2);
  net.train(false);
  const QuantizeReport report = quantize(net, {ones({1, 3})});
  CHECK(report.layers.empty());
  REQUIRE(report.kept.size() == 1);
  CHECK(report.kept[0].reason == "it is the whole module; put it into a Sequential");
}

TEST_CASE("quantize: an interrupted call leaves the module as it was, without hooks") {
  struct Stop {};
  for (int allowed = 0; allowed < 7;
       ++allowed) {  // two calibrations of two batches, and three times beside them
    Sequential net{Dense(3, 2), Relu()};
    net.train(false);
    int calls = 0;
    QuantizeOptions options;
    options.check_interrupt = [&] {
      if (calls++ == allowed) throw Stop();
    };
    const std::vector<NDArray> batches{ones({1, 3}), ones({1, 3}) * -2};
    CHECK_THROWS_AS(quantize(net, batches, options), Stop);
    CHECK(net.to_string() == "Sequential{\n  Dense(3, 2)\n  Relu\n}");
    const QuantizeReport report = quantize(net, batches);  // a layer with hooks would be kept
    CHECK(report.kept.empty());
    CHECK(report.layers.size() == 1);
  }
}

TEST_CASE("quantize: calls of other threads are not those of the calibration") {
  Generator generator(9);
  const NDArray x = generator.normal({8, 4});
  std::vector<float> scales;
  for (const bool busy : {false, true}) {
    Generator initial(1);
    Sequential net{Dense(4, 4, {}, initial), Relu(), Dense(4, 4, {}, initial)};
    net.train(false);
    const auto calibrate = [&] {
      std::vector<std::thread> threads;
      for (int i = 0; busy && i < 3; ++i)
        threads.emplace_back([&] {
          const NoGrad no_grad;
          for (int k = 0; k < 50; ++k) net(x * 1000);
        });
      net(x);
      for (std::thread& one : threads) one.join();
    };
    for (const QuantizeReport::Row& row : quantize(net, calibrate).layers)
      scales.push_back(static_cast<float>(row.scale));
  }
  REQUIRE(scales.size() == 4);
  CHECK(scales[0] == scales[2]);
  CHECK(scales[1] == scales[3]);
}

TEST_CASE("quantize: the same bits on every engine") {
  std::vector<std::vector<float>> results;
  for (const EngineOptions& options :
       {EngineOptions{.workers = 1}, EngineOptions{.workers = 2}, EngineOptions{.workers = 4},
        EngineOptions{.scheduler = Scheduler::naive},
        EngineOptions{.scheduler = Scheduler::fuzz, .seed = 2}}) {
    Engine engine(options);
    const EngineScope scope(engine);
    Generator generator(6);
    Sequential net = images_net(generator);
    net.train(false);
    const NDArray x = generator.normal({9, 3, 10, 10}, 0, 1);
    quantize(net, {x});
    results.push_back(net(x).to_vector<float>());
  }
  for (const auto& one : results) CHECK(one == results[0]);
}

TEST_CASE("layers of 8-bit integers are made by hand, and find their sizes") {
  QuantizedDense dense(kInferred, 3, {.relu = true});
  CHECK(dense(ones({2, 5})).shape() == Shape{2, 3});
  CHECK(dense.to_string() == "QuantizedDense(5, 3, relu)");
  CHECK(dense.parameters().empty());
  CHECK(dense.state().size() == 5);
  QuantizedConv2d conv(2, 4, 3, {.padding = 1, .groups = 2, .bias = false});
  CHECK(conv(ones({1, 2, 5, 5})).shape() == Shape{1, 4, 5, 5});
  CHECK(message_of<InvalidArgument>([] { QuantizedConv1d(2, 3, 3, {.groups = 2}); }) ==
        "QuantizedConv1d: 2 groups do not divide 3 outputs");
}
