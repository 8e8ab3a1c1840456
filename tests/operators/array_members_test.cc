// Operators as members of arrays and of x[keys]: each member does the same as the function of its name.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "call_sites.h"
#include "message_of.h"
#include "undefined.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Floats = std::vector<float>;

// Calls of a member of NDArray, and calls of the function that must give the same result.
struct Member {
  const char* name;
  NDArray (*member)(const NDArray& x, Where where);
  NDArray (*of_chosen)(const Chosen& x, Where where);
  NDArray (*function)(const NDArray& x, Where where);
  NDArray (*member_by_default)(const NDArray& x);  // its result is undefined if an argument has no default
  NDArray (*function_by_default)(const NDArray& x);
};

// The member `name` and the function, with these arguments; they have the defaults of the function's.
#define MEMBER_AS(name, function, ...)                                                                   \
  Member {                                                                                               \
#name, [](const NDArray& x, Where at) { return x.name(__VA_ARGS__ __VA_OPT__(, ) at); },               \
        [](const Chosen& x, Where at) { return x.name(__VA_ARGS__ __VA_OPT__(, ) at); },                   \
        [](const NDArray& x, Where at) { return heddle::function(x __VA_OPT__(, ) __VA_ARGS__, at); },     \
        [](const auto& x) {                                                                                \
          if constexpr (requires { x.name(); }) return x.name();                                           \
          return NDArray();                                                                                \
        },                                                                                                 \
        [](const auto& x) {                                                                                \
          if constexpr (requires { x.name(); heddle::function(x); }) return heddle::function(x);           \
          return NDArray();                                                                                \
        } \
  }
#define MEMBER(name, ...) MEMBER_AS(name, name __VA_OPT__(, ) __VA_ARGS__)

// Arguments for members of an array of shape (2, 1, 3). They are made of literals, without an op.
NDArray matrix() { return array<double>({{0.5, 1.5}, {1, 0.75}, {1.25, 2}}); }
NDArray row() { return array<double>({2, 3, 4}); }
NDArray indices() { return array<std::int64_t>({2, 0}); }
NDArray mask() { return array({false, true, true}); }

const std::vector<Member> kMembers = {
    MEMBER(sum, Dims{1}, true),
    MEMBER(mean, Dims{2}, true),
    MEMBER(prod, Dims{-1}, false),
    MEMBER(max, Dims{0, 2}, true),
    MEMBER(min, Dims{}, false),
    MEMBER_AS(std, stddev, Dims{2}, 1, true),
    MEMBER(norm, 1, Dims{2}, true),
    MEMBER(any, Dims{2}, true),
    MEMBER(all, Dims{2}, true),
    MEMBER(count_nonzero, Dims{2}, true),
    MEMBER(argmax, 2),
    MEMBER(argmin, 0),
    MEMBER(cumsum, 2),
    MEMBER(cumprod, 0),
    MEMBER(sort, 2, true),
    MEMBER(argsort, 0, true),
    MEMBER(softmax, 0),
    MEMBER(log_softmax, 0),
    MEMBER(reshape, Shape{3, -1}),
    MEMBER(flatten, 0),
    MEMBER(transpose),
    MEMBER(transpose, Dims{2, 0, 1}),
    MEMBER_AS(T, transpose),
    MEMBER_AS(permute, transpose, Dims{2, 0, 1}),
    MEMBER_AS(unsqueeze, expand_dims, -1),
    MEMBER(squeeze, Dims{1}),
    MEMBER(swapaxes, 0, 2),
    MEMBER(broadcast_to, Shape{2, 4, 3}),
    MEMBER(take, indices(), 2),
    MEMBER(masked_fill, mask(), 7),
    MEMBER(matmul, matrix()),
    MEMBER(dot, matrix()),
    MEMBER_AS(pow, power, row()),
    MEMBER_AS(pow, power, 2),
    MEMBER_AS(pow, pow, row()),
    MEMBER_AS(pow, pow, 0.5),
    MEMBER(clip, 0.5, 1),
    MEMBER(abs),
    MEMBER(sign),
    MEMBER(square),
    MEMBER(sqrt),
    MEMBER(rsqrt),
    MEMBER(reciprocal),
    MEMBER(exp),
    MEMBER(log),
    MEMBER(log1p),
    MEMBER(sin),
    MEMBER(cos),
    MEMBER(tanh),
    MEMBER(sigmoid),
    MEMBER(relu),
    MEMBER(floor),
    MEMBER(ceil),
    MEMBER(round),
    MEMBER(isnan),
    MEMBER(isfinite),
};

