#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <heddle/array_op.h>
#include <heddle/number_text.h>

#include "data/scaled.h"

namespace heddle {
namespace data_detail {
namespace {

constexpr std::int64_t kMostPixels = 1 << 16;  // of a side

[[noreturn]] void fail_augmentation(const std::string& problem) {
  throw InvalidArgument("Augmentation: " + problem);
}

void check_probability(const char* name, double value) {
  if (!(value >= 0 && value <= 1))
    fail_augmentation(std::string(name) + " is " + number_text(value) + "; wanted a probability, 0 to 1");
}

void check_sides(const char* name, const std::array<std::int64_t, 2>& sides) {
  const bool none = sides[0] == 0 && sides[1] == 0;
  const auto fits = [](std::int64_t side) { return side > 0 && side <= kMostPixels; };
  if (none || (fits(sides[0]) && fits(sides[1]))) return;
  fail_augmentation(std::string(name) + " is (" + std::to_string(sides[0]) + ", " + std::to_string(sides[1]) +
                    "); wanted height and width, 1 to 65536");
}

void check_channels(const char* name, const std::vector<double>& values, std::int64_t channels) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count > 1 && channels != kInferred && count != channels) {
    fail_augmentation(std::string(name) + " has " + std::to_string(count) + " numbers, and the image " +
                      std::to_string(channels) + " channels; wanted one number, or one a channel");
  }
  for (const double value : values) {
    if (!std::isfinite(value)) fail_augmentation(std::string(name) + " has a number that is not finite");
  }
}

void check_values(const Augmentation& of, std::int64_t channels) {
  check_probability("flip", of.flip);
  check_probability("erase", of.erase);
  check_sides("resize", of.resize);
  check_sides("crop", of.crop);
  if (of.padding < 0 || of.padding > kMostPixels)
    fail_augmentation("padding is " + std::to_string(of.padding) + "; wanted 0 to 65536");
  if (!(of.area[0] > 0 && of.area[0] <= of.area[1] && of.area[1] <= 1)) {
    fail_augmentation("area is (" + number_text(of.area[0]) + ", " + number_text(of.area[1]) +
                      "); wanted two shares above 0 and up to 1, the smaller one first");
  }
  if (of.area[0] < 1 && of.resize[0] == 0)
    fail_augmentation("area without resize; wanted the size of the result");
  check_channels("mean", of.mean, channels);
  check_channels("std", of.std, channels);
  for (const double value : of.std) {
    if (value <= 0) fail_augmentation("std has " + number_text(value) + "; wanted numbers above 0");
  }
}

struct Rectangle {
  std::int64_t top, left, height, width;
};

Rectangle random_area(const Augmentation& of, std::int64_t height, std::int64_t width,
                      ExampleRandom& random) {
  if (of.area[0] == 1) return {0, 0, height, width};
  const double whole = static_cast<double>(height) * static_cast<double>(width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = whole * (of.area[0] + (of.area[1] - of.area[0]) * random.uniform());
    const double ratio =
        std::exp(std::log(3.0 / 4) + (std::log(4.0 / 3) - std::log(3.0 / 4)) * random.uniform());
    const auto wide = static_cast<std::int64_t>(std::lround(std::sqrt(area * ratio)));
    const auto high = static_cast<std::int64_t>(std::lround(std::sqrt(area / ratio)));
    if (wide < 1 || high < 1 || wide > width || high > height) continue;
    const std::int64_t top = random.integer(height - high + 1);
    return {top, random.integer(width - wide + 1), high, wide};
  }
  return {0, 0, height, width};
}

// The weights of one output pixel: those of `first` and of the pixels behind it.
struct Taps {
  std::int64_t first;
  std::vector<float> weights;
};

// A triangle filter, widened where the image becomes smaller, so that no pixel is left out.
std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), support = std::max(1.0, scale);
  std::vector<Taps> result(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto end = std::min(from, static_cast<std::int64_t>(centre + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t at = first; at < std::max(end, first + 1); ++at) {
      const double distance = std::abs(static_cast<double>(at) + 0.5 - centre) / support;
      weights.push_back(std::max(0.0, 1 - distance));
      sum += weights.back();
    }
    Taps& taps = result[static_cast<std::size_t>(i)];
    taps.first = std::min(first, from - 1);
    for (const double weight : weights)
      taps.weights.push_back(static_cast<float>(sum > 0 ? weight / sum : 1));
  }
  return result;
}

