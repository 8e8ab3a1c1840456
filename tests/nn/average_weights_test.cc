// Moving averages of parameters.
#include <algorithm>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/average_weights.h>
#include <heddle/ops.h>
#include <heddle/random.h>
#include <heddle/sequential.h>

using namespace heddle;
using namespace heddle::test;

namespace {

std::vector<Parameter> parameters_of(Generator& generator, DType dtype = DType::f64) {
  std::vector<Parameter> all;
  for (const auto& [name, shape] : {std::pair("a", Shape{40'000}), std::pair("b", Shape{}),
                                    std::pair("c", Shape{0}), std::pair("d", Shape{3, 4})}) {
    NDArray value = generator.normal(shape, 0, 1, dtype);
    set_requires_grad(value);
    all.push_back({name, value});
  }
  return all;
}

void change(const std::vector<Parameter>& parameters, Generator& generator) {
  for (const Parameter& parameter : parameters)
    parameter.value.detach().assign(generator.normal(parameter.value.shape(), 0, 1, parameter.value.dtype()));
}

std::vector<double> all_of(const std::vector<Parameter>& parameters) {
  std::vector<double> all;
  for (const Parameter& parameter : parameters)
    for (const double one : parameter.value.detach().astype(DType::f64).to_vector<double>())
      all.push_back(one);
  return all;
}

}  // namespace

TEST_CASE("averages follow the parameters by their formula") {
  for (const bool warm_up : {false, true}) {
    Generator generator(1);
    const std::vector<Parameter> parameters = parameters_of(generator);
    AverageWeights average(parameters, {.decay = 0.75, .warm_up = warm_up});
    std::vector<double> expected = all_of(parameters);
    CHECK(all_of(average.averages()) == expected);
    for (int n = 0; n < 50; ++n) {
      change(parameters, generator);
      average.update();
      const double decay = warm_up ? std::min(0.75, (1.0 + n) / (10 + n)) : 0.75;
      const std::vector<double> now = all_of(parameters);
      for (std::size_t i = 0; i < now.size(); ++i) expected[i] = decay * expected[i] + (1 - decay) * now[i];
    }
    const std::vector<double> got = all_of(average.averages());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
    CHECK(worst < 1e-13);
    CHECK(average.state().at("updates").item<std::int64_t>() == 50);
  }
}

TEST_CASE("parameters compute with the averages for a while") {
  Generator generator(2);
  const std::vector<Parameter> parameters = parameters_of(generator, DType::f32);
  AverageWeights average(parameters);
  change(parameters, generator);
  average.update();
  const std::vector<double> own = all_of(parameters), averages = all_of(average.averages());
  {
    const UseAverages now(average);
    CHECK(average.swapped());
    CHECK(all_of(parameters) == averages);
    CHECK(all_of(average.averages()) == own);
    CHECK(message_of<InvalidArgument>([&] { average.update(); }) ==
          "AverageWeights::update: the parameters have the averages' values; swap() back before");
    CHECK_THROWS_AS(average.state(), InvalidArgument);
    CHECK_THROWS_AS(UseAverages again(average), InvalidArgument);
  }
  CHECK_FALSE(average.swapped());
  CHECK(all_of(parameters) == own);
  CHECK(all_of(average.averages()) == averages);
}

TEST_CASE("saved averages go on with the same bits") {
  Generator generator(3);
  const std::vector<Parameter> parameters = parameters_of(generator);
  AverageWeights straight(parameters, {.warm_up = true}), resumed(parameters, {.warm_up = true});
  for (int n = 0; n < 3; ++n) {
    change(parameters, generator);
    straight.update();
  }
  resumed.set_state(straight.state());
  change(parameters, generator);
  straight.update();
  resumed.update();
  CHECK(all_of(straight.averages()) == all_of(resumed.averages()));
  const auto why = [&](std::map<std::string, NDArray> state) {
    return message_of<InvalidArgument>([&] { resumed.set_state(state); });
  };
  std::map<std::string, NDArray> state = straight.state();
  state["average.d"] = ones({4, 3}, DType::f64);
  CHECK(why(state) == "AverageWeights::set_state: 'average.d' is f64 (4, 3); want f64 (3, 4)");
  state.erase("average.d");
  CHECK(why(state) == "AverageWeights::set_state: 'average.d' is missing");
  state = straight.state();
  state["more"] = ones({1});
  CHECK(why(state) == "AverageWeights::set_state: what is 'more'?");
}

TEST_CASE("what cannot be averaged is refused") {
  const auto why = [](const std::vector<Parameter>& parameters, const AverageOptions& options = {}) {
    return message_of<InvalidArgument>([&] { AverageWeights average(parameters, options); });
  };
  CHECK(why({}) == "AverageWeights: there are no parameters");
  CHECK(why({{"w", NDArray()}}) == "AverageWeights: parameter 'w' is an undefined array");
  CHECK(why({{"w", ones({2}, DType::i64)}}) == "AverageWeights: parameter 'w' is i64; want f32 or f64");
  CHECK(why({{"w", ones({2})}, {"w", ones({2})}}) == "AverageWeights: two parameters are called 'w'");
  CHECK(why({{"w", ones({2, 3}).permuted({1, 0})}}) == "AverageWeights: parameter 'w' is not contiguous");
  CHECK(why({{"w", ones({2})}}, {.decay = 1}) == "AverageWeights: decay must be in [0, 1), not 1");
}

TEST_CASE("averages follow parameters that a module has moved, all of them") {
  std::vector<std::vector<double>> results;
  for (const bool moves : {false, true}) {
    manual_seed(1);
    Sequential net{Dense(3, 4), Dense(4, 2)};
    AverageWeights average(net.parameters(), {.decay = 0.5});
    const auto step = [&] {
      for (const Parameter& one : net.parameters()) one.value.detach().assign(one.value.detach() + 1);
      average.update();
    };
    step();
    if (moves) net.to(cpu(1));
    step();
    {
      const UseAverages now(average);
      for (const Parameter& one : average.averages())
        CHECK(one.value.device() == net.parameters()[0].value.device());
      results.push_back(all_of(net.parameters()));
    }
    if (moves) net.to(cpu());
    average.swap(), average.swap();
    results.push_back(all_of(average.averages()));
    net.children()[1].module->to(cpu(1));
    CHECK(message_of<InvalidArgument>([&] { average.update(); }) ==
          "AverageWeights::update: parameter '1.weight' is on cpu(1), '0.weight' on cpu(0); want all on one "
          "device");
  }
  CHECK(results[2] == results[0]);
  CHECK(results[3] == results[1]);
}
