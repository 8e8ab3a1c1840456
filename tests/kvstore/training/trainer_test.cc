#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "files.h"

using namespace heddle;

namespace {

Sequential make_net(Device device = cpu()) {
  Generator generator(1);
  return Sequential{Dense(4, 16, {.relu = true, .device = device}, generator),
                    Dense(16, 3, {.device = device}, generator)};
}

struct Data {
  NDArray x, labels;
};

// Samples of three classes that planes separate: a sample's class is the index of the largest of its first
// three features.
Data make_data(std::int64_t count) {
  Generator generator(2);
  NDArray x = generator.normal({count, 4});
  std::vector<float> values = x.to_vector<float>();
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    auto row = values.begin() + i * 4;
    labels.push_back(std::max_element(row, row + 3) - row);
  }
  return {x, array(labels, {count})};
}

}  // namespace

TEST_CASE("a trainer lowers the loss") {
  for (const char* optimizer : {"sgd", "adam"}) {
    Sequential net = make_net();
    Trainer trainer(net.parameters(), {.optimizer = optimizer, .params = {{"lr", 0.05}}});
    Data data = make_data(128);
    NDArray first, last;
    for (int step = 0; step < 100; ++step) {
      NDArray loss = cross_entropy(net(data.x), data.labels);
      backward(loss);
      trainer.step();
      if (step == 0) first = loss;
      last = loss;
    }
    CHECK(trainer.steps() == 100);
    CHECK(last.item<float>() < 0.8f * first.item<float>());
  }
}

TEST_CASE("a step clears gradients and follows the schedule") {
  NDArray weight = ones({2});
  set_requires_grad(weight);
  Trainer trainer({{"w", weight}}, {.params = {{"lr", 1}}, .schedule = step_schedule(1, 1, 0.5)});
  CHECK(trainer.learning_rate() == 1);
  backward(weight * 1, ones({2}));
  trainer.step();
  CHECK_FALSE(grad(weight).defined());
  CHECK(trainer.learning_rate() == 0.5);
  CHECK(weight.to_vector<float>() == std::vector<float>{0, 0});
  backward(weight * 1, ones({2}));
  trainer.step(0.5);
  CHECK(weight.to_vector<float>() == std::vector<float>{-0.25f, -0.25f});
}

TEST_CASE("a step goes on from what the user wrote into a parameter") {
  NDArray weight = ones({2});
  set_requires_grad(weight);
  Trainer trainer({{"w", weight}}, {.params = {{"lr", 1}}});
  auto step = [&] {
    backward(weight * 1, ones({2}));
    trainer.step();
    return weight.to_vector<float>();
  };
  {
    NoGrad none;
    weight.fill(100);
  }
  CHECK(step() == std::vector<float>{99, 99});
  CHECK(step() == std::vector<float>{98, 98});
  weight.detach().slice(0, {.end = 1}).fill(7);  // changes the weight through a view of it
  CHECK(step() == std::vector<float>{6, 97});
}

TEST_CASE("a change to any replica reaches all of them") {
  for (std::size_t changed : {0u, 1u}) {
    std::vector<NDArray> weights{ones({2}), ones({2}, DType::f32, cpu(1))};
    for (NDArray& weight : weights) set_requires_grad(weight);
    Trainer trainer({{{"w", weights[0]}}, {{"w", weights[1]}}}, {.params = {{"lr", 1}}});
    weights[changed].detach().fill(10);
    for (NDArray& weight : weights) backward(weight * 1, ones({2}, DType::f32, weight.device()));
    trainer.step(0.5);
    for (const NDArray& weight : weights) CHECK(weight.to_vector<float>() == std::vector<float>{9, 9});
  }
}

