// recompute(): the same training, bit for bit, in less memory.
#include <functional>
#include <memory>
#include <message_of.h>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autocast.h>
#include <heddle/graph.h>
#include <heddle/layers.h>
#include <heddle/memory_report.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;
using Bits = std::vector<std::vector<float>>;

const std::vector<EngineOptions> kEngines{{.workers = 1},
                                          {.workers = 2},
                                          {.workers = 4},
                                          {.scheduler = Scheduler::naive},
                                          {.scheduler = Scheduler::fuzz, .seed = 1}};

// Parameters after some steps of gradient descent, statistics, and what the next random numbers are.
Bits trained(Module& net, const std::function<NDArray(const NDArray&)>& forward, const NDArray& x,
             int steps) {
  Bits all;
  for (int step = 0; step < steps; ++step) {
    const NDArray loss = mean(square(forward(x)));
    backward(loss);
    all.push_back(loss.detach().to_vector<float>());
    for (const Parameter& parameter : net.parameters()) {
      NDArray value = parameter.value.detach();
      value -= grad(parameter.value) * 0.1;
      clear_grad(parameter.value);
    }
  }
  for (const Parameter& one : net.state()) all.push_back(one.value.detach().to_vector<float>());
  all.push_back(default_generator().uniform({4}).to_vector<float>());
  return all;
}

Sequential stage(std::int64_t features) {
  return Sequential{Dense(features, features, {.relu = true}), Dropout(0.3), BatchNorm(features),
                    Dense(features, features), AlphaDropout(0.1)};
}

struct Net : Module {
  Sequential first = child("first", stage(16)), second = child("second", stage(16));
};

// The state of a module is there twice: once for each way to train.
Bits run(int how, const EngineOptions& options, DType precision = DType::f32) {
  Engine engine(options);
  const EngineScope scope(engine);
  manual_seed(7);
  Net net;
  const NDArray x = default_generator().normal({24, 16});
  const auto both = [&](const NDArray& given) { return net.second(net.first(given)); };
  const auto each = [&](const NDArray& given) { return recompute(net.second)(recompute(net.first)(given)); };
  const auto nested = [&](const NDArray& given) { return recompute(each)(given); };
  const std::vector<std::function<NDArray(const NDArray&)>> ways{both, each, nested};
  const auto cast = [&](const NDArray& given) {
    const Autocast autocast(precision);  // around the forward pass alone
    return ways[static_cast<std::size_t>(how)](given).astype(DType::f32);
  };
  return trained(net, cast, x, 4);
}

}  // namespace

TEST_CASE("recompute: the same bits with dropout and batch normalisation, nested too, with every scheduler") {
  const Bits plain = run(0, {.workers = 2});
  for (const EngineOptions& options : kEngines) {
    CAPTURE(options.workers);
    CHECK(run(0, options) == plain);
    CHECK(run(1, options) == plain);
    CHECK(run(2, options) == plain);
  }
}

TEST_CASE("recompute: the second run has the precision of the first one") {
  const Bits plain = run(0, {.workers = 2}, DType::bf16);
  CHECK(plain != run(0, {.workers = 2}));
  CHECK(run(1, {.workers = 2}, DType::bf16) == plain);
  CHECK(run(2, {.workers = 2}, DType::bf16) == plain);
}

TEST_CASE(
    "recompute: several inputs and outputs, of which some are not used, and inputs without a gradient") {
  const auto gradients = [](bool again, bool all_outputs) {
    Generator numbers(1);
    NDArray a = numbers.normal({8, 8}), b = numbers.normal({8, 8}), w = numbers.normal({8, 8});
    const NDArray c = numbers.normal({8, 8});
    for (NDArray* leaf : {&a, &b, &w}) set_requires_grad(*leaf);
    const auto function = [&](const Arrays& in) -> Arrays {
      const NDArray h = matmul(in[0], w) * in[1];
      return {tanh(h), h + in[2], argmax(h, 0), in[2] * 2, exp(in[1])};
    };
    const Arrays inputs{a * 2, b, c};
    const Arrays out = again ? recompute(Recomputed::Function(function)).run(inputs) : function(inputs);
    CHECK(requires_grad(out[0]));
    CHECK_FALSE(requires_grad(out[2]));
    CHECK_FALSE(requires_grad(out[3]));
    const NDArray loss = all_outputs ? sum(out[0] * out[1]) + sum(out[4]) : sum(out[1] * out[3]);
    backward(loss);
    return Bits{grad(a).to_vector<float>(), grad(b).to_vector<float>(), grad(w).to_vector<float>(),
                out[3].to_vector<float>()};
  };
  CHECK(gradients(true, true) == gradients(false, true));
  CHECK(gradients(true, false) == gradients(false, false));
}

