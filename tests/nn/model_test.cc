// Models of symbols, and models as files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/layers.h>
#include <heddle/model.h>
#include <heddle/ops.h>
#include <heddle/safetensors.h>
#include <heddle/sequential.h>
#include <heddle/summary.h>

#include "files.h"
#include "layer_samples.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using Floats = std::vector<float>;

// Two inputs, a shared embedding, operators, two outputs.
struct Router {
  Symbol title = input("title", {kInferred, 5}, DType::i64), body = input("body", {kInferred, 7}, DType::i64);
  Embedding words{11, 4};
  Dense priority{kInferred, 1}, department{kInferred, 3};
  Symbol both = connect("concat", {{pooled(title), pooled(body)}, 1});
  Model model{{title, body}, {connect(priority, both), connect(department, connect("relu", {both}))}};

  Symbol pooled(const Symbol& x) { return connect("mean", {connect(words, x), 1}); }
  std::vector<NDArray> by_hand(const NDArray& t, const NDArray& b) {
    const NDArray joined = concat({mean(words(t), {1}), mean(words(b), {1})}, 1);
    return {priority(joined), department(relu(joined))};
  }
};

NDArray numbers(const Shape& shape, std::int64_t below) {
  std::int64_t size = 1;
  for (const std::int64_t one : shape) size *= one;
  return reshape(arange(size, DType::i64), shape) % below;
}

void check_equal(const NDArray& a, const NDArray& b) {
  CHECK(a.shape() == b.shape());
  CHECK(a.astype(DType::f64).to_vector<double>() == b.astype(DType::f64).to_vector<double>());
}

}  // namespace

TEST_CASE("a model computes what its symbols connect, and its parameters are trained") {
  Router router;
  CHECK(router.both.shape() == Shape{2, 8});
  CHECK(router.both.dtype() == DType::f32);
  CHECK(router.priority.to_string() == "Dense(8, 1)");
  const NDArray titles = numbers({3, 5}, 11), bodies = numbers({3, 7}, 11);
  const std::vector<NDArray> results = router.model.run({titles, bodies}),
                             wanted = router.by_hand(titles, bodies);
  REQUIRE(results.size() == 2);
  check_equal(results[0], wanted[0]);
  check_equal(results[1], wanted[1]);
  CHECK(router.model.input_names() == std::vector<std::string>{"title", "body"});
  CHECK(router.model.output_count() == 2);
  std::vector<std::string> names;
  for (const Parameter& one : router.model.parameters()) names.push_back(one.name);
  CHECK(names == std::vector<std::string>{"embedding_0.weight", "dense_0.weight", "dense_0.bias",
                                          "dense_1.weight", "dense_1.bias"});
  backward(sum(results[0]) + sum(results[1]));
  for (const Parameter& one : router.model.parameters()) CHECK(grad(one.value).defined());
  CHECK(router.model.to_string() ==
        "Model{\n  embedding_0 = Embedding(11, 4) of (title)\n  mean_0 = mean(embedding_0)\n"
        "  embedding_0 = Embedding(11, 4) of (body)\n  mean_1 = mean(embedding_0)\n"
        "  concat_0 = concat(mean_0, mean_1)\n  dense_0 = Dense(8, 1) of (concat_0)\n"
        "  relu_0 = relu(concat_0)\n  dense_1 = Dense(8, 3) of (relu_0)\n  -> dense_0, dense_1\n}");
}

TEST_CASE("operators of a model have several results, lists, and constants") {
  const Symbol x = input("x", {kInferred, 4});
  const std::vector<Symbol> halves = connect_all("split", {x, 2}, {{"axis", 1}});
  REQUIRE(halves.size() == 2);
  const NDArray offset = full({2}, 3.0F);
  Model model({x}, {halves[1], connect("add", {halves[0], OperatorValue(offset)}), x});
  const NDArray given = reshape(arange(8), {2, 4}).astype(DType::f32);
  const std::vector<NDArray> results = model.run({given});
  CHECK(results[0].to_vector<float>() == Floats{2, 3, 6, 7});
  CHECK(results[1].to_vector<float>() == Floats{3, 4, 7, 8});
  CHECK(results[2].to_vector<float>() == given.to_vector<float>());
  CHECK(model.state().size() == 1);
  CHECK(model.state()[0].name == "add_0_b");
  Model alone({x}, {connect("exp", {x})});
  check_equal(alone(given), exp(given));
  check_equal(Sequential(alone, Relu())(given), exp(given));
}