template <class T> T rounded(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return static_cast<T>(std::clamp(value + 0.5f, 0.0f, 255.0f));
  }
}

// Resizes a rectangle of each channel, first along rows, then along columns.
template <class T>
std::vector<T> resized(const T* source, std::int64_t channels, std::int64_t height, std::int64_t width,
                       const Rectangle& part, const std::array<std::int64_t, 2>& to) {
  const std::vector<Taps> along_x = taps_of(part.width, to[1]), along_y = taps_of(part.height, to[0]);
  std::vector<T> result(static_cast<std::size_t>(channels * to[0] * to[1]));
  std::vector<float> rows(static_cast<std::size_t>(part.height * to[1])),
      sums(static_cast<std::size_t>(to[1]));
  T* target = result.data();
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < part.height; ++y) {
      const T* const row = source + (c * height + part.top + y) * width + part.left;
      float* const out = rows.data() + y * to[1];
      for (std::int64_t x = 0; x < to[1]; ++x) {
        const Taps& taps = along_x[static_cast<std::size_t>(x)];
        float sum = 0;
        for (std::size_t k = 0; k < taps.weights.size(); ++k)
          sum += taps.weights[k] * static_cast<float>(row[taps.first + static_cast<std::int64_t>(k)]);
        out[x] = sum;
      }
    }
    for (std::int64_t y = 0; y < to[0]; ++y) {
      const Taps& taps = along_y[static_cast<std::size_t>(y)];
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::size_t k = 0; k < taps.weights.size(); ++k) {
        const float* const row = rows.data() + (taps.first + static_cast<std::int64_t>(k)) * to[1];
        for (std::size_t x = 0; x < sums.size(); ++x) sums[x] += taps.weights[k] * row[x];
      }
      for (const float sum : sums) *target++ = rounded<T>(sum);
    }
  }
  return result;
}

// The map x -> x * scale + shift of each channel.
struct Affine {
  float scale, shift;
};
Affine affine_of(const Augmentation& of, std::int64_t channel, bool bytes) {
  const auto at = [&](const std::vector<double>& values, double otherwise) {
    if (values.empty()) return otherwise;
    return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
  };
  const double mean = at(of.mean, 0), deviation = at(of.std, 1);
  return {static_cast<float>((bytes ? 1.0 / 255 : 1.0) / deviation), static_cast<float>(-mean / deviation)};
}

// Writes the window at (top, left) of the image, with zeros outside of it.
template <class T, class U, class Map>
void copy_window(const T* source, std::int64_t height, std::int64_t width, const Rectangle& window, bool flip,
                 U* target, Map map) {
  const U outside = map(T{});
  const std::int64_t begin = std::clamp<std::int64_t>(-window.left, 0, window.width);
  const std::int64_t end = std::clamp<std::int64_t>(width - window.left, begin, window.width);
  for (std::int64_t y = 0; y < window.height; ++y, target += window.width) {
    const std::int64_t row = window.top + y;
    if (row < 0 || row >= height) {
      std::fill(target, target + window.width, outside);
      continue;
    }
    const T* const from = source + row * width + window.left;
    std::fill(target, target + begin, outside);
    for (std::int64_t x = begin; x < end; ++x) target[x] = map(from[x]);
    std::fill(target + end, target + window.width, outside);
    if (flip) std::reverse(target, target + window.width);
  }
}

template <class U>
void erase_rectangle(std::int64_t channels, std::int64_t height, std::int64_t width, ExampleRandom& random,
                     U* image) {
  const double whole = static_cast<double>(height) * static_cast<double>(width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = whole * (0.02 + 0.31 * random.uniform());
    const double ratio = std::exp(std::log(0.3) * (1 - 2 * random.uniform()));
    const auto high = static_cast<std::int64_t>(std::lround(std::sqrt(area * ratio)));
    const auto wide = static_cast<std::int64_t>(std::lround(std::sqrt(area / ratio)));
    if (high < 1 || wide < 1 || high >= height || wide >= width) continue;
    const std::int64_t top = random.integer(height - high + 1), left = random.integer(width - wide + 1);
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t y = top; y < top + high; ++y)
        std::fill_n(image + (c * height + y) * width + left, wide, U{});
    }
    return;
  }
}

