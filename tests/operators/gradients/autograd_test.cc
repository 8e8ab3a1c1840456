#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/graph.h>
#include <heddle/ops.h>

#include "arguments.h"

namespace heddle {

namespace {

NDArray leaf(const std::vector<double>& values, Shape shape) {
  NDArray x = array<double>(values, shape);
  set_requires_grad(x);
  return x;
}

NDArray leaf(double value) { return leaf({value}, {}); }

double gradient_of(const NDArray& x) { return grad(x).item<double>(); }

}  // namespace

TEST_CASE("an array needs a gradient if it is a leaf or was computed from one") {
  NDArray x = array<double>({1, 2}), y = array<double>({3, 4});
  CHECK_FALSE(requires_grad(x));
  set_requires_grad(x);
  CHECK(requires_grad(x));
  CHECK(requires_grad(x + y));
  CHECK_FALSE(requires_grad(y + y));
  CHECK_FALSE(requires_grad(x.detach() + y));
  CHECK_FALSE(requires_grad(x < y));
  CHECK_FALSE(requires_grad(argmax(x)));
  CHECK_FALSE(requires_grad(cast(x, DType::i32)));
  set_requires_grad(x, false);
  CHECK_FALSE(requires_grad(x));
  CHECK_FALSE(requires_grad(x + y));
}

TEST_CASE("set_requires_grad refuses arrays that have no gradient, and computed ones to be turned off") {
  NDArray i = arange(0, 3, 1, DType::i32), none, x = leaf(1);
  CHECK_THROWS_WITH_AS(set_requires_grad(i),
                       "set_requires_grad: dtype i32; only floating arrays have gradients", InvalidArgument);
  CHECK_THROWS_AS(set_requires_grad(none), InvalidArgument);
  NDArray y = x * 2;
  set_requires_grad(y);
  CHECK_THROWS_WITH_AS(set_requires_grad(y, false),
                       "set_requires_grad: the array was computed from others; detach() it instead",
                       InvalidArgument);
}

TEST_CASE("uses of one array add up") {
  NDArray x = leaf(3);
  const NDArray y = x * x, z = y + y * x + x;
  CHECK_FALSE(grad(x).defined());
  backward(z);
  CHECK(gradient_of(x) == doctest::Approx(2 * 3 + 3 * 9 + 1));
}

TEST_CASE("gradients of several backward passes add up, in the same memory, until cleared") {
  NDArray x = leaf(2);
  backward(square(x));
  const NDArray first = grad(x);
  backward(square(x) * 3);
  CHECK(gradient_of(x) == 16);
  CHECK(grad(x).storage() == first.storage());
  clear_grad(x);
  CHECK_FALSE(grad(x).defined());
  backward(x * 5);
  CHECK(gradient_of(x) == 5);
  CHECK(first.item<double>() == 16);
}

TEST_CASE("a gradient is computed in memory that was lent for it, if that is free") {
  NDArray w = leaf({1, 2, 3, 4}, {2, 2});
  const NDArray x = array<double>({1, 0, 0, 1}, {2, 2}), memory = full({2, 2}, 7, DType::f64);
  lend_gradient_memory(w, memory);
  backward(sum(matmul(x, w)));
  CHECK(grad(w).storage() == memory.storage());
  backward(sum(matmul(x, w)) * 2);  // this gradient is added to the first one, in `memory`
  CHECK(grad(w).storage() == memory.storage());
  CHECK(memory.to_vector<double>() == std::vector<double>{3, 3, 3, 3});

  clear_grad(w);
  backward(sum(matmul(x, w)));  // uses other memory: `memory` was lent for one gradient only
  CHECK(grad(w).storage() != memory.storage());

  clear_grad(w);
  lend_gradient_memory(w, memory);
  backward(sum(matmul(w, w)));  // w gets two gradients: one is written to the memory, the other is added
  CHECK(grad(w).storage() == memory.storage());
  CHECK(memory.to_vector<double>() == std::vector<double>{7, 11, 9, 13});

  clear_grad(w);
  lend_gradient_memory(w, memory);
  backward(sum(w * 3));  // the gradient of multiply cannot be computed in lent memory
  CHECK(grad(w).storage() != memory.storage());
  CHECK(grad(w).to_vector<double>() == std::vector<double>{3, 3, 3, 3});

  clear_grad(w);
  lend_gradient_memory(w, {});
  backward(sum(matmul(x, w)));
  CHECK(grad(w).storage() != memory.storage());
  CHECK(memory.to_vector<double>() == std::vector<double>{7, 11, 9, 13});
}

TEST_CASE("layers compute their weights' gradients in memory that was lent") {
  const auto lend = [](NDArray& weight) {
    const NDArray memory = full(weight.shape(), 7, weight.dtype());
    lend_gradient_memory(weight, memory);
    return memory;
  };
  const auto by_hand = [](const NDArray& weight, const auto& loss) {
    lend_gradient_memory(weight, {});
    clear_grad(weight);
    backward(loss());
    return grad(weight).template to_vector<double>();
  };
  Generator random(3);
  const auto normal = [&](Shape shape) { return random.normal(std::move(shape)).astype(DType::f64); };
  NDArray dense = normal({3, 4}), image = normal({2, 1, 3, 3}), table = normal({5, 2});
  const NDArray x = normal({2, 4}), pixels = normal({1, 1, 5, 5}),
                rows = array<std::int64_t>({1, 3, 1}, Shape{3});
  const auto through_dense = [&] { return sum(square(linear(x, dense, {}))); };
  const auto through_image = [&] { return sum(square(conv2d(pixels, image, {}))); };
  const auto through_table = [&] { return sum(square(take(table, rows))); };
  const auto check = [&](NDArray& weight, const auto& loss) {
    set_requires_grad(weight);
    const NDArray memory = lend(weight);
    backward(loss());
    CHECK(grad(weight).storage() == memory.storage());
    const std::vector<double> there = memory.to_vector<double>();
    CHECK(there == by_hand(weight, loss));
  };
  check(dense, through_dense);
  check(image, through_image);
  check(table, through_table);
}

TEST_CASE("memory that is no gradient's is refused") {
  NDArray w = leaf({1, 2, 3, 4}, {2, 2});
  CHECK_THROWS_AS(lend_gradient_memory(w, zeros({2, 2})), InvalidArgument);
  CHECK_THROWS_AS(lend_gradient_memory(w, zeros({4}, DType::f64)), InvalidArgument);
  CHECK_THROWS_AS(lend_gradient_memory(w, zeros({2, 2}, DType::f64, cpu(1))), InvalidArgument);
  CHECK_THROWS_AS(lend_gradient_memory(w, transpose(zeros({2, 2}, DType::f64))), InvalidArgument);
  CHECK_THROWS_AS(lend_gradient_memory(w, zeros({3, 2}, DType::f64).slice(0, {0, 2})), InvalidArgument);
  CHECK_THROWS_AS(lend_gradient_memory(w, w), InvalidArgument);
  CHECK_THROWS_WITH_AS(lend_gradient_memory(zeros({2, 2}), zeros({2, 2})),
                       "lend_gradient_memory: the array is no leaf; set_requires_grad comes first",
                       InvalidArgument);
  CHECK_THROWS_AS(lend_gradient_memory(w * 2, zeros({2, 2}, DType::f64)), InvalidArgument);
  CHECK_THROWS_AS(make_gradient(0, w), Error);
}

TEST_CASE("copies of a handle share the gradient") {
  NDArray x = leaf(2);
  const NDArray same = x;
  backward(same * x);
  CHECK(gradient_of(same) == 4);
  CHECK(gradient_of(x) == 4);
}

TEST_CASE("gradients of different leaves never share memory") {
  NDArray a = leaf({1, 2}, {2}), b = leaf({3, 4}, {2}), c = leaf({5, 6}, {2});
  const NDArray seed = array<double>({1, 1});
  backward(a + b - (-c), seed);
  for (const NDArray& x : {a, b, c}) {
    CHECK(grad(x).to_vector<double>() == std::vector<double>{1, 1});
    CHECK(grad(x).storage() != seed.storage());
  }
  CHECK(grad(a).storage() != grad(b).storage());
  CHECK(grad(a).storage() != grad(c).storage());
  CHECK(grad(b).storage() != grad(c).storage());
}

TEST_CASE("a gradient that passes through unchanged is nobody's to change") {
  NDArray x = leaf({1, 2}, {2}), y = leaf({3, 4}, {2});
  const NDArray seed = array<double>({1, 10});
  backward(x + 1, seed);
  backward(x + 1, seed);
  CHECK(grad(x).to_vector<double>() == std::vector<double>{2, 20});
  CHECK(seed.to_vector<double>() == std::vector<double>{1, 10});
  clear_grad(x);
  const NDArray a = x * 2, b = y * 3;
  backward((a + b) + a, seed);
  CHECK(grad(x).to_vector<double>() == std::vector<double>{4, 40});
  CHECK(grad(y).to_vector<double>() == std::vector<double>{3, 30});
  CHECK(seed.to_vector<double>() == std::vector<double>{1, 10});
}

TEST_CASE("backward from a leaf is its seed") {
  NDArray x = leaf({1, 2, 3}, {3});
  const NDArray seed = array<double>({4, 5, 6});
  backward(x, seed);
  backward(x, seed);
  CHECK(grad(x).to_vector<double>() == std::vector<double>{8, 10, 12});
  CHECK(seed.to_vector<double>() == std::vector<double>{4, 5, 6});
}

TEST_CASE("backward checks root and seed at the call") {
  NDArray x = leaf({1, 2}, {2});
  CHECK_THROWS_WITH_AS(backward(x * 2),
                       "backward: root has shape (2,); give a seed of that shape or a root with one element",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(backward(x * 2, zeros({3}, DType::f64)),
                       "backward: seed is f64(3,) where root is f64(2,)", InvalidArgument);
  CHECK_THROWS_AS(backward(x * 2, zeros({2}, DType::f32)), InvalidArgument);
  CHECK_THROWS_WITH_AS(
      backward(x.detach()),
      "backward: root was not computed from an array that requires a gradient; call set_requires_grad on x "
      "before it is computed from x, outside of NoGrad",
      InvalidArgument);
  CHECK_THROWS_AS(backward(NDArray()), InvalidArgument);
  CHECK_FALSE(grad(x).defined());
}

TEST_CASE("backward takes its seed and its options in every spelling") {
  NDArray x = leaf({1, 2}, {2});
  const NDArray y = x * 3, z = sum(y), g = array<double>({1, 10});
  const Where here = Where::current();
  const BackwardOptions options{.seed = g, .keep_tape = true};
  backward(z, {}, true);
  backward(z, {}, true, here);
  backward(z, NDArray(), true);
  backward(z, {.keep_tape = true});
  backward(z, {.keep_tape = true}, here);
  backward(z, {.keep_tape = true, .create_graph = false});
  CHECK(grad(x).to_vector<double>() == std::vector<double>{18, 18});
  clear_grad(x);
  backward(y, g, true);
  backward(y, g, true, here);
  backward(y, {.seed = g, .keep_tape = true});
  backward(y, options);
  backward(y, options, here);
  backward(y, BackwardOptions{.seed = g, .keep_tape = true});
  CHECK(grad(x).to_vector<double>() == std::vector<double>{18, 180});
  clear_grad(x);
  backward(x * 3, g);
  backward(x * 3, g, here);
  backward(x * 3, {.seed = g});
  backward(x * 3, {.seed = g}, here);
  backward(x * 3, {g});
  backward(x * 3, stack({g, g})[0]);
  backward(x * 3, g[array<std::int64_t>({0, 1})]);
  CHECK(grad(x).to_vector<double>() == std::vector<double>{21, 210});
  clear_grad(x);
  backward(sum(x * 3));
  backward(sum(x * 3), {});
  backward(sum(x * 3), {}, here);
  backward(sum(x * 3), NDArray());
  CHECK(grad(x).to_vector<double>() == std::vector<double>{12, 12});
}

TEST_CASE("a tape is freed as it is walked, unless kept") {
  NDArray x = leaf(3);
  const NDArray y = square(x), z = y * 2;
  backward(z, {}, true);
  backward(z);
  CHECK(gradient_of(x) == 24);
  CHECK_THROWS_WITH_AS(backward(z),
                       "backward: the tape of multiply was freed by an earlier backward() or grad(); give "
                       "that one keep_tape = true",
                       Error);
  CHECK_THROWS_WITH_AS(grad({z}, {x}),
                       "grad: the tape of multiply was freed by an earlier backward() or grad(); give that "
                       "one keep_tape = true",
                       Error);
  CHECK_THROWS_AS(backward(y + x), Error);  // the part of the tape that computed y is freed too
  CHECK(gradient_of(x) == 24);              // the failed backward added no gradient
}

TEST_CASE("walking the tape gives back the memory of saved arrays") {
  NDArray x = leaf({1, 2, 3}, {3});
  std::weak_ptr<Storage> saved;
  NDArray z;
  {
    const NDArray y = exp(x);
    saved = y.storage();
    z = sum(square(y));
  }
  x.engine().wait_all();
  CHECK_FALSE(saved.expired());
  backward(z);
  x.engine().wait_all();
  CHECK(saved.expired());
}

TEST_CASE("a saved array changed in place is found") {
  NDArray x = leaf({1, -2}, {2});
  NDArray y = relu(x);
  const NDArray z = sum(y);
  {
    NoGrad no_grad;
    y += 1;
  }
  CHECK_THROWS_WITH_AS(
      backward(z), "relu: an array saved for its gradient was changed in place after it was recorded", Error);
  NDArray w = leaf(2);
  const NDArray twice = w * 2, squared = square(w);
  w.fill(7);
  backward(twice);  // multiplication by a number saves no array
  CHECK(gradient_of(w) == 2);
  CHECK_THROWS_AS(backward(squared), Error);
}

TEST_CASE("a view's change is found through the storage") {
  NDArray x = leaf({1, 2, 3}, {3});
  const NDArray y = square(x);
  x[1].fill(5);
  CHECK_THROWS_AS(backward(sum(y)), Error);
}

TEST_CASE("changes in place of what requires a gradient are refused while recording") {
  NDArray x = leaf(2), y = array<double>({1.0}, Shape{});
  CHECK_THROWS_AS(x += 1, Error);
  CHECK_THROWS_AS(y *= x, Error);
  NDArray z = x * 2;
  CHECK_THROWS_WITH_AS(z -= y,
                       "subtract_: an array requires a gradient, and the tape does not follow changes in "
                       "place; make a new array, "
                       "detach() it or use NoGrad",
                       Error);
  NoGrad no_grad;
  x += 1;
  CHECK(x.item<double>() == 3);
}

TEST_CASE("NoGrad stops the recording on this thread while it lives") {
  NDArray x = leaf(2);
  {
    NoGrad outer;
    { NoGrad inner; }
    CHECK_FALSE(recording({&x}));
    CHECK_FALSE(requires_grad(x * 2));
  }
  CHECK(recording({&x}));
  CHECK(requires_grad(x * 2));
}

TEST_CASE("the backward pass records nothing") {
  NDArray x = leaf(2);
  backward(x * x * x);
  CHECK_FALSE(requires_grad(grad(x)));
}

TEST_CASE("views have gradients of their own") {
  NDArray whole = zeros({4}, DType::f64);
  NDArray part = whole.slice(0, {1, 3});
  set_requires_grad(part);
  CHECK_FALSE(requires_grad(whole));
  backward(sum(part * 3));
  CHECK(grad(part).to_vector<double>() == std::vector<double>{3, 3});
}

TEST_CASE("an array that needs no gradient gets none") {
  NDArray x = leaf({1, 2}, {2}), y = array<double>({3, 4});
  backward(sum(x * y));
  CHECK(grad(x).to_vector<double>() == std::vector<double>{3, 4});
  CHECK_FALSE(grad(y).defined());
}

TEST_CASE("inputs of other dtypes get gradients of their own") {
  NDArray narrow = array<float>({1, 2}), wide = leaf({3, 4}, {2});
  set_requires_grad(narrow);
  backward(sum(narrow * wide * arange(0, 2, 1, DType::i32)));
  CHECK(grad(narrow).to_vector<float>() == std::vector<float>{0, 4});
  CHECK(grad(wide).to_vector<double>() == std::vector<double>{0, 2});
}

TEST_CASE("a long chain is walked and destroyed without deep recursion") {
  NDArray x = leaf(1);
  constexpr int kLength = test::kSanitized ? 20'000 : 100'000;
  {
    NDArray dropped = x;
    for (int i = 0; i < kLength; ++i) dropped = dropped + 1;
    CHECK(dropped.item<double>() == kLength + 1);
  }
  NDArray y = x;
  for (int i = 0; i < kLength; ++i) y = y * 1;
  backward(y);
  CHECK(gradient_of(x) == 1);
}

TEST_CASE("a ladder of shared values is walked once a rung") {
  NDArray x = leaf(1);
  NDArray y = x;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;  // makes 2^60 paths from y to x
  backward(y);
  CHECK(gradient_of(x) == 1);
}

TEST_CASE("the gradients of many parts of one array share its memory") {
  constexpr std::int64_t kParts = 100, kWidth = 40000;
  NDArray x = ones({kParts, kWidth}), total = zeros({1, kWidth});
  set_requires_grad(x);
  const NDArray doubled = x * 2;  // unlike x, this array is no leaf
  for (std::int64_t i = 0; i < kParts; ++i) {
    const NDArray taken = take(doubled, array<std::int64_t>({i}));
    total = total + slice(x, 0, {i, i + 1}) + slice(doubled, 0, {i, i + 1}) * taken;
  }
  const NDArray loss = sum(total);
  loss.wait();
  const AllocatorStats before = cpu_allocator_stats();
  backward(loss);
  CHECK(grad(x).to_vector<float>() == std::vector<float>(kParts * kWidth, 1 + 2 * 2 * 2));
  const std::size_t bytes = kParts * kWidth * sizeof(float);
  CHECK(cpu_allocator_stats().peak <= std::max(before.peak, before.in_use + 8 * bytes));
}

TEST_CASE("parts are added to a whole gradient that others see") {
  NDArray x = leaf({1, 2, 3}, {3});
  const NDArray y = x * 1, z = reshape(y, {3, 1}), part = slice(y, 0, {1, 3});
  const NDArray seed = array<double>({1, 10, 100}, Shape{3, 1});
  backward(concat({z, reshape(part, {2, 1}), reshape(part * 2, {2, 1})}),
           concat({seed, array<double>({5, 6, 7, 8}, Shape{4, 1})}));
  CHECK(grad(x).to_vector<double>() == std::vector<double>{1, 10 + 5 + 14, 100 + 6 + 16});
  backward(y.detach() * slice(x, 0, {0, 1}), array<double>({1, 1, 1}));
  CHECK(grad(x).to_vector<double>() == std::vector<double>{7, 29, 122});
  CHECK(seed.to_vector<double>() == std::vector<double>{1, 10, 100});
}

TEST_CASE("fill and assign are refused where a tape would have to follow them") {
  NDArray x = leaf({1, 2}, {2});
  const NDArray y = x * 2, plain = zeros({2}, DType::f64);
  CHECK_THROWS_WITH_AS(y.fill(7),
                       "fill: an array requires a gradient, and the tape does not follow changes in place; "
                       "make a new array, detach() it or use NoGrad",
                       Error);
  CHECK_THROWS_AS(y.assign(plain), Error);
  CHECK_THROWS_AS(plain.assign(y), Error);
  CHECK_THROWS_AS(plain.assign(x), Error);
  CHECK(plain.to_vector<double>() == std::vector<double>{0, 0});
  plain.assign(y.detach());
  CHECK(plain.to_vector<double>() == std::vector<double>{2, 4});
  {
    NoGrad no_grad;
    plain.assign(x);
    y.fill(7);
  }
  CHECK(plain.to_vector<double>() == std::vector<double>{1, 2});
  x.assign(array<double>({5, 6}));  // a leaf may be overwritten
  x.fill(3);
  backward(sum(x * x));
  CHECK(grad(x).to_vector<double>() == std::vector<double>{6, 6});
}

TEST_CASE("a gradient of the wrong shape names its operator") {
  NDArray x = leaf({1, 2}, {2});
  NDArray y = x.detach().copy();
  record("broken", y, {x}, {}, [](const NDArray& g) { return std::vector{sum(g)}; });
  CHECK_THROWS_WITH_AS(backward(sum(y)),
                       "broken: its gradient is f64() on cpu(0) where the input is f64(2,) on cpu(0)", Error);
  NDArray z = x.detach().copy();
  record("missing", z, {x}, {}, [](const NDArray&) { return std::vector<NDArray>{}; });
  CHECK_THROWS_WITH_AS(backward(sum(z)), "missing: 0 gradients for 1 inputs", Error);
}

TEST_CASE("gradients belong to the engine of the arrays, not to the thread's current one") {
  Engine engine({.scheduler = Scheduler::naive});
  NDArray x;
  {
    EngineScope scope(engine);
    x = leaf({1, 2, 3}, {3});
  }
  backward(sum(maximum(x, 2) * x / 2 + where(x < 2, x, 0)));
  CHECK(&grad(x).engine() == &engine);
  CHECK(grad(x).to_vector<double>() == std::vector<double>{2, 1.5, 3});
  x = NDArray();
}

TEST_CASE("an op error in the forward pass reaches the gradient") {
  NDArray x = leaf({1, 2}, {2});
  const NDArray y = take(x, array<std::int32_t>({0, 2}));
  backward(sum(square(y)));
  CHECK_THROWS_WITH(grad(x).wait(), "take: index 2 at position 1 is out of range for size 2");
}

TEST_CASE("a launch of a graph changes the arrays that its ops write") {
  const NDArray x = leaf({1, 2}, {2});
  const NDArray y = array<double>({1, 1});
  const Graph graph = current_engine().capture([&] { y.fill(7); });
  graph.launch();
  const NDArray before = sum(x * y);
  backward(before);  // valid: the launch that changed y came before sum(x * y)
  CHECK(grad(x).to_vector<double>() == std::vector<double>{7, 7});
  const NDArray loss = sum(x * y);
  graph.launch();
  CHECK_THROWS_WITH_AS(backward(loss),
                       "multiply: an array saved for its gradient was changed in place after it was recorded",
                       Error);
}

}  // namespace heddle
