// The batch of a convolution in chunks of images, and what the full chunks and a shorter last one each need.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "families/conv/kernels.h"

namespace heddle::cpu_kernels {

// The number of images in a chunk: there are about 16 chunks, each of `smallest` operations, 20 microseconds, or more. Every chunk
// reads, or makes, all weights, so each has at least kReuse times as many operations as weights.
inline std::int64_t images_per_chunk(const ConvProblem& p, double smallest) {
  constexpr double kReuse = 128;
  const double flops = p.flops_per_image() * static_cast<double>(p.n);
  const double least = std::max(smallest, kReuse * static_cast<double>(p.weights()));
  const auto worth = static_cast<std::uint64_t>(std::clamp(flops / least, 1.0, 16.0));
  const auto chunks = static_cast<std::int64_t>(std::bit_ceil(worth));
  return (p.n + chunks - 1) / chunks;
}

// One: made of the problem, the images of a chunk, and the weights.
template <class One> class ImageChunks {
 public:
  template <class T>
  ImageChunks(const ConvProblem& problem, std::int64_t images, const T* weights) : images_(images) {
    full_.emplace(problem, images, weights);
    if (const std::int64_t rest = problem.n % images) last_.emplace(problem, rest, weights);
  }
  std::int64_t images() const { return images_; }
  const One& of(std::int64_t count) const { return count == images_ ? *full_ : *last_; }

 private:
  std::int64_t images_;
  std::optional<One> full_, last_;
};

}  // namespace heddle::cpu_kernels
