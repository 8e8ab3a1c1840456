// Modules of a user's own: what is registered, and what is not.
#include <memory>
#include <message_of.h>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/dlpack.h>
#include <heddle/layers.h>
#include <heddle/module.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>
#include <heddle/weights.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<Parameter>& parameters) {
  Names names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

// A block with everything that can be registered.
struct Normed : Module {
  Dense inner = child("inner", Dense(2, 2));
  NDArray gain = parameter("gain", ones({2}));
  NDArray mean_of_all = buffer("mean", zeros({2}));
  NDArray scratch = buffer("scratch", zeros({2}), false);
  NDArray forward(const NDArray& x) override {
    if (training()) {
      const NoGrad no_grad;
      scratch.assign(mean(x, 0));
      mean_of_all += scratch;
    }
    return (inner(x) - mean_of_all) * gain;
  }
};

struct Net : Module {
  Normed first = child("first", Normed()), second = child("second", Normed());
  Sequential rest = child("rest", Sequential(Relu(), Dense(2, 1)));
  NDArray forward(const NDArray& x) override { return rest(second(first(x))); }
};

std::string refused(Module& module, const NDArray& x = ones({3, 2})) {
  return message_of<InvalidArgument>([&] { module(x); });
}

}  // namespace

TEST_CASE("what is registered is found under its path, in the order of registration") {
  Net net;
  CHECK(names_of(net.parameters()) == Names{"first.inner.weight", "first.inner.bias", "first.gain",
                                            "second.inner.weight", "second.inner.bias", "second.gain",
                                            "rest.1.weight", "rest.1.bias"});
  CHECK(names_of(net.first.state()) == Names{"inner.weight", "inner.bias", "gain", "mean"});
  CHECK(net.state().size() == 10);
  CHECK(net.children().size() == 3);
  CHECK(net.children()[1].name == "second");
  CHECK(
      net.to_string() ==
      "Net{\n  first: Normed{\n    inner: Dense(2, 2)\n  }\n  second: Normed{\n    inner: Dense(2, 2)\n  }\n"
      "  rest: Sequential{\n    Relu\n    Dense(2, 1)\n  }\n}");
  backward(sum(net(ones({3, 2}))));
  for (const Parameter& parameter : net.parameters()) {
    CAPTURE(parameter.name);
    CHECK(grad(parameter.value).defined());
  }
  CHECK(net.first.mean_of_all.to_vector<float>() == std::vector<float>{1, 1});
}

TEST_CASE("copies of a module are the same module, as values and behind pointers") {
  Net net;
  const Net copy = net;
  CHECK(copy.parameters()[0].value.var() == net.parameters()[0].value.var());
  net.train(false);
  CHECK(!copy.training());
  CHECK(!copy.first.training());
  CHECK(!net.children()[0].module->training());
  net(ones({3, 2}));
  CHECK(net.first.mean_of_all.to_vector<float>() == std::vector<float>{0, 0});
  net.train();
  CHECK(copy.second.inner.training());
}

TEST_CASE("an array under two names is trained and saved once") {
  struct Tied : Module {
    Embedding table = child("table", Embedding(5, 3));
    NDArray weight = parameter("weight", table.parameters()[0].value);
    NDArray forward(const NDArray& ids) override { return matmul(table(ids), transpose(weight)); }
  };
  Tied tied;
  CHECK(names_of(tied.parameters()) == Names{"table.weight"});
  CHECK(names_of(tied.state()) == Names{"table.weight"});
  CHECK(tied(zeros({2}, DType::i64)).shape() == Shape{2, 5});
}

TEST_CASE("two leaves of one memory are two parameters, which a trainer refuses") {
  struct Twice : Module {
    explicit Twice(const NDArray& weights) : in(parameter("in", weights)), out(parameter("out", weights)) {}
    NDArray in, out;
  };
  CHECK(names_of(Twice(ones({2})).parameters()) == Names{"in", "out"});
}