TEST_CASE("building a model leaves training mode and running statistics alone") {
  BatchNorm norm(3);
  Dropout dropout(0.5);
  const Symbol x = input("x", {kInferred, 3});
  Model model({x}, {connect(dropout, connect(norm, x))});
  CHECK(norm.training());
  CHECK(norm.state()[2].value.to_vector<float>() == Floats{0, 0, 0});
  model.train(false);
  CHECK_FALSE(norm.training());
  check_equal(model(ones({4, 3})), norm(ones({4, 3})));
}

TEST_CASE("what does not fit is refused where it is connected") {
  const Symbol x = input("x", {kInferred, 4}), y = input("y", {2});
  CHECK(message_of<InvalidArgument>([&] { connect(Dense(3, 2), x); }) ==
        "Dense(3, 2): the input is f32 (2, 4), wanted is (batch..., 3)");
  CHECK(message_of<InvalidArgument>([&] {
          connect("add", {x, y});
        }).find("(2, 4) and (2,)") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] { connect("ad", {x}); }) == "connect: there is no operator 'ad'");
  CHECK(message_of<InvalidArgument>([&] {
          connect("add_", {x, x});
        }) == "add_: it changes its argument; a model cannot have it");
  CHECK(message_of<InvalidArgument>([&] {
          connect("relu", {x}, {{"b", 1}});
        }).find("'b'") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] {
          connect("split", {x, 2});
        }).find("connect_all") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] { connect("relu", {Symbol()}); }) == "relu: a symbol is undefined");
  NDArray leaf = ones({4});
  set_requires_grad(leaf);
  CHECK(message_of<InvalidArgument>([&] {
          connect("add", {x, OperatorValue(leaf)});
        }).find("no constant") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] { input("", {2}); }) == "input: the name is empty");
  CHECK(message_of<InvalidArgument>([&] { input("a", {-3}); }) ==
        "input: 'a' has a size of -3; want 0 or more");
  const Symbol sum = connect("add", {x, 1});
  const auto refused = [](std::vector<Symbol> in, std::vector<Symbol> out) {
    return message_of<InvalidArgument>([&] { Model(in, out); });
  };
  CHECK(refused({}, {sum}) == "Model: there are no inputs");
  CHECK(refused({x}, {}) == "Model: there are no outputs");
  CHECK(refused({y}, {sum}) == "Model: an output needs the input 'x', which is not listed");
  CHECK(refused({x, y}, {sum}) == "Model: no output needs the input 'y'");
  CHECK(refused({x, x}, {sum}) == "Model: there are two inputs 'x'");
  CHECK(refused({sum}, {sum}) == "Model: an input is the result of a call; want one of input()");
  CHECK(refused({Symbol()}, {sum}) == "Model: an input is undefined");
  CHECK(refused({x}, {Symbol()}) == "Model: an output is undefined");
  Model model({x}, {sum});
  CHECK(message_of<InvalidArgument>([&] {
          model(ones({2, 3}));
        }) == "Model: the input 'x' is f32 (2, 3), wanted is f32 (any, 4)");
  CHECK(message_of<InvalidArgument>([&] {
          model(ones({2, 4}, DType::f64));
        }) == "Model: the input 'x' is f64 (2, 4), wanted is f32 (any, 4)");
  CHECK(message_of<InvalidArgument>([&] {
          model.run({ones({2, 4}), ones({1})});
        }) == "Model: 2 inputs; want 1");
  Model two({x}, {sum, x});
  CHECK(message_of<InvalidArgument>([&] { two(ones({2, 4})); }) == "Model: it has 2 outputs; call run()");
  const Symbol free = input("n", {kInferred, kInferred});
  Model inner({free}, {connect(Dense(2, 2), free)});
  CHECK(message_of<InvalidArgument>([&] {
          inner(ones({2, 3}));
        }) == "dense_0: Dense(2, 2): the input is f32 (2, 3), wanted is (batch..., 2)");
}

