// Recurrent layers: their parameters, several layers and directions, states and lengths, and PyTorch's numbers.
#include <cmath>
#include <cstdint>
#include <map>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/layers.h>
#include <heddle/multiply_adds.h>
#include <heddle/recurrent.h>
#include <heddle/reduce.h>
#include <heddle/sequential.h>
#include <heddle/shape_ops.h>
#include <heddle/weights.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

// A layer from which parts can be removed, as a class of the user's may do.
template <class L> struct Opened : L {
  using L::L;
  using L::remove;
};

using Floats = std::vector<float>;

// The parameters' names and shapes.
std::vector<std::string> described(const Module& module) {
  std::vector<std::string> all;
  for (const Parameter& one : module.parameters())
    all.push_back(one.name + " " + one.value.shape().to_string());
  return all;
}

NDArray counted(const Shape& shape, DType dtype = DType::f32) {
  return reshape(arange(0, static_cast<double>(element_count(shape)), 1, dtype), shape);
}

// A weighted sum of all elements.
double weighed(const NDArray& x) {
  return static_cast<double>(sum(x * sin(counted(x.shape()) * 0.4 + 1)).item<float>());
}

struct Expected {
  std::vector<double> results;  // weighed(output), sums of parts of it, weighed(h), and weighed(c) of an Lstm
  std::vector<double> gradients;  // weighed() of each parameter's gradient, in PyTorch's order
};

// The numbers are those of PyTorch 1.13 in f64, of a module of two layers in both directions, batch_first, with packed sequences.
void check_pytorch(RecurrentLayer layer, const Expected& expected) {
  const bool has_c = expected.results.size() == 5;
  std::map<std::string, NDArray> weights;
  for (const Parameter& one : layer.parameters()) {
    const auto at = static_cast<double>(weights.size());
    weights[one.name] = sin(counted(one.value.shape()) * 0.9 + at) * 0.7;
  }
  load_weights(layer.parameters(), weights);
  const NDArray x = cos(counted({3, 4, 3}) * 0.3), h = sin(counted({4, 3, 2})) * 0.5,
                c = cos(counted({4, 3, 2})) * 0.5, lengths = array<std::int64_t>({2, 4, 3});
  const RecurrentOutput y = layer(x, {.h = h, .c = has_c ? c : NDArray(), .lengths = lengths});
  std::vector<double> results{weighed(y.output), static_cast<double>(sum(y.output[0]).item<float>()),
                              static_cast<double>(sum(y.output[1][3]).item<float>()), weighed(y.h)};
  const auto of = [](const NDArray& all) { return sum(all * sin(counted(all.shape()) * 0.4 + 1)); };
  NDArray loss = of(y.output) + of(y.h);
  if (has_c) {
    results.push_back(weighed(y.c));
    loss = loss + of(y.c);
  }
  backward(loss);
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK(results[i] == doctest::Approx(expected.results[i]).epsilon(1e-5));
  const std::vector<Parameter> parameters = layer.parameters();
  REQUIRE(parameters.size() == expected.gradients.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CAPTURE(parameters[i].name);
    CHECK(weighed(grad(parameters[i].value)) == doctest::Approx(expected.gradients[i]).epsilon(2e-5));
  }
}

}  // namespace

