// The random numbers of one element: it can draw any number of them without shifting those of other elements.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include <heddle/random.h>

#include "families/random/kernels.h"

namespace heddle::cpu_kernels {

class ElementStream {
 public:
  ElementStream(RandomBlocks range, std::int64_t element)
      : seed_(range.seed), position_(range.start + static_cast<std::uint64_t>(element)) {}

  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // a number in [0, 1)
  double positive() { return 1 - uniform(); }                               // a number in (0, 1]
  double exponential() { return -std::log(positive()); }
  double normal() {
    const double radius = std::sqrt(2 * exponential());
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  // Words 0 and 1 of the counter are the position, which no other draw shares; word 2 counts this element's
  // blocks.
  std::uint64_t next() {
    if (used_ == 2) {
      words_ = philox(
          {static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(position_ >> 32), block_++, 0},
          {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
      used_ = 0;
    }
    const std::size_t i = 2 * used_++;
    return words_[i] | std::uint64_t{words_[i + 1]} << 32;
  }

  std::uint64_t seed_, position_;
  std::uint32_t block_ = 0;
  std::size_t used_ = 2;
  std::array<std::uint32_t, 4> words_{};
};

}  // namespace heddle::cpu_kernels