TEST_CASE("recompute: grad(), kept tapes and hooks see what they see without it") {
  Dense layer(4, 4);
  NDArray x = Generator(2).normal({3, 4});
  set_requires_grad(x);
  const NDArray weight = layer.parameters()[0].value;
  int calls = 0;
  on_gradient(weight, [&](const NDArray& gradient) { return ++calls, gradient * 2; });
  const NDArray plain = sum(square(layer(x))), again = sum(square(recompute(layer)(x)));
  const Arrays expected = grad({plain}, {x, weight}, {.keep_tape = true});
  CHECK(calls == 1);
  for (int i = 0; i < 2; ++i) {
    const Arrays found = grad({again}, {x, weight}, {.keep_tape = true});
    CHECK(found[0].to_vector<float>() == expected[0].to_vector<float>());
    CHECK(found[1].to_vector<float>() == expected[1].to_vector<float>());
  }
  CHECK(calls == 3);
  CHECK_FALSE(grad(weight).defined());
  backward(again);
  CHECK(calls == 4);
  CHECK(grad(weight).to_vector<float>() == expected[1].to_vector<float>());
}

TEST_CASE("recompute: in captured graphs each launch has new random numbers, the same in both runs") {
  const auto program = [](bool again, bool captured, int workers) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    manual_seed(3);
    NDArray w = ones({32, 32}), result = zeros({32, 32});
    set_requires_grad(w);
    const NDArray x = full({32, 32}, 0.5);
    const auto layer = [&](const NDArray& given) {
      return dropout(matmul(given, w), 0.5, default_generator(), true);
    };
    const auto body = [&] {
      backward(sum(square(again ? recompute(layer)(x) : layer(x))));
      result.assign(grad(w));
      clear_grad(w);
    };
    const Graph graph = captured ? engine.capture(body) : Graph();
    Bits all;
    for (int i = 0; i < 4; ++i) {
      captured ? graph.launch() : body();
      all.push_back(result.to_vector<float>());
    }
    return all;
  };
  const Bits plain = program(false, false, 1);
  CHECK(plain[0] != plain[1]);
  for (const int workers : {1, 2, 4}) {
    CHECK(program(true, false, workers) == plain);
    CHECK(program(true, true, workers) == plain);
  }
}

TEST_CASE("recompute: twelve blocks of a transformer take at most half of the memory") {
  const auto peak_of = [](bool again) {
    Engine engine({.scheduler = Scheduler::naive});  // with others the peak depends on which ops ran first
    const EngineScope scope(engine);
    Generator initial(1);
    std::vector<TransformerBlock> blocks;
    for (int i = 0; i < 12; ++i) blocks.emplace_back(32, 4, TransformerBlockOptions{.dropout = 0.1}, initial);
    const NDArray x = initial.normal({8, 32, 32});
    manual_seed(4);
    const auto step = [&] {
      NDArray y = x;
      for (TransformerBlock& block : blocks) y = again ? recompute(block)(y) : block(y);
      const NDArray loss = mean(square(y));
      backward(loss);
      return loss.detach();
    };
    track_memory(true);
    reset_memory_peak();
    const std::size_t before = memory_report().bytes;
    const std::vector<float> loss = step().to_vector<float>();
    engine.wait_all();
    const std::size_t peak = memory_report().peak - before;
    track_memory(false);
    Bits bits{loss};
    for (const TransformerBlock& block : blocks)
      for (const Parameter& one : block.parameters()) bits.push_back(grad(one.value).to_vector<float>());
    return std::pair(peak, bits);
  };
  const auto [plain, plain_bits] = peak_of(false);
  const auto [less, bits] = peak_of(true);
  CAPTURE(plain);
  CAPTURE(less);
  CHECK(bits == plain_bits);
  CHECK(less * 2 <= plain);
}

TEST_CASE("recompute: without a tape the function just runs") {
  Dense layer(4, 4);
  const NDArray x = ones({2, 4});
  const NoGrad off;
  CHECK_FALSE(requires_grad(recompute(layer)(x)));
  CHECK_FALSE(is_recomputing());
}