// The array, of shape (2, 1, 3), whose members are called. Its numbers are positive.
NDArray numbers(DType dtype = DType::f64) {
  return cast(Generator(7).uniform({2, 1, 3}, 0.1, 3, DType::f64), dtype);
}

void check_same(const NDArray& got, const NDArray& want) {
  CHECK(got.defined() == want.defined());
  if (!want.defined()) return;
  CHECK(got.shape() == want.shape());
  CHECK(got.dtype() == want.dtype());
  CHECK(got.to_string() == want.to_string());
  CHECK(allclose(got, want, 0, 0));
}

}  // namespace

TEST_CASE("a member computes what the function does") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::i32, DType::u8, DType::boolean}) {
    CAPTURE(dtype);
    const NDArray x = numbers(dtype);
    for (const Member& one : kMembers) {
      CAPTURE(std::string(one.name));
      NDArray want;
      const Where here = Where::current();
      const std::string refused = message_of<InvalidArgument>([&] { want = one.function(x, here); });
      NDArray got;
      CHECK(message_of<InvalidArgument>([&] { got = one.member(x, here); }) == refused);
      if (refused != "no error") continue;
      check_same(got, want);
      CHECK((got.storage() == x.storage()) == (want.storage() == x.storage()));
      check_same(one.member_by_default(x), one.function_by_default(x));
    }
  }
}

TEST_CASE("a member of chosen elements computes what the function does") {
  const NDArray x = numbers(), order = array<std::int64_t>({1, 0});
  const NDArray chosen = take(x, order);
  for (const Member& one : kMembers) {
    CAPTURE(std::string(one.name));
    check_same(one.of_chosen(x[order], Where::current()), one.function(chosen, Where::current()));
  }
  CHECK(x[x > 1].sum().item<double>() == sum(masked_select(x, x > 1)).item<double>());
  const double one = x(array<std::int64_t>({1}), 0, 2).item();
  CHECK(one == x(1, 0, 2).item<double>());
}

TEST_CASE("a member has the function's gradient") {
  const NDArray values = numbers();
  const auto gradient_of = [&](NDArray (*call)(const NDArray&, Where)) {
    NDArray x = values.copy();
    set_requires_grad(x);
    const NDArray y = call(x, Where::current());
    if (requires_grad(y)) backward(sum(y * y));
    return grad(x);
  };
  int differentiable = 0;
  for (const Member& one : kMembers) {
    CAPTURE(std::string(one.name));
    const NDArray want = gradient_of(one.function);
    check_same(gradient_of(one.member), want);
    differentiable += want.defined();
  }
  CHECK(differentiable > 40);
}

TEST_CASE("a member's ops and errors name the line of the call") {
  const NDArray x = numbers();
  int found = 0;
  for (const Member& one : kMembers) {
    CAPTURE(std::string(one.name));
    const Where here = Where::current();
    const std::vector<OpSite> sites = sites_of_ops([&] { one.member(x, here); });
    CHECK(sites.size() == sites_of_ops([&] { one.function(x, here); }).size());
    for (const OpSite& site : sites) CHECK(site.at == text_of(here));
    found += !sites.empty();
    try {
      one.member(NDArray(), here);
      FAIL_CHECK("no error");
    } catch (const InvalidArgument& error) {
      CHECK(text_of(error.where()) == text_of(here));
      CHECK(error.message().ends_with(kSaysUndefined));
    }
  }
  CHECK(found > 40);
}