TEST_CASE("recurrent layers have PyTorch's parameters") {
  CHECK(described(Lstm(3, 2)) == std::vector<std::string>{"weight_ih_l0 (8, 3)", "weight_hh_l0 (8, 2)",
                                                          "bias_ih_l0 (8,)", "bias_hh_l0 (8,)"});
  CHECK(described(Gru(3, 2, {.layers = 2, .bias = false})) ==
        std::vector<std::string>{"weight_ih_l0 (6, 3)", "weight_hh_l0 (6, 2)", "weight_ih_l1 (6, 2)",
                                 "weight_hh_l1 (6, 2)"});
  CHECK(described(Rnn(3, 2, {.layers = 2, .bidirectional = true})) ==
        std::vector<std::string>{
            "weight_ih_l0 (2, 3)", "weight_hh_l0 (2, 2)", "bias_ih_l0 (2,)", "bias_hh_l0 (2,)",
            "weight_ih_l0_reverse (2, 3)", "weight_hh_l0_reverse (2, 2)", "bias_ih_l0_reverse (2,)",
            "bias_hh_l0_reverse (2,)", "weight_ih_l1 (2, 4)", "weight_hh_l1 (2, 2)", "bias_ih_l1 (2,)",
            "bias_hh_l1 (2,)", "weight_ih_l1_reverse (2, 4)", "weight_hh_l1_reverse (2, 2)",
            "bias_ih_l1_reverse (2,)", "bias_hh_l1_reverse (2,)"});
  CHECK(described(Lstm(3, 4, {.layers = 2, .bidirectional = true, .bias = false, .proj_size = 2})) ==
        std::vector<std::string>{
            "weight_ih_l0 (16, 3)", "weight_hh_l0 (16, 2)", "weight_hr_l0 (2, 4)",
            "weight_ih_l0_reverse (16, 3)", "weight_hh_l0_reverse (16, 2)", "weight_hr_l0_reverse (2, 4)",
            "weight_ih_l1 (16, 4)", "weight_hh_l1 (16, 2)", "weight_hr_l1 (2, 4)",
            "weight_ih_l1_reverse (16, 4)", "weight_hh_l1_reverse (16, 2)", "weight_hr_l1_reverse (2, 4)"});
  CHECK(described(Lstm(3, 4, {.proj_size = 2, .peepholes = true})) ==
        std::vector<std::string>{"weight_ih_l0 (16, 3)", "weight_hh_l0 (16, 2)", "bias_ih_l0 (16,)",
                                 "bias_hh_l0 (16,)", "weight_hr_l0 (2, 4)", "weight_peepholes_l0 (12,)"});
  for (const Parameter& one : Lstm(5, 16, {.layers = 2}).parameters()) {
    float most = 0;
    for (const float each : one.value.to_vector<float>()) most = std::max(most, std::abs(each));
    CHECK(most <= 0.25F);
    CHECK(most > 0.2F);
  }
  Generator one(3), two(3);
  CHECK(Gru(3, 2, {}, one).parameters()[3].value.to_vector<float>() ==
        Gru(3, 2, {}, two).parameters()[3].value.to_vector<float>());
  CHECK(Lstm(3, 2, {.layers = 2, .bidirectional = true, .dropout = 0.5}).to_string() ==
        "Lstm(3, 2, layers 2, bidirectional, dropout 0.5)");
  CHECK(Lstm(3, 2, {.last_only = true, .proj_size = 1, .peepholes = true}).to_string() ==
        "Lstm(3, 2, last_only, proj_size 1, peepholes)");
  CHECK(Gru(3, 2, {.reset_after = false}).to_string() == "Gru(3, 2, no reset_after)");
  CHECK(Rnn(3, 2, {.relu = true, .batch_first = false}).to_string() == "Rnn(3, 2, relu, no batch_first)");
}