template <class T, class U>
void run_typed(const Augmentation& of, const Shape& shape, const T* source, ExampleRandom& random,
               U* target) {
  const std::int64_t channels = shape[0];
  std::int64_t height = shape[1], width = shape[2];
  std::vector<T> smaller;
  if (of.resize[0] > 0) {
    const Rectangle part = random_area(of, height, width, random);
    smaller = resized(source, channels, height, width, part, of.resize);
    source = smaller.data();
    height = of.resize[0];
    width = of.resize[1];
  }
  Rectangle window{-of.padding, -of.padding, height + 2 * of.padding, width + 2 * of.padding};
  if (of.crop[0] > 0) {
    const std::int64_t down = window.height - of.crop[0], right = window.width - of.crop[1];
    window.top += of.centre ? down / 2 : random.integer(down + 1);
    window.left += of.centre ? right / 2 : random.integer(right + 1);
    window.height = of.crop[0];
    window.width = of.crop[1];
  }
  const bool flip = of.flip > 0 && random.uniform() < of.flip;
  for (std::int64_t c = 0; c < channels; ++c) {
    const T* const from = source + c * height * width;
    U* const to = target + c * window.height * window.width;
    if constexpr (std::is_same_v<T, U>) {
      if (of.mean.empty() && of.std.empty()) {
        copy_window(from, height, width, window, flip, to, [](T value) { return value; });
        continue;
      }
    }
    const Affine map = affine_of(of, c, std::is_same_v<T, std::uint8_t>);
    copy_window(from, height, width, window, flip, to,
                [map](T value) { return static_cast<U>(static_cast<float>(value) * map.scale + map.shift); });
  }
  if (of.erase > 0 && random.uniform() < of.erase)
    erase_rectangle(channels, window.height, window.width, random, target);
}

}  // namespace

void run_augmentation(const Augmentation& of, const ExampleArray& image, const std::byte* source,
                      ExampleRandom& random, std::byte* target) {
  const bool normalised = !of.mean.empty() || !of.std.empty();
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(source);
  if (image.dtype == DType::f32)
    run_typed(of, image.shape, reinterpret_cast<const float*>(source), random,
              reinterpret_cast<float*>(target));
  else if (normalised)
    run_typed(of, image.shape, bytes, random, reinterpret_cast<float*>(target));
  else
    run_typed(of, image.shape, bytes, random, reinterpret_cast<std::uint8_t*>(target));
}

}  // namespace data_detail

Augmentation Augmentation::evaluation() const {
  Augmentation result = *this;
  result.area = {1, 1};
  result.centre = true;
  result.flip = result.erase = 0;
  return result;
}

ExampleArray augmented(const Augmentation& of, const ExampleArray& image) {
  using data_detail::fail_augmentation;
  const std::string shown = std::string(name_of(image.dtype)) + " " + image.shape.to_string();
  if (image.shape.size() != 3) fail_augmentation("the array is " + shown + "; wanted an image (C, H, W)");
  if (image.dtype != DType::u8 && image.dtype != DType::f32)
    fail_augmentation("the array is " + shown + "; wanted u8 or f32");
  data_detail::check_values(of, image.shape[0]);
  ExampleArray result = image;
  if (!of.mean.empty() || !of.std.empty()) result.dtype = DType::f32;
  for (int side = 0; side < 2; ++side) {
    std::int64_t& size = result.shape[side + 1];
    const auto at = static_cast<std::size_t>(side);
    if (size == 0) fail_augmentation("the image is " + shown + "; wanted at least one pixel");
    if (of.resize[0] > 0) size = of.resize[at];
    if (size != kInferred) size += 2 * of.padding;
    if (of.crop[0] == 0) continue;
    if (size != kInferred && size < of.crop[at]) {
      fail_augmentation("crop is (" + std::to_string(of.crop[0]) + ", " + std::to_string(of.crop[1]) +
                        "), larger than the image " + shown + " with its padding");
    }
    size = of.crop[at];
  }
  return result;
}

NDArray augment(const Augmentation& of, const NDArray& image, ExampleRandom random, Where where) {
  const CallSite site(where);
  if (!image.defined()) throw InvalidArgument("augment: image is undefined");
  const ExampleArray from{image.dtype(), image.shape()};
  const ExampleArray to = augmented(of, from);
  const NDArray source = image.detach().contiguous(), result(to.shape, to.dtype);
  array_push("augment", {source}, {result}, [=]() mutable {
    data_detail::run_augmentation(of, from, source.data<const std::byte>(), random, result.data<std::byte>());
  });
  return result;
}

}  // namespace heddle
