// Random calls by name compared with plain C++ calls: broadcast shapes, all dtypes, numbers, axes, views.
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

#include "arguments.h"
#include "samples/operator_samples.h"

using namespace heddle;
using namespace heddle::testing;

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  Shape shape() {
    Shape shape;
    for (std::int64_t axes = below(4); axes > 0; --axes) shape.push_back(below(4));
    return shape;
  }
  // A random shape that usually can be broadcast together with `other`.
  Shape like(const Shape& other) {
    Shape shape;
    for (int axis = static_cast<int>(below(other.size() + 1)); axis < other.size(); ++axis) {
      shape.push_back(one_in(3) ? 1 : one_in(20) ? other[axis] + 1 : other[axis]);
    }
    return shape;
  }
  DType dtype() { return kAllDTypes[below(std::size(kAllDTypes))]; }
  // A random array of this shape; it may be a transposed view.
  NDArray array(const Shape& shape) {
    const NDArray x = Generator(engine_()).uniform(shape, -3, 4, DType::f64).astype(dtype());
    return one_in(3) ? transpose(x) : x;
  }
  OperatorValue number() {
    if (one_in(4)) return one_in(2);
    if (one_in(2)) return below(600) - 300;
    return static_cast<double>(below(100)) / 8 - 5;
  }

 private:
  std::mt19937_64 engine_;
};

Operand operand_of(const OperatorValue& value) {
  if (const auto* array = std::get_if<NDArray>(&value)) return *array;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  return std::get<double>(value);
}

// The result of a call; or no result and the message of the error of the call or of its op.
std::pair<std::optional<NDArray>, std::string> outcome(const std::function<NDArray()>& call) {
  try {
    const NDArray y = call();
    y.wait();
    return {y, ""};
  } catch (const InvalidArgument& error) {
    return {std::nullopt, error.message()};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

// Checks that the call by name and the plain C++ call give the same result or error. Returns true if they
// give a result.
bool check_alike(const std::function<NDArray()>& by_name, const std::function<NDArray()>& plain) {
  const auto named = outcome(by_name), direct = outcome(plain);
  CHECK(named.second == direct.second);
  REQUIRE(named.first.has_value() == direct.first.has_value());
  if (named.first) check_same(OperatorValue(*named.first), OperatorValue(*direct.first));
  return named.first.has_value();
}

const int kRounds = test::kSanitized ? 200 : 2000;

NDArray result_of(OperatorValues results) { return std::get<NDArray>(std::move(results.at(0))); }

}  // namespace

TEST_CASE("random elementwise calls by name give what the plain calls give") {
  using Binary = NDArray (*)(const Operand&, const Operand&, Where);
  const std::pair<const char*, Binary> all[] = {
      {"add", add},         {"subtract", subtract},    {"multiply", multiply}, {"divide", divide},
      {"power", power},     {"maximum", maximum},      {"minimum", minimum},   {"equal", equal},
      {"greater", greater}, {"less_equal", less_equal}};
  Random random(1);
  int worked = 0;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const auto& [name, plain] = all[random.below(std::size(all))];
    CAPTURE(std::string(name));
    const Shape shape = random.shape();
    OperatorValue a = random.array(shape), b = random.array(random.like(shape));
    if (random.one_in(3)) (random.one_in(2) ? a : b) = random.number();
    const Where here = Where::current();
    worked += check_alike(
        [&, f = name] {
          return result_of(call_operator(f, {a, b}));
        },
        [&, f = plain] { return f(operand_of(a), operand_of(b), here); });
  }
  CHECK(worked > kRounds / 3);
}

TEST_CASE("random reductions and views by name give what the plain calls give") {
  using Reduction = NDArray (*)(const NDArray&, Dims, bool, Where);
  const std::pair<const char*, Reduction> all[] = {{"sum", sum}, {"mean", mean}, {"max", max}, {"min", min}};
  Random random(2);
  int worked = 0;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const auto& [name, plain] = all[random.below(std::size(all))];
    CAPTURE(std::string(name));
    const NDArray x = random.array(random.shape());
    Dims axes;
    for (std::int64_t n = random.below(3); n > 0; --n) axes.push_back(random.below(8) - 4);
    const bool keepdims = random.one_in(2);
    const OperatorValue axis = axes.empty()       ? OperatorValue()
                               : axes.size() == 1 ? OperatorValue(axes[0])
                                                  : axes;
    const Where here = Where::current();
    worked += check_alike(
        [&, f = name] {
          return result_of(call_operator(f, {x}, {{"keepdims", keepdims}, {"axis", axis}}));
        },
        [&, f = plain] { return f(x, axes, keepdims, here); });
    const std::int64_t step = random.below(5) - 2, start = random.below(8) - 4;
    const int along = static_cast<int>(random.below(4)) - 1;
    worked += check_alike(
        [&] {
          return result_of(call_operator("slice", {x, along, start}, {{"step", step}}));
        },
        [&] { return slice(x, along, {.begin = start, .step = step}); });
  }
  CHECK(worked > kRounds / 2);
}