TEST_CASE("recurrent layers compute PyTorch's numbers with its weights, and its gradients") {
  check_pytorch(Rnn(3, 2, {.layers = 2, .bidirectional = true}),
                {{-1.469729420, -0.094374125, 0.387358344, -0.971977372},
                 {-0.326626036, 0.688615263, 3.539331076, 3.539331076, 0.048140615, -1.048942799,
                  -0.627394018, -0.627394018, 0.137276520, -1.437137739, 1.985331110, 1.985331110,
                  -0.268746789, 0.927145257, -0.156763496, -0.156763496}});
  check_pytorch(Lstm(3, 2, {.layers = 2, .bidirectional = true}),
                {{-0.290366239, -0.074507787, 0.054998380, 1.551466768, 4.786074719},
                 {-1.771387750, -0.041304647, 1.644539620, 1.644539620, 0.596018610, -1.720415783,
                  1.416732933, 1.416732933, -0.027887339, -0.052204272, 0.819593588, 0.819593588,
                  -0.532664883, -0.119004273, 0.252021333, 0.252021333}});
  check_pytorch(Gru(3, 2, {.layers = 2, .bidirectional = true}),
                {{0.294332350, 0.014887585, 0.931471453, 2.524755424},
                 {0.283928812, -0.012213377, 1.095124203, 0.664383234, 2.110243906, -0.773110314,
                  -0.980437213, -0.649298594, -0.601763954, 0.064729619, -0.471451657, -0.661719025,
                  -0.715395751, 0.356706159, 0.235673320, 0.063275622}});
}

TEST_CASE("a recurrent layer is its operators, with the batch or the steps first") {
  Generator generator(1);
  Rnn steps_first(3, 2, {.layers = 2, .relu = true, .batch_first = false}, generator);
  Rnn batch_first(3, 2, {.layers = 2, .relu = true});
  const std::vector<Parameter> parameters = steps_first.parameters();
  std::map<std::string, NDArray> weights;
  for (const Parameter& one : parameters) weights[one.name] = one.value;
  load_weights(batch_first.parameters(), weights);
  const NDArray x = generator.normal({5, 4, 3});
  const auto of = [&](std::size_t layer) {
    const auto value = [&](std::size_t i) { return parameters[4 * layer + i].value; };
    return RecurrentWeights{value(0), value(1), value(2), value(3)};
  };
  const auto below = rnn(x, of(0), {}, true), above = rnn(below[0], of(1), {}, true);
  const RecurrentOutput y = steps_first(x, RecurrentStates{});
  CHECK(y.output.to_vector<float>() == above[0].to_vector<float>());
  CHECK(y.h.to_vector<float>() == stack({below[1], above[1]}).to_vector<float>());
  CHECK_FALSE(y.c.defined());
  CHECK(steps_first(x).to_vector<float>() == y.output.to_vector<float>());
  const Floats other = transpose(batch_first(transpose(x, {1, 0, 2})), {1, 0, 2}).to_vector<float>();
  const Floats one = y.output.to_vector<float>();
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == doctest::Approx(other[i]).epsilon(1e-5));
  const MultiplyAdds counted_ones;
  steps_first(x);
  CHECK(counted_ones.count() == 5 * 4 * 2 * (3 + 2) + 5 * 4 * 2 * (2 + 2));
}

TEST_CASE("a sequence in two parts, with the state of the first, is the whole sequence") {
  Generator generator(2);
  Lstm lstm(3, 4, {.layers = 2}, generator);
  const NDArray x = generator.normal({2, 6, 3});
  const RecurrentOutput whole = lstm(x, RecurrentStates{}),
                        first = lstm(x.slice(1, {0, 2}), RecurrentStates{}),
                        second = lstm(x.slice(1, {2, 6}), {.h = first.h, .c = first.c});
  CHECK(first.c.shape() == Shape{2, 2, 4});
  const Floats a = concat({first.output, second.output}, 1).to_vector<float>(),
               b = whole.output.to_vector<float>();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
  const std::vector<NDArray> run = lstm.run({x, {}, {}, array<std::int64_t>({6, 6})});
  REQUIRE(run.size() == 3);
  CHECK(run[2].shape() == Shape{2, 2, 4});
}