TEST_CASE("a model of many steps is built without recursion and frees what no later step needs") {
  Symbol x = input("x", {kInferred});
  const Symbol first = x;
  for (int i = 0; i < 5000; ++i) x = connect("add", {x, 1});
  Model model({first}, {x});
  CHECK(model(zeros({2})).to_vector<float>() == Floats{5000, 5000});
}

TEST_CASE("a saved model is made again without code: modules, values, what is frozen and shared") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("model.safetensors");
  Router router;
  router.priority.freeze();
  save_model(path, router.model);
  const std::shared_ptr<Module> loaded = load_model(path);
  CHECK(loaded->to_string() == router.model.to_string());
  const NDArray titles = numbers({3, 5}, 11), bodies = numbers({3, 7}, 11);
  const std::vector<NDArray> wanted = router.model.run({titles, bodies}),
                             results = loaded->run({titles, bodies});
  check_equal(results.at(0), wanted[0]);
  check_equal(results.at(1), wanted[1]);
  CHECK(loaded->parameters().size() == 3);
  CHECK(loaded->state().size() == 5);

  const Symbol x = input("x", {kInferred, 4});
  const auto block = std::make_shared<Sequential>(Dense(4, 4, {.relu = true}), BatchNorm(4), LeakyRelu(0.3));
  const Symbol y = connect(block, connect("multiply", {connect(block, x), OperatorValue(full({4}, 2.0F))}));
  Sequential nested{Model({x}, {connect("softmax", {y}, {{"axis", -1}})}), Flatten(), Dense(4, 2)};
  nested(ones({3, 4}));  // running statistics that are not those of the start
  nested.train(false);
  save_model(path, nested);
  const std::shared_ptr<Module> again = load_model(path);
  CHECK(again->training());
  again->train(false);
  CHECK(again->to_string() == nested.to_string());
  CHECK(again->state().size() == nested.state().size());
  const NDArray given = reshape(arange(12), {3, 4}).astype(DType::f32);
  check_equal((*again)(given), nested(given));
}

TEST_CASE("each layer of the library is saved and made again") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("layer.safetensors");
  for (const LayerInfo& info : layers()) {
    CAPTURE(info.name);
    const std::shared_ptr<Module> layer = test::sample_of(info);
    save_model(path, *layer);
    const std::shared_ptr<Module> loaded = load_model(path);
    CHECK(loaded->to_string() == layer->to_string());
    const std::vector<Parameter> before = layer->state(), after = loaded->state();
    REQUIRE(before.size() == after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(before[i].name == after[i].name);
      check_equal(before[i].value, after[i].value);
    }
  }
}

