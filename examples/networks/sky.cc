#include "sky.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace heddle;

Sky::Sky(std::int64_t size) : size_(size), amplitudes_({size, size}), hartley_({size, size}) {
  std::vector<double> hartley, power;
  double sum = 0;
  for (std::int64_t i = 0; i < size * size; ++i) {
    const auto turns = static_cast<double>((i / size) * (i % size)) / static_cast<double>(size);
    const double angle = 2 * std::numbers::pi * turns;
    hartley.push_back((std::cos(angle) + std::sin(angle)) / std::sqrt(static_cast<double>(size)));
    power.push_back(i == 0 ? 0 : std::pow(frequency(i), -2));
    sum += power.back();
  }
  const double scale = static_cast<double>(size * size) / sum;  // for a variance of 1
  hartley_ = array(hartley, {size, size}).astype(DType::f32);
  amplitudes_ = sqrt(array(power, {size, size}) * scale).astype(DType::f32);
}

NDArray Sky::maps(std::int64_t count, Generator& random) const {
  constexpr std::int64_t kMost = 500;  // at once, which bounds the memory
  std::vector<NDArray> parts;
  for (std::int64_t first = 0; first < count; first += kMost) {
    const NDArray waves = random.normal({std::min(kMost, count - first), 1, size_, size_});
    parts.push_back(tanh((transform(waves * amplitudes_) - 0.5) / 2));
  }
  return concat(parts, 0);
}

std::vector<double> Sky::spectrum(const NDArray& maps) const {
  const std::vector<float> power = square(transform(maps)).mean({0, 1}).to_vector<float>();
  std::vector<double> sums(static_cast<std::size_t>(size_ / 2)), counts(sums.size());
  for (std::int64_t i = 1; i < size_ * size_; ++i) {
    const auto ring = static_cast<std::size_t>(std::lround(frequency(i))) - 1;
    if (ring < sums.size()) sums[ring] += power[static_cast<std::size_t>(i)], ++counts[ring];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i];
  return sums;
}

// The Hartley transform along both axes: of real numbers to real ones, and its own inverse.
NDArray Sky::transform(const NDArray& maps) const { return matmul(hartley_, matmul(maps, hartley_)); }

double Sky::frequency(std::int64_t index) const {
  const std::int64_t row = index / size_, column = index % size_;
  return std::hypot(std::min(row, size_ - row), std::min(column, size_ - column));
}

MapStatistics::MapStatistics(const Sky& sky, const NDArray& maps) : pixels(32), power(sky.spectrum(maps)) {
  const std::vector<float> values = maps.to_vector<float>();
  for (float value : values) {
    const auto part = static_cast<std::size_t>(std::clamp(16 * (value + 1), 0.0f, 31.0f));
    pixels[part] += 1 / static_cast<double>(values.size());
  }
}

MapDistance distance(const MapStatistics& a, const MapStatistics& b) {
  MapDistance result;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) result.pixels += std::abs(a.pixels[i] - b.pixels[i]) / 2;
  for (std::size_t i = 0; i < a.power.size(); ++i) {
    result.power += std::abs(std::log(a.power[i] / b.power[i])) / static_cast<double>(a.power.size());
  }
  return result;
}
