// Poolings that tell where their maxima are, and what puts them back.
#include <cstdint>
#include <gradient_check.h>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

using In = const std::vector<NDArray>&;
using Indices = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("max_pool_with_indices says where each maximum is") {
  const NDArray x = array<float>({1, 5, 2, 3, 4, 0, 7, 6, 9, 8, 1, 1}, {1, 1, 3, 4});
  const auto [y, at] = max_pool2d_with_indices(x);
  CHECK(y.to_vector<float>() == std::vector<float>{5, 7});
  CHECK(at.dtype() == DType::i64);
  CHECK(at.to_vector<std::int64_t>() == Indices{1, 6});
  CHECK(max_pool1d_with_indices(array<float>({3, 3, 1, 2}, {1, 1, 4}))[1].to_vector<std::int64_t>() ==
        Indices{0, 3});
}

TEST_CASE("elements at the indices are the maxima, with strides, padding, dilation and in every dtype") {
  const std::vector<PoolOptions> options{{},
                                         {.kernel = 3, .stride = 2, .padding = 1},
                                         {.kernel = 2, .stride = 1, .dilation = 2},
                                         {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true},
                                         {.kernel = 1}};
  for (const PoolOptions& one : options)
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      const NDArray x = Generator(1).normal({2, 3, 7, 6}, 0, 1).astype(dtype);
      const auto [y, at] = max_pool2d_with_indices(x, one);
      const NDArray wanted = max_pool2d(x, one);
      CHECK(y.dtype() == dtype);
      CHECK(all(equal(y, wanted)).item<bool>());
      const NDArray flat = reshape(at, {2, 3, -1});
      CHECK(all(equal(gather(reshape(x, {2, 3, 42}), flat, 2), reshape(wanted, flat.shape()))).item<bool>());
      const NDArray volume = reshape(x, {2, 3, 7, 3, 2});
      if (one.dilation[0] > 1 || one.kernel[0] > 2) continue;
      const auto [z, in_volume] = max_pool3d_with_indices(volume, one);
      CHECK(all(equal(gather(reshape(x, {2, 3, 42}), reshape(in_volume, {2, 3, -1}), 2),
                      reshape(z, {2, 3, -1})))
                .item<bool>());
    }
  CHECK(max_pool2d_with_indices(zeros({0, 2, 4, 4}))[1].shape() == Shape{0, 2, 2, 2});
}

TEST_CASE("max_unpool puts elements back where max_pool found them") {
  const NDArray x = array<float>({1, 5, 2, 3, 4, 0, 7, 6, 9, 8, 1, 1}, {1, 1, 3, 4});
  const auto [y, at] = max_pool2d_with_indices(x);
  CHECK(max_unpool2d(y, at).to_vector<float>() == std::vector<float>{0, 5, 0, 0, 0, 0, 7, 0});
  CHECK(max_unpool2d(y, at, {}, {3, 4}).to_vector<float>() ==
        std::vector<float>{0, 5, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0});
  CHECK(max_unpool1d(ones({1, 1, 2}), array<std::int64_t>({4, 4}, {1, 1, 2}), {.kernel = 3})
            .to_vector<float>() == std::vector<float>{0, 0, 0, 0, 1, 0});
  CHECK(max_unpool3d(ones({2, 1, 1, 1, 1}), zeros({2, 1, 1, 1, 1}, DType::i64)).shape() ==
        Shape{2, 1, 2, 2, 2});
  // Pooled again, the same elements come out.
  const NDArray image = Generator(2).uniform({2, 3, 8, 6}, 1, 2);
  const auto [largest, places] = max_pool2d_with_indices(image, {.kernel = {2, 3}});
  CHECK(all(equal(max_pool2d(max_unpool2d(largest, places, {.kernel = {2, 3}}), {.kernel = {2, 3}}), largest))
            .item<bool>());
}

TEST_CASE("gradients of pooling with indices and of unpooling agree with difference quotients") {
  const NDArray x = Generator(3).normal({1, 2, 4, 6}, 0, 1, DType::f64);
  testing::check_gradients([](In in) { return sin(max_pool2d_with_indices(in[0])[0]); }, {x});
  const auto [y, at] = max_pool2d_with_indices(x);
  testing::check_gradients([&, at = at](In in) { return sin(max_unpool2d(in[0], at)); }, {y});
}

TEST_CASE("pooling of halves with indices has the gradient of pooling without") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    std::vector<std::vector<double>> gradients;
    for (const bool with_indices : {false, true}) {
      NDArray x = Generator(4).normal({1, 2, 4, 6}, 0, 1).astype(dtype);
      x.set_requires_grad(true);
      const NDArray y = with_indices ? max_pool2d_with_indices(x)[0] : max_pool2d(x);
      REQUIRE(y.requires_grad());
      sum(square(y)).backward();
      gradients.push_back(x.grad().astype(DType::f64).to_vector<double>());
    }
    CHECK(gradients[0] == gradients[1]);
  }
}

TEST_CASE("max_unpool refuses what does not fit") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  const NDArray x = ones({1, 1, 2, 2}), at = zeros({1, 1, 2, 2}, DType::i64);
  CHECK(why([&] { max_unpool1d(x, at); }) == "max_unpool1d: x is (1, 1, 2, 2); want N, C and 1 axis");
  CHECK(why([&] {
          max_unpool2d(x, zeros({1, 1, 2}, DType::i64));
        }) == "max_unpool2d: indices are (1, 1, 2); want the shape of x, (1, 1, 2, 2)");
  CHECK(why([&] {
          max_unpool2d(x, at, {}, {4, 6});
        }) == "max_unpool2d: size is (4, 6); want less than a stride, 2, around 4");
  CHECK(why([&] { max_unpool2d(x, at, {}, 4); }) == "max_unpool2d: size is (4,); want 2 numbers");
  CHECK(why([&] { max_unpool2d(x, at, {.kernel = 0}); }).find("max_unpool2d: kernel 0") == 0);
  CHECK(why([&] { max_unpool2d(x, at, {.kernel = 2, .padding = 2}); }).find("padding 2") !=
        std::string::npos);
  CHECK(why([&] { max_unpool2d(x, at, {.kernel = std::int64_t{1} << 62}); }).find("beyond 64 bits") !=
        std::string::npos);
  const NDArray far = max_unpool2d(x, full({1, 1, 2, 2}, 16, DType::i64));
  CHECK_THROWS(far.wait());
  CHECK_THROWS(max_unpool2d(x, full({1, 1, 2, 2}, -1, DType::i64)).wait());
  CHECK_THROWS(max_unpool2d(x, full({1, 1, 2, 2}, -1, DType::i32)).wait());
}
