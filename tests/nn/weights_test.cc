#include <map>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/layers.h>
#include <heddle/ops.h>
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