TEST_CASE("members without the form of the others are the functions of their names, too") {
  const NDArray x = numbers();
  const auto [values, places] = x.topk(2, 2, false);
  check_same(values, topk(x, 2, 2, false)[0]);
  check_same(places, topk(x, 2, 2, false)[1]);
  check_same(x[x > 1].topk(1)[0], topk(x[x > 1], 1)[0]);
  CHECK(x.allclose(x + 1e-9));
  CHECK_FALSE(x.allclose(x + 1e-9, 0, 1e-10));
  CHECK(message_of<InvalidArgument>([] { NDArray().topk(1); }) == "topk" + kSaysUndefined);
  CHECK(message_of<InvalidArgument>([] { NDArray().allclose(ones(2)); }) == "allclose" + kSaysUndefined);
}

TEST_CASE("sizes need no braces") {
  const NDArray x = arange(6);
  CHECK(x.reshape(2, 3).shape() == Shape{2, 3});
  CHECK(x.reshape(-1, 1, std::int64_t{2}).shape() == Shape{3, 1, 2});
  CHECK(x.reshape(6).shape() == Shape{6});
  CHECK(x.reshape({3, 2}).view({6}).shape() == Shape{6});
  CHECK(x[x > 1].reshape(2, 2).shape() == Shape{2, 2});
  try {
    x.reshape(2, 2);
    FAIL_CHECK("no error");
  } catch (const InvalidArgument& error) {
    CHECK(error.where().line() == __LINE__ - 3);
  }
}

TEST_CASE("gradients by members") {
  NDArray x = array({1.0f, 2.0f});
  CHECK_FALSE(x.requires_grad());
  x.set_requires_grad();
  CHECK(x.requires_grad());
  CHECK_FALSE(x.grad().defined());
  (x * x).sum().backward();
  CHECK(x.grad().to_vector<float>() == Floats{2, 4});
  const NDArray y = x * 3;
  y.backward(array({1.0f, 10.0f}), true);
  y.backward(array({1.0f, 10.0f}));
  CHECK(x.grad().to_vector<float>() == Floats{8, 64});
  CHECK(message_of([&] { y.backward(array({1.0f, 10.0f})); }) != "no error");
  x.set_requires_grad(false);
  CHECK_FALSE(x.requires_grad());
  CHECK(message_of<InvalidArgument>([] { NDArray().backward(); }) == "backward" + kSaysUndefined);
}

TEST_CASE("pow takes arrays and numbers, beside the standard library's") {
  using std::pow;
  const NDArray x = array({1.0f, 2.0f, 3.0f}), two = array({2.0f});
  CHECK(pow(x, 2).to_vector<float>() == Floats{1, 4, 9});
  CHECK(pow(x, 2).dtype() == DType::f32);
  CHECK(pow(2, x).to_vector<float>() == Floats{2, 4, 8});
  CHECK(pow(2.0, x).dtype() == DType::f32);
  CHECK(pow(x, two).to_vector<float>() == Floats{1, 4, 9});
  CHECK(pow(x[x > 1], 2).to_vector<float>() == Floats{4, 9});
  CHECK(pow(x, two.item()).to_vector<float>() == Floats{1, 4, 9});
  static_assert(std::is_same_v<decltype(pow(2.0, 3)), double>);
  static_assert(std::is_same_v<decltype(pow(2, 3)), double>);
  static_assert(std::is_same_v<decltype(pow(std::complex<double>(1), 2.0)), std::complex<double>>);
}

TEST_CASE("allclose has NumPy's rule") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto close = [](double a, double b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) {
    return allclose(array<double>(a), array<double>(b), rtol, atol, equal_nan);
  };
  CHECK(close(1, 1 + 0.99e-5));
  CHECK_FALSE(close(1, 1 + 1.1e-5));
  CHECK(close(0, 1e-8));
  CHECK_FALSE(close(0, 1.1e-8));
  CHECK(close(1, 2, 0.5, 0));
  CHECK_FALSE(close(2, 1, 0.5, 0));  // rtol is relative to the second argument
  CHECK(close(inf, inf));
  CHECK_FALSE(close(inf, -inf));
  CHECK_FALSE(close(1, inf));
  CHECK_FALSE(close(inf, 1));
  CHECK_FALSE(close(nan, nan));
  CHECK(close(nan, nan, 0, 0, true));
  CHECK_FALSE(close(nan, 1, 1e9, 1e9, true));
  CHECK(allclose(ones(2, 3), ones(3)));
  CHECK_FALSE(allclose(ones(2, 3), arange(3)));
  CHECK(allclose(zeros(0), zeros(0)));
  CHECK(allclose(array<std::uint8_t>({1}), array<std::int64_t>({1})));
  // The difference of the u8 numbers 0 and 255 must not wrap around to 1.
  CHECK_FALSE(allclose(array<std::uint8_t>({0}), array<std::uint8_t>({255}), 0, 1));
  CHECK(message_of<InvalidArgument>([] { allclose(ones(2), ones(3)); }).starts_with("allclose: "));
  NDArray x = ones(2);
  set_requires_grad(x);
  CHECK(allclose(x, x));
}

