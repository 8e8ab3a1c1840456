// Random numbers for changing one example, which depend on nothing but the loader's seed, the epoch and the example.
#pragma once

#include <array>
#include <cstdint>

namespace heddle {

// Random numbers of one example in one epoch (Philox): the same ones whenever and wherever the example is read. A copy goes on
// on its own from where it is. For one thread at a time.
class ExampleRandom {
 public:
  ExampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index);
  double uniform();  // in [0, 1)
  std::int64_t integer(
      std::int64_t below);  // 0 .. below - 1; throws InvalidArgument for a `below` less than 1
  std::uint64_t bits();     // 64 random bits: the seed of another generator
  std::uint64_t seed() const { return seed_; }
  std::int64_t epoch() const { return epoch_; }  // for changes that grow with the training
  std::int64_t index() const { return index_; }  // of the example in the loader's dataset

 private:
  std::uint32_t word();
  std::uint64_t seed_;
  std::int64_t epoch_, index_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_, words_{};
  int used_ = 4;
};

}  // namespace heddle
