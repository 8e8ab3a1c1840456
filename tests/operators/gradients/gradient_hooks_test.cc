// Tests of on_gradient(), which adds hooks to gradients, and of FindNaN.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/ops.h>

using namespace heddle;

namespace {

using Doubles = std::vector<double>;

NDArray leaf(std::initializer_list<double> values) {
  NDArray x = array<double>(values);
  set_requires_grad(x);
  return x;
}

Doubles gradient_of(const NDArray& x) { return grad(x).to_vector<double>(); }

}  // namespace

TEST_CASE("a hook sees the complete gradient of an array, and may change it") {
  const NDArray x = leaf({1, 2});
  const NDArray y = x * 3;
  std::vector<Doubles> seen;
  on_gradient(y, [&](const NDArray& g) {
    seen.push_back(g.to_vector<double>());
    return g * 10;
  });
  on_gradient(x, [&](const NDArray& g) {
    seen.push_back(g.to_vector<double>());
    return NDArray();
  });
  backward(sum(y) + sum(y * y) + sum(x[1]));  // y is used three times; its gradient is 1 + 2y
  CHECK(seen == std::vector<Doubles>{{7, 13}, {210, 391}});
  CHECK(gradient_of(x) == Doubles{210, 391});
  backward(sum(x * 2));
  CHECK(gradient_of(x) == Doubles{212, 393});
  CHECK(seen.back() == Doubles{2, 2});
}

TEST_CASE("hooks of a leaf change what is added to it, in every kind of pass") {
  const NDArray x = leaf({3, -4});
  on_gradient(x, [](const NDArray& g) { return clip(g, -1, 1); });
  on_gradient(x, [](const NDArray& g) { return g * 2; });
  backward(sum(x * x));
  CHECK(gradient_of(x) == Doubles{2, -2});
  CHECK(grad({sum(x * x)}, {x})[0].to_vector<double>() == Doubles{2, -2});
  clear_grad(x);
  backward(sum(x.slice(0, {1, 2}) * 0.25), {.create_graph = true});
  CHECK(gradient_of(x) == Doubles{0, 0.5});
}

TEST_CASE("wrong hooks") {
  const NDArray x = leaf({1}), y = exp(x);
  CHECK_THROWS_WITH_AS(on_gradient(x, {}), "on_gradient: the hook is empty", InvalidArgument);
  CHECK_THROWS_WITH_AS(
      on_gradient(x.detach(), [](const NDArray& g) { return g; }),
      "on_gradient: the array requires no gradient; call set_requires_grad on x before it is computed from x",
      InvalidArgument);
  on_gradient(y, [](const NDArray&) { return zeros({2}, DType::f64); });
  CHECK_THROWS_WITH_AS(
      backward(y), "on_gradient: the hook of exp returned f64(2,) on cpu(0) for a gradient f64(1,) on cpu(0)",
      Error);
}

TEST_CASE("FindNaN names the operator whose gradient first has NaN, and its line") {
  const NDArray x = leaf({0, 1});
  // The gradient of sqrt at 0 is infinite; times 0 it becomes NaN.
  const auto loss = [&] { return sum(exp(sqrt(x * 0) * x)); };
  const int line = __LINE__ - 1;
  backward(loss());
  CHECK(std::isnan(gradient_of(x)[0]));
  const FindNaN finder;
  std::string message;
  try {
    backward(loss());
  } catch (const Error& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("its gradient for input 0 has NaN, the first one of this pass; called at ") !=
        std::string::npos);
  CHECK(message.ends_with("gradient_hooks_test.cc:" + std::to_string(line)));
  CHECK((message.starts_with("sqrt: ") || message.starts_with("multiply: ")));
  backward(sum(x));
}

TEST_CASE("what a hook keeps or returns is changed by nobody") {
  const NDArray x = leaf({1, 2}), constant = array<double>({1, 1});
  std::vector<NDArray> seen;
  on_gradient(x, [&](const NDArray& g) {
    seen.push_back(g);
    return NDArray();
  });
  for (int pass = 0; pass < 3; ++pass) backward(sum(x * x));
  for (const NDArray& gradient : seen) CHECK(gradient.to_vector<double>() == Doubles{2, 4});
  CHECK(gradient_of(x) == Doubles{6, 12});

  const NDArray w = leaf({1, 2});
  on_gradient(w, [&](const NDArray&) { return constant; });
  for (int pass = 0; pass < 3; ++pass) backward(sum(w * w));
  CHECK(gradient_of(w) == Doubles{3, 3});
  CHECK(constant.to_vector<double>() == Doubles{1, 1});

  const NDArray itself = leaf({1, 2});
  on_gradient(itself, [&](const NDArray&) { return itself.detach(); });
  for (int pass = 0; pass < 2; ++pass) backward(sum(itself * itself));
  CHECK(itself.to_vector<double>() == Doubles{1, 2});
  CHECK(gradient_of(itself) == Doubles{2, 4});
}

TEST_CASE("what hooks of arrays on the way keep stays as it was") {
  const NDArray x = leaf({1, 2});
  std::vector<NDArray> seen;
  for (int pass = 0; pass < 3; ++pass) {
    const NDArray y = x.view_as({2, 1});
    on_gradient(y, [&](const NDArray& g) {
      seen.push_back(g);
      return g;
    });
    const NDArray gradient = grad({sum(y * y)}, {y}, {.keep_tape = true})[0];
    backward(sum(y * y));
    gradient.fill(7);
  }
  for (const NDArray& gradient : seen) CHECK(gradient.to_vector<double>() == Doubles{2, 4});
  CHECK(gradient_of(x) == Doubles{6, 12});
}