TEST_CASE("an array of one element is a condition, and its operators stay those of arrays") {
  const NDArray x = array({1.0f, 2.0f, 3.0f}), yes = array(true), no = array(false);
  if (sum(x) > 6) FAIL_CHECK("6 > 6");
  CHECK((sum(x) > 5 ? "more" : "less") == std::string("more"));
  if (!(x == 1).any()) FAIL_CHECK("no 1");
  if (!(yes && !no) || no || (no && yes)) FAIL_CHECK("wrong");
  static_assert(std::is_same_v<decltype(!x), NDArray>);
  static_assert(std::is_same_v<decltype(x && x), NDArray>);
  static_assert(std::is_same_v<decltype(x || true), NDArray>);
  static_assert(std::is_same_v<decltype(1 && x), NDArray>);
  static_assert(std::is_same_v<decltype(x && x.item()), NDArray>);
  static_assert(std::is_same_v<decltype(x[x > 1] || x), NDArray>);
  static_assert(std::is_same_v<decltype(x || x[x > 1]), NDArray>);
  static_assert(std::is_same_v<decltype(x[x > 1] && 1), NDArray>);
  static_assert(std::is_same_v<decltype(x == true), NDArray>);
  static_assert(std::is_same_v<decltype(x + true), NDArray>);
  static_assert(!std::is_convertible_v<NDArray, bool>);
  CHECK((x && 0).to_vector<bool>() == std::vector<bool>{false, false, false});
  // With a bool before &&, or ||, and an array, C++ evaluates the array only if the bool does not decide.
  const NDArray none;
  if (none.defined() && none > 0) FAIL_CHECK("an undefined array was looked at");
  if (!none.defined() || none > 0) CHECK(true);
  static_assert(std::is_same_v<decltype(none.defined() && none), bool>);
}

TEST_CASE("a Scalar beside a number is a number, with all digits") {
  const NDArray loss = array({0.25f}), count = array<std::int64_t>({(std::int64_t{1} << 62) + 1});
  CHECK(loss.item() < 0.5);
  CHECK(0.1 < loss.item());
  CHECK(loss.item() == 0.25f);
  CHECK(loss.item() != 1);
  CHECK(count.item() == (std::int64_t{1} << 62) + 1);
  CHECK(count.item() > std::int64_t{1} << 62);
  CHECK(count.item() != std::int64_t{1} << 62);
  CHECK(loss.item() < count.item());
  CHECK(Scalar(~0ull) > std::int64_t{1});
  CHECK(Scalar(~0ull) > Scalar(~0ull - 1));
  CHECK(!(Scalar(std::nan("")) == Scalar(std::nan(""))));
  CHECK(loss.item() - count.item() < 0);
  CHECK(2 * loss.item() == 0.5);
  CHECK(loss.item() / 2 + 1 == 1.125);
  float total = 1;
  total += loss.item();
  total *= loss.item();
  CHECK(total == 0.3125f);
  std::int64_t all = 2;
  all += count.item();
  CHECK(all == (std::int64_t{1} << 62) + 3);
  all = 3;
  all *= loss.item();
  CHECK(all == 0);
  NDArray y = zeros({2}, DType::u64);
  y[0] = ~std::uint64_t{0};
  y[1] = Scalar(~std::uint64_t{0} - 1);
  CHECK(y.to_vector<std::uint64_t>() == std::vector<std::uint64_t>{~std::uint64_t{0}, ~std::uint64_t{0} - 1});
  y[0] = array({7.0f}).item();
  CHECK(y[0].item() == 7);
  CHECK((loss * loss.item()).item() == 0.0625);
}
