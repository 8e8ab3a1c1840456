// Random numbers that depend only on the seed and the order of calls: never on workers, threads or vector width.
// Counter-based: Philox4x32-10 (Salmon et al., SC'11, "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <heddle/graph.h>
#include <heddle/ndarray.h>

namespace heddle {

// Ten rounds of Philox4x32: four uniform 32-bit words for a counter and a key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The blocks of four words that one draw uses: those from `start` on.
struct RandomBlocks {
  std::uint64_t seed, start;
};

// What the op of a draw knows of its blocks: they were taken at the call or, in a captured graph, at the launch.
class RandomDraw {
 public:
  RandomDraw() = default;
  explicit RandomDraw(RandomBlocks blocks, Slot<RandomBlocks> launched = {})
      : blocks_(blocks), launched_(std::move(launched)) {}
  RandomBlocks blocks() const { return launched_.cell() ? *launched_ : blocks_; }  // only inside the op

 private:
  RandomBlocks blocks_{};
  Slot<RandomBlocks> launched_;
};

// A seed and a position in its sequence of numbers. Each draw of n elements takes its own range of the
// counter when it is called, so that the ops may run in any order. Not thread-safe: use one for each thread,
// or for each purpose. In each launch of a captured graph its draws take new ranges, as calls would; a generator that
// has ended by then, such as one made in the capture, gives the same numbers again.
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

  // Takes so many blocks for an op that is pushed now.
  RandomDraw draw(std::uint64_t blocks);

  // Generators for parts of a program, such as threads or layers; their seeds follow from this generator's
  // seed and position. Draws a block of this generator, so that the next split() returns other generators.
  // Throws InvalidArgument unless parts > 0.
  std::vector<Generator> split(int parts);
  // A copy that is `times` * 2^40 blocks further on: rank r of a job takes jumped(r), and no two ranks draw
  // the same numbers. Throws InvalidArgument unless 0 <= times < 2^24.
  Generator jumped(std::int64_t times = 1) const;

 private:
  // How graphs find the generator, as long as it lives. A copy has a handle of its own.
  struct Handle {
    Handle() = default;
    Handle(const Handle&) {}
    Handle& operator=(const Handle&) { return *this; }
    ~Handle() {
      if (self) *self = nullptr;
    }
    std::shared_ptr<Generator*> self;
  };

  RandomBlocks take(std::uint64_t blocks);
  RandomDraw fresh_draw(std::uint64_t blocks);
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
  Handle handle_;
};

Generator& default_generator();        // the calling thread's generator; its initial seed is 0
void manual_seed(std::uint64_t seed);  // reseeds default_generator()

}  // namespace heddle
