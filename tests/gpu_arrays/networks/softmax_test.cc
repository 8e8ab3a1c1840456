// Softmax and cross entropy on a GPU have the values of the CPU, but for roundings and the exponential of CUDA's library.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/reduce.h>
#include <heddle/softmax.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;
constexpr DType kFloating[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

TEST_CASE("softmax and its gradient on a GPU are the CPU's but for roundings") {
  for (const Shape& shape : {Shape{1}, Shape{5, 3}, Shape{3, 33}, Shape{40, 7, 5}, Shape{2, 1024},
                             Shape{2, 2500}, Shape{700, 2}, Shape{3, 400, 3}, Shape{0, 4}, Shape{4, 0}}) {
    for (const DType dtype : kFloating) {
      CAPTURE(shape.to_string());
      CAPTURE(name_of(dtype));
      Random random(static_cast<std::uint64_t>(shape.size()));
      const NDArray x = small_numbers(random, shape, dtype);
      for (int axis = 0; axis < shape.size(); ++axis) {
        CHECK(same_gradients([axis](const Arrays& a) { return softmax(a[0], axis); }, {x}));
        CHECK(same_gradients([axis](const Arrays& a) { return log_softmax(a[0], axis); }, {x}, 4));
      }
    }
  }
  CHECK(problems() == "");
}

// With 64 MB of an emulated GPU there is no room for f32 copies.
TEST_CASE("reductions and softmax on a GPU read and write halves as they are") {
  const auto number = [](const NDArray& x) { return x.astype(DType::f64).copy_to(cpu()).item<double>(); };
  {
    const NDArray x = ones({15, 1 << 20}, DType::bf16, gpu(0));
    CHECK(number(sum(x)) == 15 << 20);
    CHECK(number(mean(x)) == 1);
    CHECK(number(max(x)) == 1);
    CHECK(number(argmax(x)) == 0);
  }
  const NDArray x = ones({9 << 12, 256}, DType::f16, gpu(0)), y = softmax(x);
  CHECK(y.dtype() == DType::f16);
  CHECK(number(max(y)) == 1.0 / 256);
  CHECK(problems() == "");
}

TEST_CASE("softmax of infinite and huge numbers on a GPU") {
  for (int seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    Random random(static_cast<std::uint64_t>(seed));
    const NDArray x = random_values(random, {200, 3}, seed % 2 ? DType::f32 : DType::f64),
                  y = x.copy_to(gpu(0));
    CHECK(near_sum(softmax(x), softmax(y), rounding_of(x.dtype())));
    CHECK(near_sum(log_softmax(x, 1), log_softmax(y, 1), rounding_of(x.dtype())));
  }
  CHECK(problems() == "");
}

TEST_CASE("cross entropy and its gradient on a GPU are the CPU's but for roundings") {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{7, 3}, Shape{3, 40}, Shape{2, 3, 10}, Shape{2, 1500}, Shape{300, 4}}) {
    for (const DType dtype : kFloating) {
      CAPTURE(shape.to_string());
      CAPTURE(name_of(dtype));
      Random random(static_cast<std::uint64_t>(shape.size()));
      const std::int64_t classes = shape[shape.size() - 1];
      Shape of_labels;
      for (int axis = 0; axis + 1 < shape.size(); ++axis) of_labels.push_back(shape[axis]);
      std::vector<double> drawn;
      for (std::int64_t i = 0; i < element_count(of_labels); ++i)
        drawn.push_back(static_cast<double>(random() % static_cast<std::uint64_t>(classes)));
      const DType dtypes[] = {DType::u8, DType::i32, DType::i64, DType::i16};
      const DType of = classes > 255 ? DType::i32 : dtypes[random() % 4];
      const NDArray labels = array(drawn, of_labels).astype(of);
      CHECK(same_gradients([](const Arrays& a) { return cross_entropy(a[0], a[1]); },
                           {small_numbers(random, shape, dtype), labels}));
    }
  }
  const NDArray none = cross_entropy(zeros({0, 3}, DType::f32, gpu(0)), zeros({0}, DType::i64, gpu(0)));
  CHECK(std::isnan(none.item<float>()));
  CHECK(problems() == "");
}

TEST_CASE("few long lines are cut into parts on a GPU") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{1, 17000}, Shape{3, 16385}, Shape{17000, 2}, Shape{2, 17000, 2}}) {
      CAPTURE(shape.to_string());
      CAPTURE(name_of(dtype));
      Random random(static_cast<std::uint64_t>(shape.size()));
      const NDArray x = small_numbers(random, shape, dtype);
      const int axis = shape[0] > 1000 ? 0 : 1;
      CHECK(same_gradients([axis](const Arrays& a) { return softmax(a[0], axis); }, {x}));
      CHECK(same_gradients([axis](const Arrays& a) { return log_softmax(a[0], axis); }, {x}, 4));
    }
    Random random(5);
    const NDArray x = small_numbers(random, {3, 17000}, dtype),
                  labels = array(std::vector<int>{16999, 0, 8000}, {3});
    CHECK(same_gradients([](const Arrays& a) { return cross_entropy(a[0], a[1]); }, {x, labels}));
    const NDArray special = random_values(random, {2, 17000}, dtype);
    CHECK(near_sum(softmax(special, 1), softmax(special.copy_to(gpu(0)), 1), rounding_of(dtype)));
  }
  const NDArray none = full({1, 17000}, -INFINITY, DType::f32), last = none.copy();
  last.slice(1, {.begin = 16000}).fill(2);
  for (const NDArray& x : {none, last})
    CHECK(near_sum(softmax(x, 1), softmax(x.copy_to(gpu(0)), 1), rounding_of(DType::f32)));
  CHECK(problems() == "");
}

TEST_CASE("cross entropy on a GPU refuses labels outside of the classes without a wait of the host") {
  const NDArray x = zeros({100, 5}, DType::f32, gpu(0));
  for (const std::int64_t wrong : {5, -1}) {
    NDArray labels = zeros({100}, DType::i64);
    labels[40] = wrong;
    labels[71] = 9;
    const NDArray there = labels.copy_to(gpu(0));
    there.wait();
    const std::uint64_t waits = host_waits();
    const NDArray loss = cross_entropy(x, there);
    CHECK(host_waits() == waits);
    const std::string text = "cross_entropy: label " + std::to_string(wrong) + " at row 40 is outside 0 .. 4";
    CHECK_THROWS_WITH_AS(loss.item<float>(), doctest::Contains(text.c_str()), InvalidArgument);
  }
  CHECK(cross_entropy(x, zeros({100}, DType::i64, gpu(0))).item<float>() == doctest::Approx(1.6094379));
  CHECK(problems() == "");
}

}  // namespace