TEST_CASE("a gradient on another device or of another engine is refused where it comes from") {
  Engine other({.workers = 1});
  const NDArray x = leaf({1, 2});
  const auto elsewhere = [&](bool engine) {
    const EngineScope scope(engine ? other : current_engine());
    return full({2}, 1, DType::f64, engine ? cpu() : cpu(1));
  };
  const auto custom = [&](bool engine) {
    NDArray y = (x * 1).detach();
    record("mine", y, {x}, {}, [=](const NDArray&) { return std::vector{elsewhere(engine)}; });
    backward(sum(y));
  };
  CHECK_THROWS_WITH_AS(custom(false),
                       "mine: its gradient is f64(2,) on cpu(1) where the input is f64(2,) on cpu(0)", Error);
  CHECK_THROWS_WITH_AS(custom(true), "mine: its gradient belongs to another engine than the input", Error);
  for (const bool engine : {false, true}) {
    const NDArray w = leaf({1, 2});
    on_gradient(w, [=](const NDArray&) { return elsewhere(engine); });
    CHECK_THROWS_AS(backward(sum(w)), Error);
  }
}

TEST_CASE("an operator of the user may keep the gradients that it returns") {
  const NDArray w = leaf({1, 2}), kept = array<double>({1, 1});
  const auto fused = [&] {
    NDArray y = (w * 1).detach();
    record("fused", y, {w}, {}, [&](const NDArray&) { return std::vector{kept}; });
    return sum(y);
  };
  for (int pass = 0; pass < 3; ++pass) backward(fused());
  CHECK(gradient_of(w) == Doubles{3, 3});
  backward(fused() + fused() + fused());
  CHECK(gradient_of(w) == Doubles{6, 6});
  CHECK(kept.to_vector<double>() == Doubles{1, 1});

  const NDArray lent = array<double>({0, 0}), v = leaf({1, 2});
  lend_gradient_memory(v, lent);
  NDArray y = (v * 1).detach();
  record("computes_in_lent_memory", y, {v}, {}, [](const NDArray& g) {
    const NDArray gradient = make_gradient(0, g);
    gradient.fill(5);
    return std::vector{gradient};
  });
  backward(sum(y));
  CHECK(grad(v).storage() == lent.storage());
}

TEST_CASE("a hook may add hooks, and run the tape that it is on") {
  const NDArray x = leaf({1, 2});
  int calls = 0;
  on_gradient(x, [&](const NDArray&) {
    for (int i = 0; i < 20; ++i) {
      on_gradient(x, [&](const NDArray&) {
        ++calls;
        return NDArray();
      });
    }
    return NDArray();
  });
  backward(sum(x * x));
  CHECK(calls == 0);
  backward(sum(x * x));
  CHECK(calls == 20);
  CHECK(gradient_of(x) == Doubles{4, 8});

  const NDArray w = leaf({1, 2}), y = exp(w * 2), loss = sum(y);
  bool inside = false;
  on_gradient(y, [&](const NDArray&) {
    if (std::exchange(inside, true)) return NDArray();
    backward(loss);
    return NDArray();
  });
  CHECK_THROWS_WITH_AS(
      backward(loss, {.keep_tape = true}),
      "backward: the tape of multiply was freed by a backward() that a hook or a gradient ran; give that one "
      "keep_tape = true",
      Error);
}

TEST_CASE("a hook keeps what it gets of a leaf that memory was lent for") {
  const NDArray x = leaf({1, 2}), memory = array<double>({0, 0});
  std::vector<NDArray> seen;
  on_gradient(x, [&](const NDArray& g) {
    seen.push_back(g);
    return g;
  });
  for (const double factor : {2, 3}) {
    clear_grad(x);
    lend_gradient_memory(x, memory);
    const NDArray rows = x.view_as({1, 2});
    backward(sum(matmul(rows, full({2, 1}, factor, DType::f64))));
  }
  CHECK(seen[0].to_vector<double>() == Doubles{2, 2});
  CHECK(seen[1].to_vector<double>() == Doubles{3, 3});
}

TEST_CASE("with create_graph a leaf's gradient is not the array that a hook keeps") {
  const NDArray x = leaf({1, 2}), constant = array<double>({5, 5});
  on_gradient(x, [&](const NDArray&) { return constant; });
  backward(sum(x * x), {.create_graph = true});
  {
    const NoGrad no_grad;
    grad(x).fill(0);
  }
  CHECK(constant.to_vector<double>() == Doubles{5, 5});
  clear_grad(x);
}

TEST_CASE("a seed is on the device of the root") {
  const NDArray x = leaf({1, 2}), seed = full({2}, 1, DType::f64, cpu(1));
  CHECK_THROWS_WITH_AS(backward(x * 2, seed), "backward: seed is on cpu(1) where root is on cpu(0)",
                       InvalidArgument);
}

TEST_CASE("an array that a hook changes in place while it is saved for a gradient is an error") {
  const NDArray x = leaf({1, 2}), w = leaf({1, 1});
  const NDArray h = x * w, loss = sum(h * w);
  on_gradient(h, [&](const NDArray& g) {
    NDArray changed = w;
    changed -= g * 0.5;
    return g;
  });
  CHECK_THROWS_WITH_AS(grad({loss}, {x}),
                       "multiply: an array saved for its gradient was changed in place after it was recorded",
                       Error);
}
