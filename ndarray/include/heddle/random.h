// Random numbers that depend only on the seed and the order of calls: never on workers, threads or vector width.
// Counter-based: Philox4x32-10 (Salmon et al., SC'11, "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// Ten rounds of Philox4x32: four uniform 32-bit words for a counter and a key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// A seed and a position in its sequence of numbers. Each draw of n elements takes its own range of the
// counter when it is called, so that the ops may run in any order. Not thread-safe: use one for each thread,
// or for each purpose.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  NDArray uniform(Shape shape, double low = 0, double high = 1, DType dtype = DType::f32,
                  Device device = cpu(), Where where = Where::current());
  NDArray normal(Shape shape, double mean = 0, double stddev = 1, DType dtype = DType::f32,
                 Device device = cpu(), Where where = Where::current());
  NDArray bernoulli(Shape shape, double probability, DType dtype = DType::f32, Device device = cpu(),
                    Where where = Where::current());
  NDArray integers(Shape shape, std::int64_t low, std::int64_t high, DType dtype = DType::i64,
                   Device device = cpu(), Where where = Where::current());
  // The numbers 0 .. n-1 as i64.
  NDArray permutation(std::int64_t n, Device device = cpu(), Where where = Where::current());

  std::uint64_t seed() const { return seed_; }
  // Position in blocks of four words; save it and the seed to resume.
  std::uint64_t position() const { return position_; }
  void set_position(std::uint64_t position) { position_ = position; }

  // Generators for parts of a program, such as threads or layers; their seeds follow from this generator's
  // seed and position. Draws a block of this generator, so that the next split() returns other generators.
  // Throws InvalidArgument unless parts > 0.
  std::vector<Generator> split(int parts);
  // A copy that is `times` * 2^40 blocks further on: rank r of a job takes jumped(r), and no two ranks draw
  // the same numbers. Throws InvalidArgument unless 0 <= times < 2^24.
  Generator jumped(std::int64_t times = 1) const;

 private:
  std::uint64_t take(std::int64_t elements, int words_per_element);
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
};

Generator& default_generator();        // the calling thread's generator; its initial seed is 0
void manual_seed(std::uint64_t seed);  // reseeds default_generator()

}  // namespace heddle
