// Augmentation against plain loops.
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/ops.h>

#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::int64_t kHeight = 5, kWidth = 4;

NDArray image() { return arange(2 * kHeight * kWidth, DType::u8).reshape({2, kHeight, kWidth}).copy(); }

std::vector<std::uint8_t> bytes_of(const NDArray& array) { return array.to_vector<std::uint8_t>(); }

// The window at (top, left) of image(), with zeros around it.
std::vector<std::uint8_t> window(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width,
                                 bool flip) {
  std::vector<std::uint8_t> result;
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t y = top; y < top + height; ++y) {
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t x = left + (flip ? width - 1 - i : i);
        const bool inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
        result.push_back(static_cast<std::uint8_t>(inside ? (c * kHeight + y) * kWidth + x : 0));
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("crops are windows of the padded image, all of them, flipped half the time") {
  const Augmentation change{.padding = 2, .crop = {4, 3}, .flip = 0.5};
  std::set<std::vector<std::uint8_t>> possible;
  for (std::int64_t top = -2; top <= kHeight + 2 - 4; ++top) {
    for (std::int64_t left = -2; left <= kWidth + 2 - 3; ++left) {
      for (const bool flip : {false, true}) possible.insert(window(top, left, 4, 3, flip));
    }
  }
  std::set<std::vector<std::uint8_t>> seen;
  for (std::int64_t i = 0; i < 3000; ++i)
    seen.insert(bytes_of(augment(change, image(), ExampleRandom(1, 0, i))));
  CHECK(seen == possible);
  CHECK(bytes_of(augment(change.evaluation(), image(), ExampleRandom(1, 0, 0))) == window(0, 0, 4, 3, false));
}

TEST_CASE("normalisation divides bytes by 255, and leaves f32 as it is") {
  const Augmentation change{.mean = {0.5, 0.25}, .std = {0.5, 2}};
  const auto values = augment(change, image(), ExampleRandom(0, 0, 0)).to_vector<float>();
  const auto floats = augment(change, image().astype(DType::f32), ExampleRandom(0, 0, 0)).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double mean = i < 20 ? 0.5 : 0.25, deviation = i < 20 ? 0.5 : 2;
    CHECK(values[i] == doctest::Approx((static_cast<double>(i) / 255 - mean) / deviation).epsilon(1e-5));
    CHECK(floats[i] == doctest::Approx((static_cast<double>(i) - mean) / deviation).epsilon(1e-5));
  }
}

TEST_CASE("resizing is bilinear, and an average where the image becomes smaller") {
  const NDArray row = array(std::vector<float>{0, 2, 4, 6}, {1, 1, 4});
  const auto resized = [&](std::int64_t width) {
    return augment({.resize = {1, width}}, row, ExampleRandom(0, 0, 0)).to_vector<float>();
  };
  CHECK(resized(4) == std::vector<float>{0, 2, 4, 6});
  const std::vector<float> wide{0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6};
  const auto larger = resized(8);
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(larger[i] == doctest::Approx(wide[i]));
  // Triangles of width 4 at 1 and 3: weights 3, 3, 1 of pixels 0 to 2, and 1, 3, 3 of 1 to 3.
  const auto half = resized(2);
  CHECK(half[0] == doctest::Approx((0 * 3 + 2 * 3 + 4 * 1) / 7.0));
  CHECK(half[1] == doctest::Approx((2 * 1 + 4 * 3 + 6 * 3) / 7.0));
  const NDArray flat = full({3, 17, 9}, 200, DType::u8);
  for (const std::uint8_t value : bytes_of(augment({.resize = {5, 30}}, flat, ExampleRandom(0, 0, 0))))
    CHECK(value == 200);
}

TEST_CASE("an area of the image is resized, within bounds") {
  const Augmentation change{.area = {0.1, 0.5}, .resize = {6, 6}};
  // A gradient from left to right: the span of the result's row says how wide the area was.
  const NDArray ramp = broadcast_to(arange(100, DType::f32), {1, 80, 100}).copy();
  std::set<int> spans;
  for (std::int64_t i = 0; i < 200; ++i) {
    const auto values = augment(change, ramp, ExampleRandom(3, 1, i)).to_vector<float>();
    CHECK(values[0] >= 0);
    CHECK(values[5] <= 99);
    const double width = (values[5] - values[0]) * 6 / 5;
    CHECK(width < std::sqrt(0.5 * 8000 * 4 / 3) + 8);
    spans.insert(static_cast<int>(width));
  }
  CHECK(spans.size() > 20);
  CHECK(augment(change.evaluation(), ramp, ExampleRandom(3, 1, 0)).to_vector<float>()[0] < 10);
}

TEST_CASE("erasing sets one rectangle to zero") {
  const NDArray ones_image = ones({2, 20, 30});
  int erased = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const NDArray result = augment({.erase = 0.5}, ones_image, ExampleRandom(3, 1, i));
    const double share = 1 - mean(result).item<float>();
    erased += share > 0;
    CHECK(share < 0.4);
    CHECK(bool(all(equal(result[0], result[1]))));
  }
  CHECK(erased > 70);
  CHECK(erased < 130);
}

TEST_CASE("wrong values and images are refused") {
  const auto message = [](Augmentation change, NDArray of) {
    return message_of([&] { augment(change, of, ExampleRandom(0, 0, 0)); });
  };
  CHECK(message({.flip = 2}, image()) == "Augmentation: flip is 2; wanted a probability, 0 to 1");
  CHECK(message({.crop = {6, 4}}, image()) ==
        "Augmentation: crop is (6, 4), larger than the image u8 (2, 5, 4) with its padding");
  CHECK(message({.crop = {3, 0}}, image()) ==
        "Augmentation: crop is (3, 0); wanted height and width, 1 to 65536");
  CHECK(message({.area = {0.1, 1}}, image()) ==
        "Augmentation: area without resize; wanted the size of the result");
  CHECK(message({.mean = {1, 2, 3}}, image()) ==
        "Augmentation: mean has 3 numbers, and the image 2 channels; wanted one number, or one a channel");
  CHECK(message({.std = {0}}, image()) == "Augmentation: std has 0; wanted numbers above 0");
  CHECK(message({}, ones({5, 5})) == "Augmentation: the array is f32 (5, 5); wanted an image (C, H, W)");
  CHECK(message({}, ones({1, 5, 5}, DType::f64)) ==
        "Augmentation: the array is f64 (1, 5, 5); wanted u8 or f32");
  CHECK(message({}, NDArray()) == "augment: image is undefined");
}
