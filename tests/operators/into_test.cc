// Tests of into() and call_operator_into(), which write results into the caller's array: every operator gives
// its usual result, whatever the layout of that array.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/into.h>
#include <heddle/ops.h>

#include "samples/operator_samples.h"

using namespace heddle;
using namespace heddle::testing;

namespace {

using Floats = std::vector<float>;
Floats of(const NDArray& x) { return x.to_vector<float>(); }

// An array with the shape, dtype and device of x, and other values.
NDArray other(const NDArray& x) {
  NDArray y(x.shape(), x.dtype(), x.device());
  y.fill(7);
  return y;
}

// An array with the shape, dtype and device of x and other values. In memory there are gaps between its
// elements, and its axes are in reverse order.
NDArray spread_out(const NDArray& x) {
  Shape shape = x.shape();
  Dims axes;
  for (int axis = 0; axis < x.ndim(); ++axis) axes.push_back(x.ndim() - 1 - axis);
  Shape turned;
  for (const std::int64_t axis : axes) turned.push_back(shape[static_cast<int>(axis)]);
  if (turned.empty() || turned.size() == kMaxDims) return other(x);
  turned.push_back(2);
  NDArray y(turned, x.dtype(), x.device());
  y.fill(7);
  return y(kEllipsis, 1).permuted(axes);
}

const OperatorInfo& info_of(const Sample& sample) {
  const OperatorInfo* op = find_operator(sample.name);
  REQUIRE(op);
  return *op;
}

NDArray plain(const Sample& sample) {
  restart_generators();
  return std::get<NDArray>(sample.plain(sample.values)).detach();
}

// Checks that the operator writes the expected result into `out`. Gradients are recorded meanwhile: this must
// also work for results that are leaves, such as new weights.
void check_written(const Sample& sample, const OperatorValues& values, const NDArray& out,
                   const NDArray& expected) {
  restart_generators();
  call_operator_into(info_of(sample), values, sample.named, out);
  check_same(out.copy(), expected.copy());
}

}  // namespace

TEST_CASE("every operator with one array as its result writes it into the array given") {
  int count = 0;
  for (const Sample& sample : operator_samples()) {
    if (!takes_out(info_of(sample))) continue;
    CAPTURE(sample.name);
    const NDArray expected = plain(sample);
    check_written(sample, sample.values, other(expected), expected);
    if (expected.size() > 0) check_written(sample, sample.values, spread_out(expected), expected);
    ++count;
  }
  CHECK(count > 250);
}

TEST_CASE("the array may be an argument too") {
  int count = 0;
  for (const Sample& sample : operator_samples()) {
    if (!takes_out(info_of(sample))) continue;
    CAPTURE(sample.name);
    const NDArray expected = plain(sample);
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      const auto* array = std::get_if<NDArray>(&sample.values[i]);
      if (!array || array->shape() != expected.shape() || array->dtype() != expected.dtype() ||
          array->device() != expected.device())
        continue;
      OperatorValues values = sample.values;
      const NDArray copied = array->detach().copy();
      values[i] = copied;
      check_written(sample, values, copied, expected);
      ++count;
    }
  }
  CHECK(count > 100);
}

TEST_CASE("an operator that others are refused: its result is not one array") {
  const NDArray x = ones({3});
  for (const OperatorInfo& op : operators()) {
    if (takes_out(op)) continue;
    CHECK_THROWS_WITH_AS(
        call_operator_into(op, {}, {}, x),
        (op.name + ": its result is not one array, which `out` could hold; wanted: " + op.signature())
            .c_str(),
        InvalidArgument);
  }
}

namespace {

const Storage* used = nullptr;
NDArray noted(const NDArray& result) {
  used = result.storage().get();
  return result;
}
NDArray noted_sum(const NDArray& x, Where) { return noted(x + 1); }
NDArray noted_columns(const NDArray& x) { return noted(heddle::sum(x, 0)); }
NDArray noted_softmax(const NDArray& x) { return noted(softmax(x)); }
NDArray kept;

}  // namespace

TEST_CASE("a function computes in the memory given, where nothing else reads it") {
  const NDArray x = ones({4, 3}), y = zeros({4, 3}), rows = zeros({8, 3}), sums = zeros({3});
  const auto in = [&](const NDArray& out, auto* function, const NDArray& of) {
    used = nullptr;
    into(out, function, of);
    return used == out.storage().get();
  };
  CHECK(in(y, noted_sum, x));
  CHECK(in(rows.slice(0, {4, 8}), noted_sum, x));
  CHECK(in(sums, noted_columns, x));
  CHECK(in(y, noted_softmax, x));
  CHECK_FALSE(in(y, noted_sum, y));
  CHECK_FALSE(in(rows(Slice{.step = 2}), noted_sum, x));
  CHECK_FALSE(in(zeros({4, 3}, DType::f64), noted_sum, x));
  CHECK(of(rows.slice(0, {1, 2})) == Floats{0, 0, 0});
}