TEST_CASE("what a file cannot hold, and files that are damaged, are refused by name") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("model.safetensors");
  struct Own : Module {
    NDArray forward(const NDArray& x) override { return x; }
  };
  CHECK(message_of<InvalidArgument>([&] { save_model(path, Sequential(Own())); })
            .find("Own is a class of the "
                  "program's own") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] {
          save_model(path, Dense(kInferred, 2));
        }).find("'weight' has no shape") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
  save_safetensors(path, {.arrays = {{"a", ones({2})}}, .metadata = {}});
  CHECK(message_of<Error>([&] { load_model(path); }).find("describes modules") == std::string::npos);
  CHECK_THROWS_AS(load_model(path), Error);
  CHECK_THROWS_AS(load_model(directory.file("none")), Error);

  const Symbol x = input("x", {kInferred, 2});
  save_model(path, Model({x}, {connect("add", {connect(Dense(2, 2), x), OperatorValue(ones({2}))})}));
  const Safetensors good = load_safetensors(path);
  const std::string text = good.metadata.at("heddle.model");
  const auto refused_with = [&](const std::string& from, const std::string& to) {
    Safetensors bad = good;
    std::string& changed = bad.metadata.at("heddle.model");
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    save_safetensors(path, bad);
    const std::string message = message_of<Error>([&] { load_model(path); });
    CHECK(message.find("model file '" + path + "': ") == 0);
    return message;
  };
  CHECK(refused_with("\"version\":1", "\"version\":9").find("version 9") != std::string::npos);
  CHECK(refused_with("Dense", "Dance").find("there is no layer 'Dance'") != std::string::npos);
  CHECK(refused_with("\"out_features\":2", "\"out_features\":3")
            .find("the 'weight' of a Dense is (3, 2); the file has no array of that shape") !=
        std::string::npos);
  CHECK(refused_with("\"out_features\":2", "\"out_features\":1000000000000")
            .find("is (1000000000000, 2); the file has no array of that shape") != std::string::npos);
  CHECK(refused_with("\"of\":1", "\"of\":7").find("no step before") != std::string::npos);
  CHECK(refused_with("\"root\":1", "\"root\":5").find("no module 5") != std::string::npos);
  CHECK(refused_with("\"root\":1", "\"root\":-1").find("-1 in place of") != std::string::npos);
  CHECK(refused_with("\"root\":1", "\"root\":1.5").find("1.5 in place of an integer") != std::string::npos);
  CHECK(refused_with("\"version\":1", "\"version\":1.5").find("version 1.5") != std::string::npos);
  CHECK(refused_with("\"frozen\":[]", "\"frozen\":[\"x\"]").find("no array 'x'") != std::string::npos);
  refused_with("{", "");
  refused_with("\"operator\":\"add\"", "\"operator\":\"ad\"");
  refused_with("\"in_features\":2", "\"in_features\":\"two\"");
  Safetensors less = good;
  less.arrays.erase("dense_0.bias");
  save_safetensors(path, less);
  CHECK(message_of<Error>([&] { load_model(path); }).find("'dense_0.bias' is missing") != std::string::npos);
  Safetensors more = good;
  more.arrays["other"] = ones({1});
  save_safetensors(path, more);
  CHECK(message_of<Error>([&] { load_model(path); }).find("4 arrays for the 3") != std::string::npos);

  // Any text in place of a part of the description is an error, not a crash.
  std::uint64_t state = 1;
  const auto next = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33U) % below;
  };
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    Safetensors bad = good;
    std::string& changed = bad.metadata.at("heddle.model");
    const char* const pieces[] = {"null", "-1", "{}", "[]", "\"x\"", "3", "", "true", "1e300"};
    changed.replace(next(changed.size()), next(12), pieces[next(std::size(pieces))]);
    save_safetensors(path, bad);
    try {
      load_model(path);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
}

TEST_CASE("a model is loaded without drawing random numbers") {
  const test::TemporaryFile file;
  save_model(file.path, Sequential{Dense(3, 4), Lstm(4, 2), Embedding(5, 3)});
  manual_seed(7);
  const NDArray wanted = default_generator().uniform({4});
  manual_seed(7);
  load_model(file.path);
  CHECK(default_generator().uniform({4}).to_vector<float>() == wanted.to_vector<float>());
}

TEST_CASE("a model's file has the options of recurrent layers") {
  const test::TemporaryFile file;
  Sequential net{Lstm(3, 4, {.bidirectional = true, .proj_size = 2, .peepholes = true}),
                 Gru(4, 5, {.last_only = true, .reset_after = false}), Dense(5, 2)};
  save_model(file.path, net);
  const std::shared_ptr<Module> loaded = load_model(file.path);
  CHECK(loaded->to_string() == net.to_string());
  CHECK(net.to_string().find("Gru(4, 5, last_only, no reset_after)") != std::string::npos);
  const NDArray x = Generator(1).normal({2, 6, 3});
  CHECK((*loaded)(x).shape() == Shape{2, 2});
  check_equal((*loaded)(x), net(x));
}

