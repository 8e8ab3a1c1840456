// Weights of small magnitude that become 0, and stay so.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/engine.h>
#include <heddle/fold_batch_norms.h>
#include <heddle/layers.h>
#include <heddle/ops.h>
#include <heddle/pruning.h>
#include <heddle/sequential.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

Sequential small_net(Generator& generator) {
  return Sequential{Conv2d(4, 8, 3, {}, generator), BatchNorm(8), Flatten(), Dense(8, 5, {}, generator)};
}

std::map<std::string, std::vector<float>> values_of(const Module& net) {
  std::map<std::string, std::vector<float>> all;
  for (const Parameter& one : net.state()) all[one.name] = one.value.detach().to_vector<float>();
  return all;
}

std::int64_t zeros_in(const std::vector<float>& values) {
  return std::count(values.begin(), values.end(), 0.0f);
}

}  // namespace

TEST_CASE("Pruning: the smallest weights of all arrays together become 0") {
  Generator generator(1);
  Sequential net = small_net(generator);
  const auto before = values_of(net);
  const Pruning pruning(net, {.sparsity = 0.75});
  const auto after = values_of(net);
  std::vector<float> magnitudes;
  for (const char* name : {"0.weight", "3.weight"})
    for (const float one : before.at(name)) magnitudes.push_back(std::abs(one));
  std::sort(magnitudes.begin(), magnitudes.end());
  const float least = magnitudes[magnitudes.size() * 3 / 4];
  for (const char* name : {"0.weight", "3.weight"})
    for (std::size_t i = 0; i < before.at(name).size(); ++i)
      CHECK(after.at(name)[i] == (std::abs(before.at(name)[i]) < least ? 0.0f : before.at(name)[i]));
  CHECK(after.at("0.bias") == before.at("0.bias"));
  CHECK(after.at("1.weight") == before.at("1.weight"));
  const PruningReport report = pruning.report();
  REQUIRE(report.rows.size() == 2);
  CHECK(report.rows[0].path == "0.weight");
  CHECK(report.size() == 8 * 4 * 9 + 8 * 5);
  CHECK(report.zeros() == report.size() * 3 / 4);
  CHECK(report.sparsity() == 0.75);
  CHECK(report.to_string().find(" 75.0 % of 328 are 0: all\n") != std::string::npos);
}

TEST_CASE("Pruning: of each array as many, or of neighbours along the inputs") {
  Generator generator(2);
  Sequential net = small_net(generator);
  const PruningReport each = prune(net, {.sparsity = 0.5, .global = false});
  for (const PruningReport::Row& row : each.rows) CHECK(row.zeros == row.size / 2);

  Sequential other = small_net(generator);
  const auto before = values_of(other);
  prune(other, {.keep = 2, .of = 4});
  const auto after = values_of(other);
  for (std::size_t out = 0; out < 8; ++out)
    for (std::size_t tap = 0; tap < 9; ++tap) {  // (8, 4, 3, 3)
      std::vector<float> magnitudes;
      for (std::size_t in = 0; in < 4; ++in)
        magnitudes.push_back(std::abs(before.at("0.weight")[(out * 4 + in) * 9 + tap]));
      std::sort(magnitudes.begin(), magnitudes.end());
      for (std::size_t in = 0; in < 4; ++in) {
        const std::size_t i = (out * 4 + in) * 9 + tap;
        const float was = before.at("0.weight")[i];
        CHECK(after.at("0.weight")[i] == (std::abs(was) >= magnitudes[2] ? was : 0.0f));
      }
    }
  CHECK(zeros_in(after.at("3.weight")) == 20);
}

TEST_CASE("Pruning: what was 0 stays 0 in a training, in a loop and in a captured graph") {
  Generator generator(3);
  Sequential net = small_net(generator);
  Pruning pruning(net, {.sparsity = 0.6});
  for (int i = 0; i < 3; ++i) {
    for (const Parameter& one : net.parameters())
      one.value.detach().assign(one.value.detach() + generator.normal(one.value.shape(), 0, 1));
    CHECK(pruning.report().sparsity() < 0.01);
    pruning.apply();
    CHECK(pruning.report().zeros() == std::llround(0.6 * 328));
  }
  pruning.prune(0.8);  // what is 0 is chosen first
  const std::int64_t zeros = pruning.report().zeros();
  CHECK(zeros == std::llround(0.8 * 328));
  pruning.prune(0.8);
  CHECK(pruning.report().zeros() == zeros);
}