TEST_CASE("layers with a projection, peepholes, or the reset before the product are their operators") {
  Generator generator(3);
  const NDArray x = generator.normal({4, 5, 3}), lengths = array<std::int64_t>({5, 1, 0, 3});
  Lstm lstm_layer(3, 4, {.layers = 2, .bidirectional = true, .proj_size = 2, .peepholes = true}, generator);
  Gru gru_layer(3, 4, {.bias = false, .reset_after = false}, generator);
  const NDArray h = generator.normal({4, 4, 2}), c = generator.normal({4, 4, 4});
  const RecurrentOutput y = lstm_layer(x, {.h = h, .c = c, .lengths = lengths});
  CHECK(y.output.shape() == Shape{4, 5, 4});
  CHECK(y.h.shape() == Shape{4, 4, 2});
  CHECK(y.c.shape() == Shape{4, 4, 4});
  const std::vector<Parameter> parameters = lstm_layer.parameters();
  const auto one = [&](const NDArray& below, std::int64_t network) {
    const auto value = [&](std::size_t i) {
      return parameters[6 * static_cast<std::size_t>(network) + i].value;
    };
    const auto state = [&](const NDArray& all) { return squeeze(all.slice(0, {network, network + 1}), {0}); };
    return lstm(below, {value(0), value(1), value(2), value(3), value(4), value(5)}, state(h), state(c),
                {lengths, network % 2 == 1, true});
  };
  const auto a = one(x, 0), b = one(x, 1);
  const NDArray below = concat({a[0], b[0]}, 2);
  const auto d = one(below, 2), e = one(below, 3);
  CHECK(y.output.to_vector<float>() == concat({d[0], e[0]}, 2).to_vector<float>());
  CHECK(y.h.to_vector<float>() == stack({a[1], b[1], d[1], e[1]}).to_vector<float>());
  CHECK(y.c.to_vector<float>() == stack({a[2], b[2], d[2], e[2]}).to_vector<float>());
  const auto weight = [&](std::size_t i) { return gru_layer.parameters()[i].value; };
  CHECK(
      gru_layer(x).to_vector<float>() ==
      gru(x, {weight(0), weight(1)}, {}, {.batch_first = true, .reset_after = false})[0].to_vector<float>());
  CHECK(gru_layer(x).to_vector<float>() !=
        gru(x, {weight(0), weight(1)}, {}, {.batch_first = true})[0].to_vector<float>());
}

TEST_CASE("last_only gives the last step of each sequence, and the first one of the second direction") {
  const NDArray x = Generator(5).normal({3, 6, 2}), lengths = array<std::int64_t>({6, 2, 0});
  const auto check = [&](auto all, auto last, std::int64_t units) {
    const std::vector<Parameter> from = all.parameters();
    std::map<std::string, NDArray> weights;
    for (const Parameter& one : from) weights[one.name] = one.value;
    load_weights(last.parameters(), weights);
    const bool both = from.back().name.ends_with("_reverse");
    for (const NDArray& given : {NDArray(), lengths}) {
      const RecurrentOutput whole = all(x, {.lengths = given}), found = last(x, {.lengths = given});
      CHECK(found.h.to_vector<float>() == whole.h.to_vector<float>());
      CHECK(found.output.shape() == Shape{3, both ? 2 * units : units});
      const std::vector<std::int64_t> counts =
          given.defined() ? given.to_vector<std::int64_t>() : std::vector<std::int64_t>(3, 6);
      for (std::int64_t n = 0; n < 3; ++n) {
        const std::int64_t count = counts[static_cast<std::size_t>(n)];
        const auto at = [&](std::int64_t step, std::int64_t direction) {
          if (count == 0) return Floats(static_cast<std::size_t>(units), 0);
          return whole.output[n][step]
              .slice(0, {direction * units, (direction + 1) * units})
              .template to_vector<float>();
        };
        Floats wanted = at(count - 1, 0);
        if (both)
          for (const float each : at(0, 1)) wanted.push_back(each);
        CHECK(found.output[n].template to_vector<float>() == wanted);
      }
    }
    backward(sum(square(last(x))));
    for (const Parameter& one : last.parameters()) CHECK(grad(one.value).defined());
  };
  check(Rnn(2, 3), Rnn(2, 3, {.last_only = true}), 3);
  check(Gru(2, 3, {.layers = 2, .bidirectional = true}),
        Gru(2, 3, {.layers = 2, .bidirectional = true, .last_only = true}), 3);
  check(Lstm(2, 3, {.bidirectional = true, .proj_size = 2}),
        Lstm(2, 3, {.bidirectional = true, .last_only = true, .proj_size = 2}), 2);
  Sequential net{Lstm(kInferred, 4), Lstm(kInferred, 4, {.bidirectional = true, .last_only = true}),
                 Dense(kInferred, 2)};
  CHECK(net(x).shape() == Shape{3, 2});
  CHECK(Rnn(2, 3, {.batch_first = false, .last_only = true})(x).shape() == Shape{6, 3});
}

