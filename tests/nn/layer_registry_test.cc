#include <message_of.h>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <heddle/layer_registry.h>
#include <heddle/sequential.h>

#include "layer_samples.h"

using namespace heddle;
using heddle::test::message_of, heddle::test::sample_of;

TEST_CASE("each layer is described, and made with the arguments that it requires") {
  std::set<std::string> names;
  for (const LayerInfo& layer : layers()) {
    CAPTURE(layer.name);
    CHECK(names.insert(layer.name).second);
    CHECK(find_layer(layer.name) == &layer);
    CHECK(!layer.documentation.empty());
    CHECK(!layer.family.empty());
    const std::shared_ptr<Module> made = sample_of(layer);
    CHECK(made->to_string().starts_with(layer.name));
  }
  CHECK(names.count("Dense"));
  CHECK(find_layer("dense") == nullptr);
}

TEST_CASE("a layer made by name has what it was given") {
  Generator one(5), two(5);
  const auto made = make_layer("Dense", {3, 2}, {{"relu", true}, {"init", "xavier"}, {"generator", &one}});
  Dense dense(3, 2, {.relu = true, .init = Init::xavier}, two);
  CHECK(made->to_string() == dense.to_string());
  REQUIRE(made->parameters().size() == 2);
  CHECK(made->parameters()[0].value.to_vector<float>() == dense.parameters()[0].value.to_vector<float>());
  const auto bare = make_layer("Conv2d", {1, 4, 3}, {{"bias", false}, {"padding", 1}, {"stride", 2}});
  CHECK(bare->to_string() == "Conv2d(1, 4, 3, stride 2, padding 1, no bias)");
  CHECK(bare->parameters().size() == 1);
  CHECK(make_layer("MaxPool2d", {3, 2})->to_string() == "MaxPool2d(3, stride 2)");
  CHECK(make_layer("Embedding", {4, 2}, {{"stddev", 0}})->parameters()[0].value.to_vector<float>() ==
        std::vector<float>(8, 0.0f));
}

TEST_CASE("a layer made by name refuses what it does not take") {
  const auto refused = [](std::string_view name, const OperatorValues& values,
                          const std::vector<NamedValue>& named = {}) {
    return message_of<InvalidArgument>([&] { make_layer(name, values, named); });
  };
  CHECK(refused("Dens", {}) == "make_layer: there is no layer 'Dens'; layers() lists them");
  CHECK(refused("Relu", {1}) == "Relu: 1 values for 0 arguments; wanted: Relu()");
  CHECK(refused("MaxPool2d", {}) ==
        "MaxPool2d: kernel is missing; wanted: MaxPool2d(kernel, stride=0, padding=0, dilation=1, "
        "ceil_mode=False)");
  CHECK(refused("MaxPool2d", {0.5}) == "MaxPool2d: kernel is 0.5; wanted: int or list of ints");
  CHECK(refused("MaxPool2d", {0}) == "MaxPool2d: kernel is 0; want 1 or more");
  CHECK(refused("Dense", {2, 3}, {{"init", "she"}}) == "Dense: init is 'she'; wanted: 'he' or 'xavier'");
}