TEST_CASE("a lambda may keep arrays, and read others that share the memory") {
  const NDArray a = array({1.0, 2.0, 3.0}), y = array({10.0, 20.0, 30.0});
  into(
      y,
      [](auto& p) {
        kept = p + 1;
        return kept * 2;
      },
      a);
  CHECK(of(kept) == Floats{2, 3, 4});
  CHECK(of(y) == Floats{4, 6, 8});
  kept = y;
  into(
      y, [](auto& p) { return flip(kept) * p; }, a);
  CHECK(of(y) == Floats{8, 12, 12});
  kept = {};
}

TEST_CASE("add into its first argument is one op, by name too") {
  const NDArray x = zeros({4});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([x] {
      const OperatorValues values{x, 1};
      for (int i = 0; i < 200; ++i) call_operator_into(*find_operator("add"), values, {}, x);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(of(x) == Floats(4, 800));
}

TEST_CASE("into takes functions, lambdas of several steps, and views") {
  const NDArray a = array({3.0, 5.0}), b = array({4.0, 12.0}), y = zeros({3, 2});
  into(y[0], hypot, a, b);
  into(
      y[1], [](auto& p, auto& q) { return heddle::sqrt(p * p + q * q); }, a, b);
  const NDArray same = into(y[2], maximum, a, 4);
  CHECK(of(y) == Floats{5, 13, 5, 13, 4, 5});
  CHECK(of(same) == Floats{4, 5});
  CHECK(same.storage() == y.storage());
  into(
      y(kAll, 0), [](const std::vector<NDArray>& parts) { return concat(parts, 0); },
      std::vector<NDArray>{a, array({9.0})});
  CHECK(of(y(kAll, 0)) == Floats{3, 5, 9});
  const NDArray x = arange(9).view_as({3, 3});
  into(
      x,
      [](auto& m) {
        return m.permuted({1, 0});
      },
      x);
  CHECK(of(x) == Floats{0, 3, 6, 1, 4, 7, 2, 5, 8});
  into(
      x, [](auto& m) { return flip(m, {0}) - mean(m); }, x);
  CHECK(of(x) == Floats{-2, 1, 4, -3, 0, 3, -4, -1, 2});
}

TEST_CASE("into converts to a dtype that holds the result's kind") {
  const NDArray wide = zeros({2}, DType::f64), small = zeros({2}, DType::i8);
  into(wide, add, array({1, 2}), 1);
  CHECK(wide.to_vector<double>() == std::vector<double>{2, 3});
  into(small, add, array<std::int64_t>({1, 2}), 1);
  CHECK(small.to_vector<std::int8_t>() == std::vector<std::int8_t>{2, 3});
  CHECK_THROWS_WITH_AS(into(small, exp, wide), "into: a result of dtype f64 does not fit i8",
                       InvalidArgument);
}

TEST_CASE("into refuses another shape, undefined arrays, shared elements and gradients") {
  const NDArray x = ones({2, 3}), y = zeros({3, 2});
  CHECK_THROWS_WITH_AS(into(y, exp, x), "into: out has shape (3, 2), the result (2, 3)", InvalidArgument);
  CHECK(of(y) == Floats(6, 0));
  CHECK_THROWS_AS(into(NDArray(), exp, x), InvalidArgument);
  CHECK_THROWS_AS(into(y, exp, NDArray()), InvalidArgument);
  CHECK_THROWS_AS(into(zeros({1}).broadcast_view({6}), exp, ones({6})), InvalidArgument);
  NDArray leaf = ones({2, 3});
  set_requires_grad(leaf);
  CHECK_THROWS_AS(into(zeros({2, 3}), exp, leaf), Error);
  CHECK_THROWS_AS(into(leaf, exp, x), Error);
  const NoGrad no_grad;
  into(leaf, exp, x * 0);
  CHECK(of(leaf) == Floats(6, 1));
}

TEST_CASE("what an op computes meanwhile on the same thread does not get the memory") {
  Engine naive{{.scheduler = Scheduler::naive}};
  const EngineScope scope(naive);
  const NDArray x = ones({3}), y = zeros({3});
  NDArray seen;
  // With the scheduler naive the pushed op runs on this thread at once: after `y` was lent to the next
  // operator, and before a * 2 takes it.
  into(
      y,
      [&seen](auto& a) {
        a.engine().push([a, &seen] { seen = a + 41; }, {.read = {a.var()}});
        return a * 2;
      },
      x);
  CHECK(of(y) == Floats{2, 2, 2});
  CHECK(of(seen) == Floats{42, 42, 42});
  CHECK(seen.storage() != y.storage());
}

TEST_CASE("calls of into within each other each have their own memory") {
  const NDArray x = ones({3}), y = zeros({3});
  into(
      y,
      [](auto& a) {
        const NDArray inner = zeros({3});
        into(inner, add, a, 1);
        return inner * 10;
      },
      x);
  CHECK(of(y) == Floats{20, 20, 20});
  CHECK_THROWS_AS(into(
                      y, [](auto& a) { return a + ones({4}); }, x),
                  InvalidArgument);
  CHECK(of(x + 1) == Floats{2, 2, 2});  // after the failed call, `y` is no longer lent to operators
  CHECK((x + 1).storage() != y.storage());
}