TEST_CASE("after a bad batch and clear_errors training goes on as if it had never been") {
  for (const char* optimizer : {"sgd", "adam"}) {
    OptimizerParams params;
    if (std::string(optimizer) == "sgd") params["momentum"] = 0.9;
    auto train = [&](std::vector<int> bad_steps) {
      Data data = make_data(32);
      Sequential net = make_net();
      Trainer trainer(net.parameters(),
                      {.optimizer = optimizer, .params = params, .schedule = cosine_schedule(0.1, 6)});
      for (int step = 0; step < 6; ++step) {
        if (std::count(bad_steps.begin(), bad_steps.end(), step) != 0) {
          backward(cross_entropy(net(data.x), full({32}, 99, DType::i64)));
          trainer.step();
          // The program has not noticed the error of the last step yet.
          backward(cross_entropy(net(data.x), data.labels));
          trainer.step();
          backward(cross_entropy(net(data.x), data.labels));
          CHECK_THROWS_AS(net.parameters()[0].value.wait(), InvalidArgument);
          trainer.clear_errors();
          CHECK(trainer.steps() == step);
          CHECK_FALSE(grad(net.parameters()[0].value).defined());
        }
        backward(cross_entropy(net(data.x), data.labels));
        trainer.step();
      }
      std::vector<std::vector<float>> all;
      for (const Parameter& parameter : net.parameters()) all.push_back(parameter.value.to_vector<float>());
      for (const auto& [name, value] : trainer.state())
        all.push_back(value.astype(DType::f32).to_vector<float>());
      return all;
    };
    const std::vector<std::vector<float>> straight = train({});
    CHECK(train({2}) == straight);
    CHECK(train({0, 3}) == straight);
  }
}

