// The layers that add positions to sequences. Rotary positions are an option of attention.
#pragma once

#include <cstdint>
#include <memory>

#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

struct SinusoidalPositionsOptions {
  double base = 10000;  // the longest wave has the length 2 pi base
};

// x (..., length, features) plus sines and cosines of its positions (Vaswani et al., arXiv:1706.03762): of position p and feature 2 i it
// is sin(p / base^(2 i / features)), of 2 i + 1 the cosine. No parameters; any length.
class SinusoidalPositions : public Layer {
 public:
  explicit SinusoidalPositions(const LayerCall& call);
  explicit SinusoidalPositions(const SinusoidalPositionsOptions& options = {});

 private:
  struct Table;
  NDArray compute(const NDArray& x) override;
  std::shared_ptr<Table> table_;  // of the longest sequence so far; shared by copies
};

struct LearnedPositionsOptions {
  double stddev = 0.02;  // of the initial values, which are normal around 0
  Device device{};
};

// x (..., steps, features) plus the first rows of the parameter weight (length, features); steps is `length` at most.
class LearnedPositions : public Layer {
 public:
  explicit LearnedPositions(const LayerCall& call);
  LearnedPositions(std::int64_t length, std::int64_t features, const LearnedPositionsOptions& options = {},
                   Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
