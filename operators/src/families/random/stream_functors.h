// The random numbers of one element, and ranges of parameters, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it.
// Names have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>
#include <cstdint>

#include <heddle/random_numbers.h>

#include "core/functor.h"

namespace heddle {

// The range of a distribution's parameter.
enum class ParameterRange : std::uint8_t { positive, not_negative, probability, count, any };

HEDDLE_FUNCTOR inline bool fits(ParameterRange range, double value) {
  if (!(value - value == 0)) return range == ParameterRange::any;  // infinite or NaN
  switch (range) {
    case ParameterRange::positive:
      return value > 0;
    case ParameterRange::not_negative:
      return value >= 0;
    case ParameterRange::probability:
      return value >= 0 && value <= 1;
    case ParameterRange::count:
      return value >= 0 && value <= 0x1p53 && value == std::floor(value);
    case ParameterRange::any:
      break;
  }
  return true;
}

namespace functors {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Draws any number of random numbers without shifting those of other elements.
class ElementStream {
 public:
  // Begins with draw 2 * block of the element.
  HEDDLE_FUNCTOR ElementStream(std::uint64_t seed, std::uint64_t start, std::int64_t element,
                               std::uint32_t block = 0)
      : seed_(seed), position_(start + static_cast<std::uint64_t>(element)), block_(block) {}

  // Leaves out the next 2 * blocks numbers, if an even number of them has been drawn.
  HEDDLE_FUNCTOR void skip(std::int64_t blocks) { block_ += static_cast<std::uint32_t>(blocks); }
  HEDDLE_FUNCTOR double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // in [0, 1)
  HEDDLE_FUNCTOR double positive() { return 1 - uniform(); }                               // in (0, 1]
  HEDDLE_FUNCTOR double exponential() { return -std::log(positive()); }
  HEDDLE_FUNCTOR double normal() {
    const double radius = std::sqrt(2 * exponential());
    return radius * std::cos(2 * kPi * uniform());
  }

 private:
  // Words 0 and 1 of the counter are the position, which no other draw shares; word 2 counts this element's
  // blocks.
  HEDDLE_FUNCTOR std::uint64_t next() {
    has_second_ = !has_second_;
    if (!has_second_) return second_;
    std::uint32_t a = static_cast<std::uint32_t>(position_), b = static_cast<std::uint32_t>(position_ >> 32),
                  c = block_++, d = 0;
    random_numbers::ten_rounds(a, b, c, d, static_cast<std::uint32_t>(seed_),
                               static_cast<std::uint32_t>(seed_ >> 32));
    second_ = c | std::uint64_t{d} << 32;
    return a | std::uint64_t{b} << 32;
  }

  std::uint64_t seed_, position_, second_ = 0;
  std::uint32_t block_;
  bool has_second_ = false;
};

}  // namespace
}  // namespace functors
}  // namespace heddle
