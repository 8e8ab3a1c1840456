#include <files.h>
#include <map>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/layers.h>
#include <heddle/name_pattern.h>
#include <heddle/ops.h>
#include <heddle/safetensors.h>
#include <heddle/sequential.h>
#include <heddle/weights.h>

using namespace heddle;
using namespace heddle::test;

TEST_CASE("weights are loaded by name, and what did not fit is reported") {
  Sequential net{Dense(3, 2), Relu(), Dense(2, 1)};
  net(ones({1, 3}));
  std::map<std::string, NDArray> arrays = {{"0.weight", arange(0, 6, 1, DType::f64).view_as({2, 3})},
                                           {"0.bias", ones({2})},
                                           {"2.weight", ones({2, 1})},
                                           {"head.weight", ones({1})}};
  const NDArray before = net.parameters()[2].value.copy();
  const WeightReport report = load_weights(net.parameters(), arrays);
  CHECK_FALSE(report.complete());
  CHECK(report.missing == std::vector<std::string>{"2.bias"});
  CHECK(report.unexpected == std::vector<std::string>{"head.weight"});
  CHECK(report.other_shape == std::vector<std::string>{"2.weight: (2, 1), wanted (1, 2)"});
  CHECK(report.to_string() ==
        "missing: 2.bias\nunexpected: head.weight\nof another shape: 2.weight: (2, 1), wanted (1, 2)");
  CHECK(net.parameters()[0].value.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(net.parameters()[2].value.to_vector<float>() == before.to_vector<float>());
  CHECK(requires_grad(net.parameters()[0].value));
  arrays.erase("head.weight");
  arrays["2.weight"] = ones({1, 2});
  arrays["2.bias"] = zeros({1});
  CHECK(load_weights(net.parameters(), arrays).to_string() == "all weights fit");
  CHECK(net(ones({1, 3})).item<float>() == 1 + 3 + 12 + 1);
}

TEST_CASE("undefined weights are refused by name") {
  const NDArray w = ones({2});
  const std::string message =
      "load_weights: 'a': an array is undefined: made without a shape, moved from, or a gradient before "
      "backward()";
  CHECK(message_of([&] { load_weights({{"a", w}}, {{"a", NDArray()}}); }) == message);
  CHECK(message_of([&] { load_weights({{"a", NDArray()}}, {{"a", w}}); }) == message);
}

TEST_CASE("weights of other names are renamed, ignored, and refused where they do not all fit") {
  TemporaryDirectory directory;
  const std::string path = directory.file("net.safetensors");
  save_safetensors(path, {.arrays = {{"module.body.conv.weight", ones({2, 3})},
                                     {"module.body.conv.bias", full({2}, 2.0, DType::f64)},
                                     {"module.bodyguard.bias", zeros({2})},
                                     {"module.bn.num_batches_tracked", full({}, 7, DType::i64)},
                                     {"head", full({2}, 3.0)}},
                          .metadata = {}});
  Sequential net{Dense(3, 2), BatchNorm(2)};
  const WeightOptions options{.rename = {{"module", ""}, {"module.body.conv", "0"}, {"head", "1.weight"}}};
  const WeightReport report = load_weights(net, path, options);
  CHECK(report.missing == std::vector<std::string>{"1.bias", "1.running_mean", "1.running_var"});
  CHECK(report.unexpected == std::vector<std::string>{"module.bodyguard.bias, as bodyguard.bias"});
  CHECK(report.other_shape.empty());
  CHECK(net.state()[0].value.to_vector<float>() == std::vector<float>(6, 1));
  CHECK(net.state()[1].value.to_vector<float>() == std::vector<float>(2, 2));
  CHECK(net.state()[2].value.to_vector<float>() == std::vector<float>(2, 3));

  const std::map<std::string, NDArray> arrays{
      {"a.weight", zeros({2, 3})}, {"b.weight", zeros({2, 3})}, {"bias", ones({2})}};
  const auto refused = [&](const WeightOptions& with) {
    return message_of<InvalidArgument>([&] { load_weights(net.parameters(), arrays, with); });
  };
  CHECK(refused({.rename = {{"a", "0"}, {"b", "0"}}}) ==
        "load_weights: 'a.weight' and 'b.weight' are both renamed to '0.weight'");
  CHECK(refused({.rename = {{"weight", "0"}}}) ==
        "load_weights: rename has 'weight', which no name of an array begins with");
  CHECK(refused({.rename = {{"a", "0"}, {"", "0"}}, .ignore = {"b.*"}, .strict = true}) ==
        "load_weights: missing: 1.weight, 1.bias");
  CHECK(net.state()[0].value.to_vector<float>() == std::vector<float>(6, 1));
  CHECK(load_weights(net.parameters(), arrays, {.rename = {{"a", "0"}, {"", "0"}}, .ignore = {"b.*"}})
            .to_string() == "missing: 1.weight, 1.bias");
  CHECK(net.state()[0].value.to_vector<float>() == std::vector<float>(6, 0));
  CHECK(net.state()[1].value.to_vector<float>() == std::vector<float>(2, 1));
  CHECK(message_of<Error>([&] { load_weights(net, directory.file("none")); }).find("none") !=
        std::string::npos);
}

TEST_CASE("weights are exchanged between parameters, views of them too") {
  const NDArray a = arange(0, 4).view_as({2, 2}), b = arange(4, 8).view_as({2, 2});
  load_weights({{"a", a}, {"b", b}}, {{"x", a}, {"y", b.T()}}, {.rename = {{"x", "b"}, {"y", "a"}}});
  CHECK(a.astype(DType::f32).to_vector<float>() == std::vector<float>{4, 6, 5, 7});
  CHECK(b.astype(DType::f32).to_vector<float>() == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("patterns of names") {
  CHECK(fits_pattern("*", ""));
  CHECK(fits_pattern("*.b?as", "0.1.bias"));
  CHECK(fits_pattern("a*b*c", "aXbYbZc"));
  CHECK_FALSE(fits_pattern("a*b", "abc"));
  CHECK_FALSE(fits_pattern("", "a"));
  CHECK_FALSE(fits_pattern("a?", "a"));
}

TEST_CASE("load_weights: floating point does not become integers, nor integers floating point") {
  const std::vector<Parameter> parameters{
      {"a", full({2}, 5, DType::i8)}, {"b", ones({2})}, {"c", zeros({2})}, {"d", zeros({2}, DType::i64)}};
  const std::map<std::string, NDArray> arrays{{"a", full({2}, 0.3)},
                                              {"b", full({2}, 9, DType::i8)},
                                              {"c", full({2}, 2, DType::f64)},
                                              {"d", full({2}, 3, DType::i32)}};
  const WeightReport report = load_weights(parameters, arrays);
  CHECK(report.other_dtype == std::vector<std::string>{"a: f32, wanted i8", "b: i8, wanted f32"});
  CHECK(report.to_string() == "of another dtype: a: f32, wanted i8, b: i8, wanted f32");
  CHECK_FALSE(report.complete());
  CHECK(parameters[0].value.to_vector<std::int8_t>() == std::vector<std::int8_t>{5, 5});
  CHECK(parameters[1].value.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(parameters[2].value.to_vector<float>() == std::vector<float>{2, 2});
  CHECK(parameters[3].value.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 3});
}