TEST_CASE("arrays with several names are one again in a loaded model") {
  const test::TemporaryFile file;
  const Symbol x = input("x", {kInferred, 4});
  const NDArray c = full({4}, 2.0F);
  Model model({x}, {connect("add", {connect("multiply", {x, OperatorValue(c)}), OperatorValue(c)})});
  save_model(file.path, model);
  const std::shared_ptr<Module> loaded = load_model(file.path);
  check_equal((*loaded)(ones({1, 4})), model(ones({1, 4})));

  struct Tie : Dense {
    Tie() : Dense(4, 4) {}
    using Module::set;
  };
  Tie first, second;
  (void)second.set("weight", first.parameters()[0].value);
  Sequential net{static_cast<Dense&>(first), static_cast<Dense&>(second)};
  save_model(file.path, net);
  const std::shared_ptr<Module> tied = load_model(file.path);
  CHECK(tied->parameters().size() == 3);
  check_equal((*tied)(ones({1, 4})), net(ones({1, 4})));
  tied->parameters()[0].value.detach().assign(zeros({4, 4}));
  check_equal((*tied)(ones({1, 4})), tied->parameters()[2].value.view_as({1, 4}));
}

TEST_CASE("a layer of a class of the program's own is not saved as the library's") {
  struct More : Dense {
    More() : Dense(2, 2) { (void)parameter("extra", ones({2})); }
  };
  const test::TemporaryFile file;
  CHECK(message_of<InvalidArgument>([&] { save_model(file.path, More()); }).find("program's own") !=
        std::string::npos);
}

TEST_CASE("long chains of symbols are destroyed without recursion, and modules too deep in a file refused") {
  {
    Symbol x = input("x", {1});
    for (int i = 0; i < 100'000; ++i) x = connect("negative", {x});
  }
  const test::TemporaryFile file;
  std::string modules = R"({"layer":"Relu","arguments":{}})";
  for (int i = 0; i < 5000; ++i) modules += ",{\"sequential\":[" + std::to_string(i) + "]}";
  save_safetensors(
      file.path,
      {.arrays = {},
       .metadata = {{"heddle.model",
                     R"({"version":1,"root":5000,"frozen":[],"shared":{},"modules":[)" + modules + "]}"}}});
  CHECK(message_of<Error>([&] { load_model(file.path); }).find("1000 deep") != std::string::npos);
  // A module that holds another one twice, many levels deep, is walked through once.
  auto net = std::make_shared<Sequential>(Relu());
  for (int i = 0; i < 60; ++i) {
    const auto outer = std::make_shared<Sequential>();
    outer->add(net);
    outer->add(net);
    net = outer;
  }
  net->train(false);
  CHECK(net->state().empty());
}

TEST_CASE("modules that forward() replaces are kept while a model is built") {
  struct Replacing : Module {
    Sequential inner = child("inner", Sequential(Dense(4, 4), Dense(4, 4)));
    NDArray forward(const NDArray& x) override {
      set("inner", std::make_shared<Sequential>(Dense(4, 4)));
      return x;
    }
  };
  const Symbol x = input("x", {kInferred, 4});
  for (int i = 0; i < 20; ++i) connect(std::make_shared<Replacing>(), x);
  Replacing replacing;
  CHECK(summarize(replacing, {ones({2, 4})}).rows.size() == 1);
}

TEST_CASE("a module of one symbol has all its results, and examples take no memory") {
  const Symbol x = input("x", {kInferred, 5, 4});
  const auto lstm = std::make_shared<Lstm>(4, 3);
  CHECK(connect_all(lstm, {x}).size() == 3);
  Model two({x}, connect_all(lstm, {x}));
  CHECK(connect_all(std::make_shared<Model>(two), {input("y", {2, 5, 4})}).size() == 3);
  CHECK(input("huge", {1LL << 40}).shape() == Shape{1LL << 40});
}

TEST_CASE("a model has a summary, and hooks in it are called") {
  Router router;
  int calls = 0;
  HookHandle handle = router.words.after_call([&](const Module&, auto, auto) { ++calls; });
  const ModuleSummary summary = summarize(router.model, {numbers({2, 5}, 11), numbers({2, 7}, 11)});
  CHECK(calls == 2);
  CHECK(summary.rows[0].outputs == std::vector<Shape>{{2, 1}, {2, 3}});
  CHECK(summary.rows[0].multiply_adds == 2 * 8 * 1 + 2 * 8 * 3);
}
