// Updates of many weights by one op: the same bits as single updates.
#include <memory>
#include <message_of.h>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/graph.h>
#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/sequential.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;
using Bits = std::vector<std::vector<double>>;

struct Weights {
  std::vector<Key> keys;
  Arrays values;
};

Weights random_weights(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  Generator numbers(seed);
  const std::vector<Shape> shapes{{64}, {1}, {7, 9}, {}, {4096}, {4097}, {20000}, {3, 0}, {1000}};
  Weights all;
  for (int i = 0; i < count; ++i) {
    const DType dtype = random() % 4 == 0 ? DType::f64 : DType::f32;
    all.keys.emplace_back(i);
    all.values.push_back(numbers.normal(shapes[random() % shapes.size()], 0, 1, dtype));
  }
  return all;
}

Arrays gradients_of(const Weights& weights, std::uint64_t seed) {
  Generator numbers(seed);
  Arrays all;
  for (const NDArray& weight : weights.values)
    all.push_back(numbers.normal(weight.shape(), 0, 1, weight.dtype()));
  return all;
}

Bits bits_of(const Weights& weights, const Optimizer& optimizer) {
  Bits all;
  for (const NDArray& value : weights.values) all.push_back(value.astype(DType::f64).to_vector<double>());
  for (const auto& [name, value] : optimizer.state())
    all.push_back(value.astype(DType::f64).to_vector<double>());
  return all;
}

void update(Optimizer& optimizer, const Weights& weights, const Arrays& grads, const UpdateOptions& options,
            bool list) {
  if (list) return optimizer.update_all(weights.keys, weights.values, grads, options);
  for (std::size_t i = 0; i < grads.size(); ++i)
    optimizer.update(weights.keys[i], weights.values[i], grads[i], options);
}

// A few steps, with a state that is saved and set in between.
Bits program(const std::string& name, const OptimizerParams& params, std::uint64_t seed, bool list) {
  const Weights weights = random_weights(seed, 40);
  auto optimizer = create_optimizer(name, params);
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      auto other = create_optimizer(name, params);
      other->set_state(optimizer->state());
      optimizer = std::move(other);
    }
    const UpdateOptions options{
        .lr = 0.1 / (step + 1), .grad_scale = 0.5, .decay_scale = step % 2 ? 1.0 : 0.5};
    update(*optimizer, weights, gradients_of(weights, seed + 10 + static_cast<std::uint64_t>(step)), options,
           list);
  }
  return bits_of(weights, *optimizer);
}

}  // namespace

TEST_CASE("optimizer list: every optimizer, the same bits as single updates, with every scheduler") {
  for (const EngineOptions& engine_options : {EngineOptions{.workers = 1}, EngineOptions{.workers = 4},
                                              EngineOptions{.scheduler = Scheduler::naive},
                                              EngineOptions{.scheduler = Scheduler::fuzz, .seed = 1}}) {
    Engine engine(engine_options);
    const EngineScope scope(engine);
    for (const OptimizerInfo& info : optimizers()) {
      CAPTURE(info.name);
      OptimizerParams params;
      for (const auto& param : info.params)
        if (param.name == "weight_decay" || param.name == "momentum") params[param.name] = 0.1;
      CHECK(program(info.name, params, 1, true) == program(info.name, params, 1, false));
    }
    CHECK(program("adam", {{"amsgrad", 1}}, 2, true) == program("adam", {{"amsgrad", 1}}, 2, false));
  }
}