TEST_CASE("forward() may compute gradients, which add to those that parameters have") {
  struct Score : Module {
    NDArray weight = parameter("weight", ones({2}));
    NDArray forward(const NDArray& x) override {
      backward(sum(x * weight));
      return x * weight;
    }
  } score;
  backward(sum(score.weight * 2));
  score(ones({2}));
  CHECK(grad(score.weight).to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("frozen parameters are not trained, and still saved") {
  Net net;
  net.first.freeze();
  CHECK(net.parameters().size() == 5);
  CHECK(net.parameters()[0].name == "second.inner.weight");
  CHECK(net.state().size() == 10);
  backward(sum(net(ones({3, 2}))));
  CHECK(!requires_grad(net.first.gain));
  CHECK(!grad(net.first.gain).defined());
  CHECK(grad(net.second.gain).defined());
  net.freeze(false);
  CHECK(net.parameters().size() == 8);
  backward(sum(net(ones({3, 2}))));
  CHECK(grad(net.first.gain).defined());
}

TEST_CASE("weights are loaded into the whole state") {
  Net from, to;
  from(ones({3, 2}));
  std::map<std::string, NDArray> arrays;
  for (const Parameter& one : from.state()) arrays[one.name] = one.value;
  CHECK(load_weights(to.state(), arrays).complete());
  from.train(false);
  to.train(false);
  CHECK(to(ones({1, 2})).to_vector<float>() == from(ones({1, 2})).to_vector<float>());
  CHECK(to.first.mean_of_all.to_vector<float>() == std::vector<float>{1, 1});
}

TEST_CASE("a module has as many arguments and results as it wants") {
  struct Attention : Module {
    Dense query = child("query", Dense(2, 2));
    std::pair<NDArray, NDArray> operator()(const NDArray& x, const NDArray& memory,
                                           Where where = Where::current()) {
      return call(
          {x, memory},
          [&] {
            const NDArray weights = softmax(matmul(query(x), transpose(memory)));
            return std::pair(matmul(weights, memory), weights);
          },
          where);
    }
  };
  struct Both : Module {
    Attention attention = child("attention", Attention());
    NDArray forward(const NDArray& x) override { return attention(x, x).first; }
  };
  Attention attention;
  const auto [y, weights] = attention(ones({3, 2}), ones({4, 2}));
  CHECK(y.shape() == Shape{3, 2});
  CHECK(weights.shape() == Shape{3, 4});
  CHECK(names_of(Both().parameters()) == Names{"attention.query.weight", "attention.query.bias"});
  CHECK(Both()(ones({3, 2})).shape() == Shape{3, 2});
  CHECK(message_of<InvalidArgument>([&] {
          static_cast<Module&>(attention)(ones({3, 2}));
        }) == "Attention: forward(x) is missing; the module does not take one array alone");
}

TEST_CASE("an array of forward() that belongs to nobody is an error") {
  struct Forgotten : Module {
    Dense inner{2, 2};
    NDArray forward(const NDArray& x) override { return inner(x); }
  } forgotten;
  const std::string advice =
      ", which is neither an argument nor registered; it requires a gradient: register it in the constructor "
      "by "
      "parameter(name, array), or the module that has it by child(name, module)";
  CHECK(refused(forgotten) == "Forgotten: forward() computes with an array of f32 (2, 2)" + advice);

  struct Leaf : Module {
    NDArray gain = ones({2});
    NDArray forward(const NDArray& x) override { return x * gain; }
  } leaf;
  CHECK(leaf(ones({3, 2})).shape() == Shape{3, 2});  // an array without a gradient is a constant
  set_requires_grad(leaf.gain);
  Relu().train();
  CHECK_NOTHROW(leaf(ones({3, 2})));  // looked at already, and nothing was registered since
  Leaf another;
  set_requires_grad(another.gain);
  CHECK(refused(another) == "Leaf: forward() computes with an array of f32 (2,)" + advice);
  Sequential holds(another);
  CHECK(refused(holds) == "Sequential{\n  Leaf\n}: forward() computes with an array of f32 (2,)" + advice);
  {
    const NoGrad no_grad;
    CHECK(another(ones({3, 2})).shape() == Shape{3, 2});
  }

  struct Counts : Module {
    NDArray count = zeros({});
    NDArray forward(const NDArray& x) override {
      count += 1;
      return x * 2;
    }
  } counts;
  CHECK(refused(counts) ==
        "Counts: forward() changes an array of f32 (), which is neither an argument nor registered; register "
        "it in "
        "the constructor by buffer(name, array), or the module that has it by child(name, module)");
  counts.train(false);
  CHECK(refused(counts).starts_with("Counts: forward() changes"));  // each mode is looked at
}

TEST_CASE("what forward() is given or makes itself is no error") {
  struct Scales : Module {
    NDArray forward(const NDArray& x) override {
      NDArray y = zeros(x.shape());
      y += x.detach();
      NDArray slope = ones({2});
      set_requires_grad(slope);
      NDArray given = x;
      if (!requires_grad(x)) given += 1;
      return y * slope;
    }
  } scales;
  CHECK(scales(ones({3, 2})).shape() == Shape{3, 2});
  NDArray x = ones({3, 2});
  set_requires_grad(x);
  CHECK(scales(x).shape() == Shape{3, 2});
  CHECK(scales(x * 2).shape() == Shape{3, 2});
  struct Lazy : Module {
    NDArray weight;
    NDArray forward(const NDArray& x) override {
      if (!weight.defined()) weight = parameter("weight", ones({x.shape()[1]}));
      return x * weight;
    }
  } lazy;
  CHECK(lazy(x).shape() == Shape{3, 2});
  CHECK(names_of(lazy.parameters()) == Names{"weight"});
}

TEST_CASE("registering refuses what would be lost") {
  struct Open : Module {
    using Module::buffer, Module::child, Module::parameter, Module::remove, Module::set;
  } open;
  const auto parameter = [&](const std::string& name, const NDArray& value) {
    return message_of<InvalidArgument>([&] { static_cast<void>(open.parameter(name, value)); });
  };
  static_cast<void>(open.parameter("a", ones({2})));
  CHECK(parameter("a", ones({2})) == "Open: there are two 'a'");
  CHECK(parameter("a.b", ones({2})) == "Open: 'a.b' names nothing in a module; want a name without a dot");
  CHECK(parameter("", ones({2})) == "Open: '' names nothing in a module; want a name without a dot");
  CHECK(
      parameter("c", NDArray()) ==
      "Open: 'c': an array is undefined: made without a shape, moved from, or a gradient before backward()");
  CHECK(parameter("c", ones({2}, DType::i32)) ==
        "Open: parameter 'c' is i32; want a floating array, or a buffer");
  NDArray x = ones({2});
  set_requires_grad(x);
  CHECK(parameter("c", x * 2) == "Open: parameter 'c' was computed from others; detach() it");
  CHECK(message_of<InvalidArgument>([&] { open.buffer("c", x); }) ==
        "Open: buffer 'c' requires a gradient; detach() it");
  CHECK(message_of<InvalidArgument>([&] { open.child("a", Relu()); }) == "Open: there are two 'a'");
  CHECK(message_of<InvalidArgument>([&] { open.child("c", std::shared_ptr<Module>()); }) ==
        "Open: child 'c' is null");
  CHECK(message_of<InvalidArgument>([&] { open.child("c", Sequential(Open(open))); }) ==
        "Open: child 'c' is, or holds, this module; want another one");
  CHECK(names_of(open.state()) == Names{"a"});
  open.set("a", std::make_shared<Dense>(2, 1));
  CHECK(names_of(open.state()) == Names{"a.weight", "a.bias"});
  NDArray leaf = ones({3});
  open.set("b", leaf);
  CHECK(open.state().size() == 2);
  set_requires_grad(leaf);
  open.set("b", leaf);
  CHECK(names_of(open.parameters()) == Names{"a.weight", "a.bias", "b"});
  CHECK(message_of<InvalidArgument>([&] { open.set("b", leaf * 2); }) ==
        "Open: parameter 'b' was computed from others; detach() it");
  CHECK(open.set("b", leaf).grad_meta() == leaf.grad_meta());
  open.freeze();
  const NDArray instead = open.set("b", ones({3}));
  CHECK(open.parameters().empty());
  open.freeze(false);
  CHECK(requires_grad(instead));
  open.buffer("d", ones({2}));
  open.set("d", zeros({1}));
  CHECK(open.state().back().value.shape() == Shape{1});
  open.set("a", zeros({1}));
  open.remove("a");
  CHECK(names_of(open.state()) == Names{"b", "d"});
}

TEST_CASE("Module::to moves parameters, buffers, gradients and the arrays that share their memory") {
  Sequential net{Dense(3, 4), BatchNorm(4)};
  const NDArray x = arange(6).view({2, 3});
  sum(square(net(x))).backward();
  std::vector<std::vector<float>> before;
  for (const Parameter& one : net.state()) before.push_back(one.value.detach().to_vector<float>());
  const NDArray weight = net.state()[0].value, row = weight.detach()[0], grad = weight.grad();
  const std::vector<float> slope = grad.to_vector<float>();
  net.to(cpu(1));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const NDArray value = net.state()[i].value;
    CHECK(value.device() == cpu(1));
    CHECK(value.detach().to_vector<float>() == before[i]);
  }
  CHECK(weight.device() == cpu(1));
  CHECK(row.device() == cpu(1));
  CHECK(grad.device() == cpu(1));
  CHECK(grad.to_vector<float>() == slope);
  CHECK(net(x.copy_to(cpu(1))).device() == cpu(1));
  CHECK_THROWS_AS(net(x), InvalidArgument);  // arrays on two devices
  row.fill(7);
  CHECK(weight.detach().to_vector<float>()[2] == 7);
  net.to(cpu());
  CHECK(net(x).device() == cpu());
  CHECK(weight.detach().to_vector<float>()[0] == 7);
}

TEST_CASE("Module::to moves row-sparse gradients") {
  Sequential net{Embedding(6, 2, {.sparse_grad = true})};
  const NDArray weight = net.parameters()[0].value;
  sum(square(net(array<std::int64_t>({1, 4})))).backward();
  const std::vector<float> before = to_dense(row_sparse_grad(weight)).to_vector<float>();
  net.to(cpu(1));
  const RowSparse rows = row_sparse_grad(weight);
  for (const NDArray& part : {rows.rows(), rows.values(), rows.count()}) CHECK(part.device() == cpu(1));
  CHECK(to_dense(rows).to_vector<float>() == before);
}

TEST_CASE("Module::to leaves the memory that other libraries were shown to them") {
  Sequential net{Dense(30, 40)};
  const NDArray weight = net.parameters()[0].value.detach();
  const std::vector<float> before = weight.to_vector<float>();
  const std::int64_t size = weight.size();
  auto* const first = to_dlpack(weight);
  net.to(cpu(1));
  auto* const second = to_dlpack(weight);
  weight.fill(3);
  net.to(cpu());
  weight.fill(4);
  // What was freed would be used again now.
  std::vector<NDArray> others;
  for (int i = 0; i < 8; ++i) others.push_back(full({size}, 7));
  current_engine().wait_all();
  const auto shown = [&](const heddle_dl_managed_tensor_versioned* tensor) {
    const auto* const data = static_cast<const float*>(tensor->tensor.data);
    return std::vector<float>(data, data + size);
  };
  CHECK(shown(first) == before);
  CHECK(shown(second) == std::vector<float>(before.size(), 3));
  first->deleter(first), second->deleter(second);
  CHECK(weight.to_vector<float>() == std::vector<float>(before.size(), 4));
}

TEST_CASE("Module::to: layers whose sizes are not known yet make their arrays where the first input is") {
  Sequential net{Dense(kInferred, 4), BatchNorm(kInferred)};
  net.to(cpu(1));
  net(ones({2, 3}, DType::f32, cpu(1)));
  for (const Parameter& one : net.state()) CHECK(one.value.device() == cpu(1));
}

TEST_CASE("Module::to leaves all where it was after an error") {
  Sequential net{Dense(3, 4), Dense(4, 2)};
  const NDArray bias = net.state()[3].value;
  array_push("break", {}, {bias.detach()}, [] { throw Error("broken"); });
  CHECK_THROWS_WITH_AS(net.to(cpu(1)), doctest::Contains("broken"), Error);
  for (const Parameter& one : net.state()) CHECK(one.value.device() == cpu());
  CHECK_THROWS_AS(net.to(gpu(77)), Error);
  for (const Parameter& one : net.state()) CHECK(one.value.device() == cpu());
  CHECK_THROWS_AS(current_engine().wait_all(), Error);
}