TEST_CASE("sizes that are inferred, layers by name, and a recurrent layer inside a network") {
  Sequential net{Gru(kInferred, 4, {.layers = 2, .bidirectional = true}), Dense(kInferred, 1)};
  const NDArray y = net(ones({2, 5, 3}));
  CHECK(y.shape() == Shape{2, 5, 1});
  CHECK(net.parameters().size() == 18);
  CHECK(net.parameters()[8].value.shape() == Shape{12, 8});
  backward(sum(y));
  for (const Parameter& one : net.parameters()) CHECK(grad(one.value).defined());
  const auto named = make_layer("Lstm", {OperatorValue(), 4}, {{"bidirectional", true}});
  CHECK((*named)(ones({2, 5, 3})).shape() == Shape{2, 5, 8});
  CHECK(named->to_string() == "Lstm(3, 4, bidirectional)");
}

TEST_CASE("dropout is between layers, in training alone") {
  Generator generator(4);
  Gru once(3, 8, {.dropout = 0.5}, generator), twice(3, 8, {.layers = 2, .dropout = 0.5}, generator);
  const NDArray x = generator.normal({2, 4, 3});
  CHECK(once(x).to_vector<float>() == once(x).to_vector<float>());
  CHECK(twice(x).to_vector<float>() != twice(x).to_vector<float>());
  twice.train(false);
  CHECK(twice(x).to_vector<float>() == twice(x).to_vector<float>());
}

