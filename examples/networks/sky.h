// Maps of the mass in the universe, by a simple model of our own, and statistics of maps.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/heddle.h>

// Maps of a density exp(g - 1/2), where g is a normal random field of variance 1 whose power falls with the square of the frequency: the
// density has the mean 1. A map (1, size, size) has (density - 1) / (density + 1), which is tanh((g - 1/2) / 2): from -1 to 1.
class Sky {
 public:
  explicit Sky(std::int64_t size);
  heddle::NDArray maps(std::int64_t count, heddle::Generator& random) const;  // (count, 1, size, size)
  // The mean power of maps at each whole frequency, 1 to size / 2.
  std::vector<double> spectrum(const heddle::NDArray& maps) const;

 private:
  heddle::NDArray transform(const heddle::NDArray& maps) const;
  double frequency(std::int64_t index) const;  // of an element of the transform
  std::int64_t size_;
  heddle::NDArray amplitudes_, hartley_;  // (size, size)
};

struct MapStatistics {
  std::vector<double> pixels, power;  // the share of pixels in each of 32 parts of -1 .. 1; the spectrum
  MapStatistics(const Sky& sky, const heddle::NDArray& maps);
};

struct MapDistance {
  double pixels = 0;  // half the sum of the differences of shares: 0 the same, 1 no pixel in common
  double power = 0;   // the mean difference of the natural logarithm of the power
};
MapDistance distance(const MapStatistics& a, const MapStatistics& b);