TEST_CASE("Pruning: masks are saved, and found again in a pruned network") {
  Generator generator(4);
  Sequential net = small_net(generator);
  const Pruning pruning(net, {.sparsity = 0.7});
  Pruning again(net, {.sparsity = 0});
  CHECK(count_nonzero(again.masks()[0].value).item<std::int64_t>() == 288);
  again.keep_zeros();
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(again.masks()[i].value.to_vector<float>() == pruning.masks()[i].value.to_vector<float>());
  Pruning third(net, {.sparsity = 0});
  CHECK(third.state().at("0.weight").dtype() == DType::boolean);
  third.set_state(pruning.state());
  CHECK(third.masks()[1].value.to_vector<float>() == pruning.masks()[1].value.to_vector<float>());
  std::map<std::string, NDArray> bad = pruning.state();
  bad["x"] = ones({1});
  CHECK(message_of<InvalidArgument>([&] { third.set_state(bad); }) == "Pruning::set_state: what is 'x'?");
  bad.erase("x");
  bad["3.weight"] = ones({2});
  CHECK(message_of<InvalidArgument>([&] { third.set_state(bad); }) ==
        "Pruning::set_state: the mask '3.weight' is (2,); want (5, 8)");
  bad.erase("3.weight");
  CHECK(message_of<InvalidArgument>([&] { third.set_state(bad); }) ==
        "Pruning::set_state: the mask '3.weight' is missing");
}

TEST_CASE("Pruning: recurrent layers and attention are pruned, embeddings are not; others by name") {
  Sequential net{Embedding(10, 8), Lstm(8, 6), TransformerBlock(6, 2)};
  std::vector<std::string> names;
  for (const PruningReport::Row& row : prune(net).rows) names.push_back(row.path);
  CHECK(std::find(names.begin(), names.end(), "0.weight") == names.end());
  CHECK(std::count_if(names.begin(), names.end(),
                      [](const std::string& one) { return one.starts_with("1."); }) == 2);
  CHECK(names.size() > 5);
  for (const std::string& one : names) CHECK(one.find("bias") == std::string::npos);
  CHECK(prune(net, {.only = {"0.weight"}}).rows.size() == 1);
  struct Own : Module {
    NDArray gain = parameter("gain", ones({4, 4}));
  };
  Own own;
  CHECK(message_of<InvalidArgument>([&] { prune(own); }) ==
        "Pruning: there are no weights of the library's layers; name some in `only`");
  CHECK(prune(own, {.only = {"gain"}}).sparsity() == 0.5);
}

TEST_CASE("Pruning: sparsities of 0 and 1, equal weights, every engine") {
  std::vector<std::vector<float>> results;
  for (const EngineOptions& options : {EngineOptions{.workers = 1}, EngineOptions{.workers = 4},
                                       EngineOptions{.scheduler = Scheduler::naive},
                                       EngineOptions{.scheduler = Scheduler::fuzz, .seed = 1}}) {
    Engine engine(options);
    const EngineScope scope(engine);
    Generator generator(5);
    Sequential net = small_net(generator);
    net.state()[0].value.detach().fill(0.5);
    prune(net, {.sparsity = 0.3});
    results.push_back(values_of(net).at("0.weight"));
    CHECK(prune(net, {.sparsity = 0}).sparsity() > 0.29);
    CHECK(prune(net, {.sparsity = 1}).sparsity() == 1);
  }
  for (const auto& one : results) CHECK(one == results[0]);
}

TEST_CASE("Pruning: bad options are refused") {
  Sequential net{Dense(3, 2)};
  const auto refusal = [&](const PruningOptions& options) {
    return message_of<InvalidArgument>([&] { prune(net, options); });
  };
  CHECK(refusal({.sparsity = 1.5}) == "Pruning: sparsity is 1.5; want 0 to 1");
  CHECK(refusal({.keep = 5, .of = 4}) == "Pruning: keep is 5 of 4; want 0 to `of`, which is 1 or more");
  CHECK(refusal({.keep = 2, .of = 4}) ==
        "Pruning: '0.weight' is (2, 3); want a multiple of 4 along axis 1, or other paths in `only`");
  CHECK(refusal({.only = {"1.weight"}}) == "Pruning: only: there is no parameter '1.weight'");
  CHECK(refusal({.only = {"0.weight", "0.weight"}}) == "Pruning: only: '0.weight' is listed twice");
  Sequential unknown{Dense(kInferred, 2)};
  for (const std::vector<std::string>& only : {std::vector<std::string>{}, {"0.weight"}})
    CHECK(message_of<InvalidArgument>([&] { prune(unknown, {.only = only}); }) ==
          "Pruning: '0.weight' has no shape before the first call of its layer; call the module once");
}

TEST_CASE("sparsity grows fast at first") {
  const GradualSparsity gradual{.final_sparsity = 0.8, .initial_sparsity = 0.2, .begin = 10, .end = 30};
  CHECK(gradual.at(0) == 0);
  CHECK(gradual.at(10) == 0.2);
  CHECK(gradual.at(20) == doctest::Approx(0.8 - 0.6 * 0.125));
  CHECK(gradual.at(30) == 0.8);
  CHECK(gradual.at(99) == 0.8);
}