TEST_CASE("recurrent layers refuse what does not fit") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  Opened<Lstm> lstm(3, 2, {.layers = 2});
  const NDArray x = ones({4, 5, 3});
  CHECK(why([&] {
          lstm(ones({4, 3}));
        }) == "Lstm(3, 2, layers 2): the input is f32 (4, 3), wanted is (batch, steps, 3)");
  CHECK(why([&] {
          lstm(x, {.h = ones({4, 2})});
        }) == "Lstm(3, 2, layers 2): h is f32 (4, 2), wanted is (networks, batch, 2)");
  CHECK(why([&] {
          lstm(x, {.h = ones({1, 4, 2})});
        }) == "Lstm(3, 2, layers 2): h is f32 (1, 4, 2), wanted is (2, 4, 2)");
  CHECK(why([&] {
          lstm(x, {.c = ones({2, 5, 2})});
        }) == "Lstm(3, 2, layers 2): c is f32 (2, 5, 2), wanted is (2, 4, 2)");
  CHECK(why([&] {
          lstm(x, {.lengths = ones({3}, DType::i64)});
        }).find("lstm: lengths are i64 (3,); want integers (4,)") != std::string::npos);
  CHECK(why([&] { Gru(3, 2)(x, {.c = ones({1, 4, 2})}); }) == "Gru(3, 2): c is given; only an Lstm has it");
  CHECK(why([&] { Lstm(3, 4, {.proj_size = 4}); }) ==
        "Lstm: proj_size is 4; want 0, for none, or less than hidden_size, 4");
  CHECK(why([&] { Lstm(3, 4, {.proj_size = -1}); }) == "Lstm: proj_size is -1; want 0 or more");
  CHECK(why([&] {
          Lstm(3, 4, {.proj_size = 2})(x, {.h = ones({1, 4, 4})});
        }) == "Lstm(3, 4, proj_size 2): h is f32 (1, 4, 4), wanted is (networks, batch, 2)");
  CHECK(why([&] {
          Lstm(3, 4, {.proj_size = 2})(x, {.c = ones({1, 4, 2})});
        }) == "Lstm(3, 4, proj_size 2): c is f32 (1, 4, 2), wanted is (networks, batch, 4)");
  CHECK(why([&] { Gru(3, 2, {.dropout = 1}); }) == "Gru: dropout is 1; want 0 or more, and less than 1");
  CHECK(why([&] { Rnn(3, 2, {.layers = 0}); }) == "Rnn: layers is 0; want 1 or more");
  CHECK(why([&] { Rnn(3, 0); }) == "Rnn: hidden_size is 0; want 1 or more");
  CHECK(why([&] { Rnn(1, 1, {.layers = std::int64_t{1} << 40}); }) ==
        "Rnn: layers is 1099511627776; want 1 to 1000");
  CHECK(why([&] { Lstm(1, std::int64_t{1} << 61); }) ==
        "Lstm: hidden_size is 2305843009213693952; the size of an array does not fit 64 bits");
  CHECK(why([&] {
          Lstm(3, 2, {.batch_first = false})(ones({4, 3}));
        }) == "Lstm(3, 2, no batch_first): the input is f32 (4, 3), wanted is (steps, batch, 3)");
  lstm.remove("weight_hh_l0");
  CHECK(why([&] { lstm(x); }) == "Lstm(3, 2, layers 2): has no 'weight_hh_l0'; it was removed");
  Opened<Gru> open(kInferred, 2);
  open.remove("weight_hh_l0");
  CHECK(why([&] { open(x); }) == "Gru(3, 2): has no 'weight_hh_l0'; it was removed");
  Opened<Gru> plain(3, 2);
  plain.remove("bias_hh_l0");
  CHECK(plain(x).shape() == Shape{4, 5, 2});
}

TEST_CASE("a first call that fails finds no sizes") {
  Generator one(7), two(7);
  Lstm lstm(kInferred, 4, {}, one);
  const auto fails = [&](const auto& call) {
    CHECK(message_of<Error>(call) != "");
    CHECK(lstm.to_string() == "Lstm(None, 4)");
    CHECK(message_of<Error>([&] { lstm.parameters(); }).find("has no shape before") != std::string::npos);
  };
  const NDArray x = ones({2, 5, 3});
  fails([&] { lstm(ones({2, 5, 7}, DType::i64)); });
  fails([&] { lstm(ones({2, 5, 7}), {.h = ones({1, 3, 4})}); });
  fails([&] { lstm(ones({2, 5, 7}), {.h = ones({2, 4})}); });
  fails([&] { lstm(ones({2, 5, 7}), {.lengths = ones({2})}); });
  CHECK(lstm(x).shape() == Shape{2, 5, 4});
  CHECK(lstm.to_string() == "Lstm(3, 4)");
  // What a failed call drew does not count.
  Lstm other(kInferred, 4, {}, two);
  other(x);
  CHECK(lstm.parameters()[0].value.to_vector<float>() == other.parameters()[0].value.to_vector<float>());

  GroupNorm groups(2, kInferred);
  CHECK(message_of<Error>([&] { groups(ones({1, 3, 4})); }) != "");
  CHECK(groups.to_string() == "GroupNorm(2, None)");
  CHECK(groups(ones({1, 4, 4})).shape() == Shape{1, 4, 4});
  CHECK(groups.to_string() == "GroupNorm(2, 4)");
  CHECK(message_of<InvalidArgument>([] { GroupNorm(2, 3); }) ==
        "GroupNorm: channels is 3; want a multiple of groups, 2");
}