TEST_CASE("recompute: errors say what is wrong") {
  NDArray w = ones({4});
  set_requires_grad(w);
  const NDArray outside = w * 2;
  const auto uses_outside = [&](const NDArray& x) { return x * outside; };
  CHECK(message_of<InvalidArgument>([&] { recompute(uses_outside)(w); }) ==
        "recompute: multiply in the function uses an array that was computed outside of it and requires a "
        "gradient; "
        "make it an input of the function");
  CHECK(message_of<InvalidArgument>([&] { recompute(Recomputed::Function()); }) ==
        "recompute: the function is empty");
  CHECK(message_of<InvalidArgument>([&] { recompute(Dense(2, 2))(NDArray()); }) ==
        "recompute: input 0 is an undefined array");
  CHECK(message_of<InvalidArgument>([&] {
          recompute(Recomputed::Function([](const Arrays& in) { return Arrays{in[0], in[0] * 2}; }))(w);
        }) == "recompute: the function has returned 2 arrays, of which run() gives a list; wanted one");
  const NDArray second = sum(recompute([&](const NDArray& x) { return x * x; })(w));
  CHECK(message_of([&] {
          backward(second, {.create_graph = true});
        }).starts_with("recompute: its gradient has no gradient"));
  int calls = 0;
  const NDArray changing = recompute([&](const NDArray& x) { return ++calls == 1 ? x * 2 : sum(x); })(w);
  CHECK(message_of([&] {
          backward(sum(changing));
        }).starts_with("recompute: the function has other results than when it ran first"));
  const auto drop = [](const NDArray& x) { return dropout(x, 0.5, default_generator(), true); };
  const NDArray drawing =
      recompute([&](const NDArray& x) { return ++calls > 3 ? drop(drop(x)) : drop(x); })(w);
  CHECK(message_of([&] {
          backward(sum(drawing));
        }).starts_with("recompute: the function draws random numbers more often"));
  const NDArray stale = recompute([&](const NDArray& x) { return x * w; })(ones({4}));
  w.detach().fill(3);
  CHECK(message_of([&] { backward(sum(stale)); }).find("changed in place") != std::string::npos);
}

TEST_CASE("recompute: a pass that throws leaves nothing to the next one") {
  for (const int failing : {0, 1}) {
    CAPTURE(failing);
    NDArray w = full({4}, 5), x = ones({4});
    set_requires_grad(w), set_requires_grad(x);
    const Recomputed both([&](const Arrays& in) -> Arrays { return {in[0] * 2 * w, in[0] * 3 * w}; });
    const Arrays out = both.run({x});
    bool fails = true;
    on_gradient(out[static_cast<std::size_t>(failing)], [&](const NDArray& gradient) {
      if (fails) throw std::runtime_error("a hook's");
      return gradient;
    });
    CHECK_THROWS_AS(grad({sum(out[0]) + sum(out[1])}, {x}, {.keep_tape = true}), std::runtime_error);
    fails = false;
    for (const int one : {0, 1}) {
      const Arrays found = grad({sum(out[static_cast<std::size_t>(one)])}, {x}, {.keep_tape = true});
      CHECK(found[0].to_vector<float>() == std::vector<float>(4, one == 0 ? 10.f : 15.f));
    }
  }
}

TEST_CASE("recompute: a function that changes its input in place is refused") {
  NDArray w = ones({4});
  set_requires_grad(w);
  const auto adds = [&](NDArray x) { return x += 1, x * w; };
  CHECK(message_of<InvalidArgument>([&] { recompute(adds)(ones({4})); }) ==
        "recompute: the function changes input 0 in place, and would change it again in the backward pass; "
        "make it "
        "change a copy");
  const NoGrad off;
  CHECK(recompute(adds)(ones({4})).to_vector<float>() == std::vector<float>(4, 2));
}

TEST_CASE("recompute: in an autocast to f32 the second run mixes dtypes as the first one") {
  const NDArray x = Generator(2).normal({4, 8}).astype(DType::bf16);
  NDArray w = Generator(1).normal({8, 8});
  set_requires_grad(w);
  const auto product = [&](const NDArray& given) { return matmul(given, w); };
  Bits gradients;
  for (const bool again : {false, true}) {
    NDArray y;
    {
      const Autocast autocast(DType::f32);
      y = again ? recompute(product)(x) : product(x);
    }
    backward(sum(y.astype(DType::f32)));
    gradients.push_back(grad(w).to_vector<float>());
    clear_grad(w);
  }
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("recompute: a row-sparse gradient in the function is refused") {
  NDArray table = ones({10, 4});
  set_requires_grad(table);
  const NDArray indices = array<std::int64_t>({1, 2});
  const auto rows = [&](const NDArray& at) { return embedding(table, at, {.sparse_grad = true}); };
  CHECK(message_of<InvalidArgument>([&] { recompute(rows)(indices); }).find("recompute() cannot give") !=
        std::string::npos);
}