TEST_CASE("replicas go on after a bad batch of one of them") {
  std::vector<NDArray> weights{ones({2}), ones({2}, DType::f32, cpu(1))};
  for (NDArray& weight : weights) set_requires_grad(weight);
  Trainer trainer({{{"w", weights[0]}}, {{"w", weights[1]}}}, {.params = {{"lr", 1}}});
  auto step = [&](bool bad) {
    for (NDArray& weight : weights) {
      NDArray seed = ones({2}, DType::f32, weight.device());
      if (bad && weight.device() == cpu(1)) {
        seed.engine().push([] { throw std::domain_error("bad"); },
                           {.mutate = {seed.var()}, .name = "breaks"});
      }
      backward(weight * 1, seed);
    }
    trainer.step(0.5);
  };
  step(true);
  for (const NDArray& weight : weights) CHECK_THROWS_AS(weight.wait(), std::domain_error);
  trainer.clear_errors();
  step(false);
  CHECK(trainer.steps() == 1);
  for (const NDArray& weight : weights) CHECK(weight.to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("replicas on several devices stay equal and agree with one device") {
  constexpr std::int64_t kHalf = 32;
  Data data = make_data(2 * kHalf);
  Sequential single = make_net(), first = make_net(cpu(0)), second = make_net(cpu(1));
  // Other values, which the trainer replaces by those of the first replica.
  second.parameters()[0].value.detach().fill(0.5);
  TrainerOptions options{.params = {{"lr", 0.1}, {"momentum", 0.9}}};
  Trainer one(single.parameters(), options), two({first.parameters(), second.parameters()}, options);
  NDArray x0 = data.x.slice(0, {.end = kHalf}), x1 = data.x.slice(0, {.begin = kHalf}).copy_to(cpu(1));
  NDArray y0 = data.labels.slice(0, {.end = kHalf}),
          y1 = data.labels.slice(0, {.begin = kHalf}).copy_to(cpu(1));
  for (int step = 0; step < 10; ++step) {
    backward(cross_entropy(single(data.x), data.labels));
    one.step();
    backward(cross_entropy(first(x0), y0));
    backward(cross_entropy(second(x1), y1));
    two.step(0.5);
  }
  for (std::size_t i = 0; i < single.parameters().size(); ++i) {
    std::vector<float> a = first.parameters()[i].value.to_vector<float>();
    CHECK(a == second.parameters()[i].value.to_vector<float>());
    std::vector<float> expected = single.parameters()[i].value.to_vector<float>();
    for (std::size_t k = 0; k < a.size(); ++k) CHECK(a[k] == doctest::Approx(expected[k]).epsilon(1e-3));
  }
}

TEST_CASE("a trainer says what is wrong at the call") {
  NDArray weight = ones({2}), other = ones({2});
  set_requires_grad(weight);
  CHECK_THROWS_AS(Trainer(std::vector<Parameter>{}), InvalidArgument);
  CHECK_THROWS_WITH_AS(Trainer({{"w", other}}, {}), "Trainer: parameter 'w' requires no gradient",
                       InvalidArgument);
  CHECK_THROWS_AS(Trainer({{"w", weight}}, {.optimizer = "magic"}), InvalidArgument);
  Trainer trainer({{"w", weight}}, {});
  CHECK_THROWS_WITH_AS(
      trainer.step(),
      "Trainer::step: parameter 'w' has no gradient; call backward() on a loss that depends on it first",
      InvalidArgument);
  CHECK(trainer.steps() == 0);
  CHECK_THROWS_AS(trainer.set_state({}), InvalidArgument);
  CHECK_THROWS_AS(trainer.set_state({{"steps", array<std::int64_t>({-1})}}), InvalidArgument);
  CHECK_THROWS_AS(trainer.set_state({{"steps", array<std::int64_t>({1})}, {"odd", weight}}), InvalidArgument);
}

TEST_CASE("a second trainer on a store is refused, and the first one keeps its optimizer's state") {
  NDArray weight = ones({2});
  set_requires_grad(weight);
  const std::shared_ptr<KVStore> store = KVStore::create();
  const TrainerOptions options{.params = {{"momentum", 0.9}}, .store = store};
  Trainer first({{"w", weight}}, options);
  backward(sum(weight * 1));
  first.step();
  CHECK_THROWS_WITH_AS(Trainer({{"w", weight}}, options), "KVStore::init, key 0: the key exists already",
                       InvalidArgument);
  CHECK_THROWS_AS(Trainer({{"w", weight}}, {.optimizer = "magic", .store = store}), InvalidArgument);
  CHECK(first.state().at("state.w.velocity").to_vector<float>() == std::vector<float>{1, 1});
  CHECK_THROWS_WITH_AS(Trainer({{"w", NDArray()}}), "Trainer: parameter 'w' is an undefined array",
                       InvalidArgument);
}

TEST_CASE("parameters may be parts of one array that share no element") {
  const NDArray whole = arange(0, 8).view_as({4, 2});
  NDArray left = whole(kAll, 0), right = whole(kAll, 1), top = whole[Slice{0, 2}];
  for (NDArray* part : {&left, &right, &top}) set_requires_grad(*part);
  CHECK_THROWS_WITH_AS(
      Trainer({{"left", left}, {"top", top}}),
      "Trainer: parameters 'left' and 'top' share elements; make the array that they are parts of the "
      "parameter",
      InvalidArgument);
  NDArray rows = whole[Slice{1, 3}];
  set_requires_grad(rows);
  CHECK_THROWS_WITH_AS(
      Trainer({{"rows", rows}, {"top", top}}),
      "Trainer: parameters 'rows' and 'top' share elements; make the array that they are parts of the "
      "parameter",
      InvalidArgument);
  Trainer trainer({{"left", left}, {"right", right}, {"again", left}}, {.params = {{"lr", 1}}});
  backward(sum(left) + sum(right));
  trainer.step();
  CHECK(whole.to_vector<float>() == std::vector<float>{-1, 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a trainer refuses state that is not of its parameters, and keeps its own") {
  NDArray first = ones({2}), second = ones({3}, DType::f64);
  for (NDArray* weight : {&first, &second}) set_requires_grad(*weight);
  Trainer trainer({{"first", first}, {"second", second}}, {.optimizer = "adam"});
  backward(sum(first * 1));
  backward(sum(second * 1));
  trainer.step();
  const auto good = trainer.state();
  auto refuse = [&](const std::string& name, const NDArray& value, const std::string& message) {
    auto state = good;
    if (value.defined()) {
      state[name] = value;
    } else {
      REQUIRE(state.erase(name) == 1);
    }
    CHECK_THROWS_WITH_AS(trainer.set_state(state), message.c_str(), InvalidArgument);
    CHECK(trainer.steps() == 1);
    CHECK(trainer.state().at("state.first.mean").to_vector<float>() ==
          good.at("state.first.mean").to_vector<float>());
  };
  refuse("state.first.mean", ones({5}), "optimizer adam: '0.mean' is f32 (5,), its weight f32 (2,)");
  refuse("state.second.mean", ones({3}), "optimizer adam: '1.mean' is f32 (3,), its weight f64 (3,)");
  refuse("state.second.variance", {}, "optimizer adam: '1.variance' is missing");
  refuse("state.second.updates", {}, "Trainer::set_state: 'state.second.updates' is missing");
  refuse("state.third.mean", ones({2}),
         "Trainer::set_state: 'state.third.mean' is of no parameter of this trainer");
  refuse("optimizer.2.mean", ones({2}), "optimizer adam: '2.mean' is of no weight");
  refuse("state.first.velocity", ones({2}), "optimizer adam keeps no state called '0.velocity'");
  refuse("state.first.updates", array<std::int64_t>({-1}), "optimizer adam: '0.updates' is negative");
  trainer.set_state(good);
  trainer.set_state({{"steps", array<std::int64_t>({0})}});
  CHECK(trainer.steps() == 0);
}

TEST_CASE("a trainer's state is that of parameters by name, whatever their order") {
  const auto leaf = [](NDArray value) {
    set_requires_grad(value);
    return value;
  };
  const NDArray a = leaf(ones({3})), b = leaf(ones({3}));
  const TrainerOptions options{.params = {{"lr", 1}, {"momentum", 0.5}}};
  Trainer first({{"a", a}, {"b", b}}, options);
  backward(sum(a * 1) + sum(b * 10));
  first.step();
  const auto state = first.state();
  CHECK(state.at("state.a.velocity").to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(state.at("state.b.velocity").to_vector<float>() == std::vector<float>{10, 10, 10});

  const NDArray c = leaf(zeros({3})), d = leaf(zeros({3}));
  Trainer other({{"b", d}, {"a", c}}, options);
  other.set_state(state);
  backward(sum(c * 0) + sum(d * 0));
  other.step();
  CHECK(c.to_vector<float>() == std::vector<float>{-0.5, -0.5, -0.5});
  CHECK(d.to_vector<float>() == std::vector<float>{-5, -5, -5});

  // The state in the format of earlier versions: named by the parameter's index in the list.
  const NDArray e = leaf(zeros({3})), f = leaf(zeros({3}));
  Trainer by_place({{"x", e}, {"y", f}}, options);
  by_place.set_state({{"steps", state.at("steps")},
                      {"optimizer.0.velocity", state.at("state.a.velocity")},
                      {"optimizer.0.updates", state.at("state.a.updates")},
                      {"optimizer.1.velocity", state.at("state.b.velocity")},
                      {"optimizer.1.updates", state.at("state.b.updates")}});
  CHECK(by_place.state().at("state.y.velocity").to_vector<float>() == std::vector<float>{10, 10, 10});
}

TEST_CASE("of parameters of one name, and names with dots and digits, each has its own state") {
  std::vector<Parameter> parameters;
  for (const char* name : {"w", "w", "0", "1.w", "w#2"}) {
    NDArray value = zeros({1});
    set_requires_grad(value);
    parameters.push_back({name, value});
  }
  Trainer trainer(parameters, {.params = {{"momentum", 0.5}}});
  for (std::size_t i = 0; i < parameters.size(); ++i) backward(sum(parameters[i].value * (i + 1)));
  trainer.step();
  const auto state = trainer.state();
  const std::pair<const char*, float> wanted[] = {{"w", 1}, {"w#2", 2}, {"0", 3}, {"1.w", 4}, {"w#2#2", 5}};
  for (const auto& [name, velocity] : wanted)
    CHECK(state.at("state." + std::string(name) + ".velocity").to_vector<float>() ==
          std::vector<float>{velocity});
  trainer.set_state(state);
  CHECK(trainer.state().size() == state.size());
}

TEST_CASE("what is stored beside a trainer's parameters keeps its own state") {
  NDArray weight = ones({2});
  set_requires_grad(weight);
  const std::shared_ptr<KVStore> store = KVStore::create();
  Trainer trainer({{"w", weight}}, {.params = {{"momentum", 0.5}}, .store = store});
  store->init("extra", zeros({2}));
  store->push("extra", ones({2}));
  backward(sum(weight));
  trainer.step();
  const auto state = trainer.state();
  CHECK(state.contains("optimizer.extra.velocity"));
  trainer.set_state(state);
  CHECK(trainer.state().at("optimizer.extra.velocity").to_vector<float>() == std::vector<float>{1, 1});
}

TEST_CASE("a replica with the parameters of the first one in another order is refused") {
  std::vector<std::vector<Parameter>> replicas(2);
  for (const char* name : {"a", "b"}) {
    for (auto& replica : replicas) {
      NDArray value = zeros({2});
      set_requires_grad(value);
      replica.push_back({name, value});
    }
  }
  std::swap(replicas[1][0], replicas[1][1]);
  CHECK_THROWS_WITH_AS(Trainer trainer(replicas),
                       "Trainer: a replica has parameter 'b' where the first one has 'a'", InvalidArgument);
}

TEST_CASE("groups have factors of the learning rate and of weight decay") {
  const auto train = [](std::vector<ParameterGroup> groups) {
    std::vector<Parameter> parameters;
    for (const auto& [name, shape] : {std::pair("0.weight", Shape{2, 2}), std::pair("0.bias", Shape{2}),
                                      std::pair("1.weight", Shape{2})}) {
      NDArray value = ones(shape);
      set_requires_grad(value);
      parameters.push_back({name, value});
    }
    Trainer trainer(parameters,
                    {.params = {{"lr", 0.5}, {"weight_decay", 0.5}}, .groups = std::move(groups)});
    backward(sum(parameters[0].value) + sum(parameters[1].value) + sum(parameters[2].value));
    trainer.step();
    std::vector<float> all;
    for (const Parameter& one : parameters) all.push_back(one.value.to_vector<float>()[0]);
    return all;
  };
  using Values = std::vector<float>;
  CHECK(train({}) == Values{0.25f, 0.25f, 0.25f});
  CHECK(train({{.pattern = "*bias", .weight_decay = 0}}) == Values{0.25f, 0.5f, 0.25f});
  CHECK(train({{.max_axes = 1, .weight_decay = 0}}) == Values{0.25f, 0.5f, 0.5f});
  CHECK(train({{.pattern = "?.w*t", .max_axes = 1, .lr = 0}, {.pattern = "*", .lr = 2}}) ==
        Values{-0.5f, -0.5f, 1});
  const auto why = [&](const ParameterGroup& group) {
    try {
      train({group});
    } catch (const InvalidArgument& error) {
      return error.message();
    }
    return std::string("no error");
  };
  CHECK(why({.pattern = "2.*"}) == "Trainer: group '2.*' fits no parameter; the first one is '0.weight'");
  CHECK(why({.pattern = "0.weight", .max_axes = 1}) ==
        "Trainer: group '0.weight' with at most 1 axes fits no parameter; the first one is '0.weight'");
  CHECK(why({.lr = -1}) == "Trainer: group '*': the factor of lr must be finite and not negative, not -1");
}

TEST_CASE("optimizers with norms of whole weights take row-sparse gradients as dense ones") {
  Generator generator(4);
  NDArray table = generator.normal({6, 3}), same = table.copy();
  set_requires_grad(table);
  Trainer trainer({{"table", table}}, {.optimizer = "lamb"});
  backward(sum(embedding(table, array<std::int64_t>({1, 4, 1}), {.sparse_grad = true})));
  REQUIRE(row_sparse_grad(table).defined());
  const NDArray gradient = to_dense(row_sparse_grad(table));
  trainer.step();
  create_optimizer("lamb")->update(0, same, gradient);
  CHECK(table.to_vector<float>() == same.to_vector<float>());
}

TEST_CASE("clipping a batch that is bad skips its step") {
  NDArray weight = ones({2});
  set_requires_grad(weight);
  Trainer trainer({{"weight", weight}}, {.params = {{"lr", 0.5}}});
  backward(sum(weight * array<float>({1, std::numeric_limits<float>::infinity()})));
  clip_grad_norm(trainer.parameters(), 1, {.refuse_nonfinite = true});
  trainer.step();
  CHECK_THROWS_AS(weight.wait(), Error);
  trainer.clear_errors();
  CHECK(trainer.steps() == 0);
  backward(sum(weight * array<float>({3, 4})));
  const NDArray norm = clip_grad_norm(trainer.parameters(), 1);
  trainer.step();
  CHECK(norm.item<float>() == 5);
  CHECK(weight.to_vector<float>()[0] == doctest::Approx(1 - 0.5 * 0.6));
}

TEST_CASE("averages are saved in a checkpoint and filled by loading") {
  test::TemporaryDirectory folder;
  Sequential net = make_net();
  Trainer trainer(net.parameters());
  AverageWeights average(net.parameters(), {.warm_up = true});
  const Data data = make_data(32);
  const auto step = [&] {
    backward(cross_entropy(net(data.x), data.labels));
    trainer.step();
    average.update();
  };
  step();
  Checkpoint checkpoint{.parameters = net.state(), .trainer = &trainer, .arrays = average.state()};
  save_checkpoint(folder.file("run.safetensors"), checkpoint);
  step();
  const std::vector<float> straight = average.averages()[0].value.to_vector<float>();
  load_checkpoint(folder.file("run.safetensors"), checkpoint);
  step();
  CHECK(average.averages()[0].value.to_vector<float>() == straight);
}

TEST_CASE("a trainer with one device updates parameters in place, and Adam keeps two numbers for each") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  constexpr std::size_t kCount = 1'000'000;
  NDArray weight = ones({static_cast<std::int64_t>(kCount)});
  set_requires_grad(weight);
  engine.wait_all();
  const std::size_t before = cpu_allocator_stats().in_use;
  Trainer trainer({{"weight", weight}}, {.optimizer = "adam"});
  const auto step = [&] {
    backward(sum(square(weight)));
    trainer.step();
    engine.wait_all();
  };
  step(), step();
  const std::size_t bytes = cpu_allocator_stats().in_use - before;
  CAPTURE(bytes);
  CHECK(bytes >= 8 * kCount);
  CHECK(bytes <= 8 * kCount * 5 / 4 + 100'000);  // blocks are up to a quarter larger than what is asked for
  const NDArray pulled = zeros({static_cast<std::int64_t>(kCount)});
  trainer.store().pull(0, pulled);
  CHECK(pulled.to_vector<float>() == weight.to_vector<float>());
}

TEST_CASE("a store keeps a copy of what it is given, and an adopted array itself") {
  const auto store = KVStore::create("local");
  const NDArray own = ones({3}), adopted = ones({3}), columns = ones({3, 2}).transpose();
  store->init("own", own);
  store->adopt("adopted", adopted);
  store->adopt("columns", columns);
  CHECK_THROWS_AS(store->adopt("own", own), InvalidArgument);
  store->set_optimizer("sgd", {{"lr", 1}});
  store->push("own", ones({3}));
  store->push("adopted", ones({3}));
  store->push("columns", ones({2, 3}));
  CHECK(own(0).item<float>() == 1);
  CHECK(adopted(0).item<float>() == 0);
  CHECK(columns(0, 0).item<float>() == 1);
  const NDArray out = ones({3});
  store->pull("adopted", out);
  store->pull("adopted", adopted);
  CHECK(out(2).item<float>() == 0);
  store->assign("adopted", full({3}, 5));
  CHECK(adopted(1).item<float>() == 5);
}

TEST_CASE("a parameter that comes twice, or is not contiguous, is updated as one that comes once") {
  const auto train = [](int how) {
    NDArray value = how == 2 ? ones({4, 3}).transpose() : ones({3, 4});
    set_requires_grad(value);
    std::vector<Parameter> parameters{{"a", value}};
    if (how == 1) parameters.push_back({"b", value});
    Trainer trainer(parameters, {.optimizer = "adam", .params = {{"lr", 0.1}}});
    for (int i = 0; i < 3; ++i) {
      backward(sum(square(value)));
      trainer.step();
    }
    return value.contiguous().to_vector<float>();
  };
  CHECK(train(1) == train(0));
  CHECK(train(2) == train(0));
}