TEST_CASE("Pruning: of neighbours along the inputs, in a transposed convolution in each group") {
  Generator generator(5);
  Sequential net{ConvTranspose2d(8, 4, 1, {.groups = 2}, generator)};  // (8, 2, 1, 1)
  const NDArray weight = net.parameters()[0].value;
  const std::vector<float> before = weight.detach().to_vector<float>();
  prune(net, {.keep = 1, .of = 4});
  const std::vector<float> after = weight.detach().to_vector<float>();
  for (std::size_t group = 0; group < 2; ++group)
    for (std::size_t out = 0; out < 2; ++out) {
      float largest = 0;
      for (std::size_t in = 0; in < 4; ++in)
        largest = std::max(largest, std::abs(before[(group * 4 + in) * 2 + out]));
      for (std::size_t in = 0; in < 4; ++in) {
        const std::size_t i = (group * 4 + in) * 2 + out;
        CHECK(after[i] == (std::abs(before[i]) == largest ? before[i] : 0.0f));
      }
    }
  CHECK(
      message_of<InvalidArgument>([&] { prune(net, {.keep = 2, .of = 8}); }) ==
      "Pruning: '0.weight' is (8, 2, 1, 1); want a multiple of 8 along axis 0 in each of 2 groups, or other "
      "paths in `only`");
}

TEST_CASE("Pruning: infinite and NaN weights go last, and become 0 with the rest") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Sequential net{Dense(5, 1)};
  const NDArray weight = net.parameters()[0].value;
  weight.detach().assign(array({{nan, 0.5f, -inf, 2.0f, -1.0f}}));
  Pruning pruning(net, {.sparsity = 0.6});
  std::vector<float> values = weight.detach().to_vector<float>();
  CHECK(std::isnan(values[0]));
  CHECK(values[2] == -inf);
  CHECK(zeros_in(values) == 3);
  pruning.prune(0.8);  // of those that are not finite the one in front
  values = weight.detach().to_vector<float>();
  CHECK(values[2] == -inf);
  CHECK(zeros_in(values) == 4);
  weight.detach().assign(array({{inf, nan, 3.0f, nan, -inf}}));
  pruning.apply();
  CHECK(weight.detach().to_vector<float>() == std::vector<float>{0, 0, 3, 0, 0});
}

TEST_CASE("Pruning: the masks are those of a stable sort, with many equal weights") {
  Generator generator(6);
  const NDArray values = generator.integers({40, 50}, -4, 5).astype(DType::f32);
  const std::vector<float> before = values.to_vector<float>();
  std::vector<std::size_t> order(before.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(before[a]) < std::abs(before[b]); });
  for (const double sparsity : {0.0, 0.0005, 0.1, 0.3337, 0.5, 0.9, 0.9995, 1.0}) {
    Sequential net{Dense(50, 40)};
    net.parameters()[0].value.detach().assign(values);
    const Pruning pruning(net, {.sparsity = sparsity});
    std::vector<float> wanted(before.size(), 1);
    for (long i = 0; i < std::llround(sparsity * 2000); ++i) wanted[order[static_cast<std::size_t>(i)]] = 0;
    CHECK(pruning.masks()[0].value.to_vector<float>() == wanted);
  }
}

TEST_CASE("Pruning: masks that are none are refused, and replaced layers are found") {
  Generator generator(7);
  Sequential net{Dense(4, 4, {}, generator), BatchNorm(4)};
  Pruning pruning(net, {.sparsity = 0.5});
  const std::vector<float> mask = pruning.masks()[0].value.to_vector<float>();
  CHECK(message_of<InvalidArgument>([&] {
          pruning.set_state({{"0.weight", full({4, 4}, 0.3)}});
        }) == "Pruning::set_state: the mask '0.weight' is f32; want bool, as state() has it");
  CHECK(pruning.masks()[0].value.to_vector<float>() == mask);
  CHECK(pruning.missing_in(net).empty());
  net.train(false);
  fold_batch_norms(net);
  CHECK(pruning.missing_in(net) == "0.weight");
}

TEST_CASE("masks follow weights that a module has moved, those of copies too") {
  Sequential net{Dense(4, 4), Dense(4, 2)};
  Pruning pruning(net, {.sparsity = 0.5}), copy = pruning;
  net.to(cpu(1));
  for (const Parameter& one : net.parameters()) one.value.detach().fill(1);
  pruning.apply();
  CHECK(pruning.report().sparsity() == 0.5);
  for (const Parameter& one : copy.masks()) CHECK(one.value.device() == cpu(1));
  pruning.prune(0.75);
  CHECK(sum(copy.masks()[0].value).item<float>() + sum(copy.masks()[1].value).item<float>() == 6);
}