TEST_CASE("optimizer list: few ops for many small weights") {
  Weights weights;
  for (int i = 0; i < 200; ++i) weights.keys.emplace_back(i), weights.values.push_back(ones({64}));
  weights.keys.emplace_back("large"), weights.values.push_back(ones({100'000}));
  const auto optimizer = create_optimizer("adam");
  const Arrays grads = gradients_of(weights, 1);
  optimizer->update_all(weights.keys, weights.values, grads);
  const Graph graph =
      current_engine().capture([&] { optimizer->update_all(weights.keys, weights.values, grads); });
  CHECK(graph.size() == 2);
  graph.launch();
  CHECK(optimizer->state().at("7.updates").item<std::int64_t>() == 2);
}

TEST_CASE("optimizer list: rows, repeats of memory and gradients that are weights are updated one by one") {
  const auto make = [] {
    Weights weights{.keys = {0, 1, 2, 3}, .values = {ones({4, 2}), full({8}, 2), full({8}, 3), NDArray()}};
    weights.values[3] = weights.values[2].slice(0, {0, 4});
    return weights;
  };
  const auto once = [&](bool as_list) {
    const Weights weights = make();
    const auto optimizer = create_optimizer("adam");
    const NDArray rows = array<std::int64_t>({1, 3});
    optimizer->update(0, weights.values[0], row_sparse(rows, ones({2, 2}), {4, 2}));
    for (int i = 0; i < 3; ++i) {
      const Arrays grads{ones({4, 2}), full({8}, 0.5), weights.values[1], full({4}, 0.1)};
      update(*optimizer, weights, grads, {}, as_list);
      if (i == 1) optimizer->update(0, weights.values[0], row_sparse(rows, ones({2, 2}), {4, 2}));
    }
    return bits_of(weights, *optimizer);
  };
  CHECK(once(true) == once(false));
}

TEST_CASE("optimizer list: a failed gradient skips the op, whose weights stay as they were") {
  Weights weights;
  for (int i = 0; i < 5; ++i) weights.keys.emplace_back(i), weights.values.push_back(full({16}, i));
  const auto optimizer = create_optimizer("adam");
  Arrays grads = gradients_of(weights, 3);
  optimizer->update_all(weights.keys, weights.values, grads);
  const Bits before = bits_of(weights, *optimizer);
  const NDArray good = grads[2];
  grads[2] = take(ones({1}), full({16}, 5, DType::i64));  // an index out of range
  optimizer->update_all(weights.keys, weights.values, grads);
  CHECK_THROWS_AS(weights.values[0].wait(), InvalidArgument);
  for (const NDArray& value : weights.values) current_engine().clear_error(value.var());
  optimizer->clear_errors();
  CHECK(bits_of(weights, *optimizer) == before);
  grads[2] = good;
  optimizer->update_all(weights.keys, weights.values, grads);
  CHECK(optimizer->state().at("4.updates").item<std::int64_t>() == 2);
}

TEST_CASE("optimizer list: errors name the weight, and nothing is updated before them") {
  Weights weights{.keys = {"a", "b"}, .values = {ones({4}), ones({4})}};
  const auto optimizer = create_optimizer("sgd");
  CHECK(message_of<InvalidArgument>([&] {
          optimizer->update_all(weights.keys, weights.values, Arrays{ones({4}), ones({5})});
        }) ==
        "optimizer sgd, weight b: the weight is f32 (4,), the gradient f32 (5,); both must be f32 or both "
        "f64, of one shape");
  CHECK(message_of<InvalidArgument>([&] {
          optimizer->update_all(weights.keys, weights.values, Arrays{ones({4})});
        }) == "optimizer sgd: got 2 keys, 2 weights and 1 gradients; want one of each for a weight");
  CHECK_THROWS_AS(optimizer->update_all(weights.keys, weights.values, Arrays{ones({4}), NDArray()}),
                  InvalidArgument);
  CHECK(weights.values[0](0).item<float>() == 1);
  CHECK(optimizer->state().empty());
}

TEST_CASE("optimizer list: a graph captured before a list goes on updating the state that counts") {
  for (const bool captured : {false, true}) {
    Weights weights{.keys = {0, 1}, .values = {ones({4}), ones({4})}};
    const auto optimizer = create_optimizer("sgd", {{"lr", 0.1}, {"momentum", 0.9}});
    const Arrays grads{ones({4}), ones({4})};
    const auto one = [&] { optimizer->update(0, weights.values[0], grads[0]); };
    one();
    const Graph graph = captured ? current_engine().capture(one) : Graph();
    const auto again = [&] { captured ? graph.launch() : one(); };
    again();
    optimizer->update_all(weights.keys, weights.values, grads);
    again();
    optimizer->update_all(weights.keys, weights.values, grads);
    CHECK(optimizer->state().at("0.updates").item<std::int64_t>() == 5);
    // velocities 1, 1.9, 2.71, 3.439 and 4.0951
    CHECK(weights.values[0](0).item<float>() == doctest::Approx(1 - 0.1 * 13.1441));
  }
}

TEST_CASE("optimizer list: a state that was set is updated by few ops, also after a capture") {
  for (const bool captured : {false, true}) {
    Weights weights{.keys = {0, 1, 2}, .values = {ones({4}), ones({4}), ones({4})}};
    const Arrays grads = gradients_of(weights, 2);
    const auto saved = create_optimizer("adam");
    saved->update_all(weights.keys, weights.values, grads);
    const auto optimizer = create_optimizer("adam");
    optimizer->set_state(saved->state());
    const auto all = [&] { optimizer->update_all(weights.keys, weights.values, grads); };
    if (captured) {  // state that is in a graph stays where it is
      const Graph graph = current_engine().capture(all);
      graph.launch(), all(), graph.launch();
    } else {
      all();
      const Graph graph = current_engine().capture(all);
      CHECK(graph.size() == 1);
      graph.launch(), all();
    }
    CHECK(optimizer->state().at("2.updates").item<std::int64_t>() == 4);
  }
}

TEST_CASE("optimizer list: poison in the state of one weight stays there") {
  Weights weights{.keys = {0, 1}, .values = {ones({4}), ones({4})}};
  const auto optimizer = create_optimizer("sgd", {{"momentum", 0.9}});
  const Arrays grads{ones({4}), ones({4})};
  for (int i = 0; i < 3; ++i) update(*optimizer, weights, grads, {}, false);
  const Bits before = bits_of(weights, *optimizer);
  optimizer->update(0, weights.values[0], take(ones({1}), full({4}, 5, DType::i64)));
  optimizer->update_all(weights.keys, weights.values, grads);
  CHECK_THROWS_AS(weights.values[0].wait(), InvalidArgument);
  current_engine().clear_error(weights.values[0].var());
  optimizer->clear_errors();
  const Bits after = bits_of(weights, *optimizer);
  CHECK(after[0] == before[0]);
  CHECK(optimizer->state().at("0.updates").item<std::int64_t>() == 3);
  CHECK(optimizer->state().at("0.velocity").to_vector<float>()[0] == doctest::Approx(2.71));
  CHECK(optimizer->state().at("1.updates").item<std::int64_t>() == 4);
}

TEST_CASE("optimizer list: ops of one list do not wait for each other") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  Weights weights;
  for (int i = 0; i < 40; ++i) weights.keys.emplace_back(i), weights.values.push_back(ones({4096}));
  const auto optimizer = create_optimizer("adam");
  Arrays grads = gradients_of(weights, 1);
  optimizer->update_all(weights.keys, weights.values, grads);
  engine.wait_all();
  grads[0] = take(ones({1}), full({4096}, 5, DType::i64));  // fails, and with it all that waits for it
  optimizer->update_all(weights.keys, weights.values, grads);
  CHECK_THROWS_AS(weights.values[0].wait(), InvalidArgument);
  weights.values[39].wait();
  CHECK(optimizer->state().at("39.updates").item<std::int64_t>() == 2);
}

TEST_CASE("optimizer: the state follows a weight that a module has moved, also to and fro") {
  for (const bool list : {false, true}) {
    CAPTURE(list);
    std::vector<Bits> results;
    for (const bool moves : {false, true}) {
      Sequential net{Dense(3, 4), Dense(4, 2), Dense(2, 90)};
      Generator numbers(1);
      Weights weights;
      for (const Parameter& one : net.parameters()) {
        weights.keys.emplace_back(std::ssize(weights.keys));
        weights.values.push_back(one.value.detach());
        weights.values.back().assign(numbers.normal(one.value.shape()));
      }
      const auto optimizer = create_optimizer("adam");
      for (const Device device : {cpu(), cpu(1), cpu(1), cpu(), cpu(1)}) {
        if (moves) net.to(device);
        Arrays grads;
        for (const NDArray& weight : weights.values)
          grads.push_back(numbers.normal(weight.shape()).copy_to(weight.device()));
        update(*optimizer, weights, grads, {}, list);
        for (const auto& [name, value] : optimizer->state())
          CHECK(value.device() == (name.ends_with("updates") ? cpu() : weights.values[0].device()));
      }
      results.push_back(bits_of(weights, *optimizer));
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("optimizer list: weights whose module was moved in part are updated where they are") {
  Sequential net{Dense(3, 4), Dense(4, 2)};
  Weights weights;
  for (const Parameter& one : net.parameters()) {
    weights.keys.emplace_back(std::ssize(weights.keys));
    weights.values.push_back(one.value.detach());
  }
  const auto optimizer = create_optimizer("sgd", {{"momentum", 0.9}});
  for (int step = 0; step < 3; ++step) {
    if (step == 1) net.children()[1].module->to(cpu(1));
    Arrays grads;
    for (const NDArray& weight : weights.values) grads.push_back(ones_like(weight));
    optimizer->update_all(weights.keys, weights.values, grads);
    CHECK(optimizer->state().at("0.velocity").device() == cpu());
    CHECK(optimizer->state().at("2.velocity").device() == (step == 0 ? cpu() : cpu(1)));
  }
  CHECK(optimizer->state().at("2.velocity").to_vector<float>()[0] == doctest::Approx(2.71));
}

TEST_CASE("optimizer: state that has to follow its weight does so before a capture") {
  Sequential net{Dense(2, 2)};
  const NDArray weight = net.parameters()[0].value.detach();
  const auto optimizer = create_optimizer("sgd", {{"momentum", 0.9}});
  const auto step = [&] { optimizer->update(0, weight, ones_like(weight)); };
  step();
  net.to(cpu(1));
  const std::uint64_t before = optimizer->generation();
  CHECK(message_of([&] { current_engine().capture(step); }) ==
        "optimizer sgd, weight 0: the first update after the weight came to cpu(1), where its state follows, "
        "must "
        "come before a capture");
  step();
  CHECK(optimizer->generation() == before + 1);
  current_engine().capture(step).launch();
  CHECK(optimizer->state().at("0.updates").item<std::int64_t>() == 3);
}
