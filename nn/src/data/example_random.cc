#include <string>

#include <heddle/data/example_random.h>
#include <heddle/error.h>
#include <heddle/random.h>

#include "data/scaled.h"

namespace heddle {

ExampleRandom::ExampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index)
    : seed_(seed),
      epoch_(epoch),
      index_(index),
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      counter_{0, static_cast<std::uint32_t>(index),
               static_cast<std::uint32_t>((static_cast<std::uint64_t>(index) >> 32) & 0xffffff) | 3u << 24,
               static_cast<std::uint32_t>(epoch)} {}

std::uint32_t ExampleRandom::word() {
  if (used_ == 4) {
    words_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

double ExampleRandom::uniform() { return word() * 0x1p-32; }

std::uint64_t ExampleRandom::bits() {
  const std::uint64_t high = word();
  return high << 32 | word();
}

std::int64_t ExampleRandom::integer(std::int64_t below) {
  if (below < 1)
    throw InvalidArgument("ExampleRandom::integer: below is " + std::to_string(below) + "; wanted 1 or more");
  return data_detail::scaled(bits(), below);
}

}  // namespace heddle
