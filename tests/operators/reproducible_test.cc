#include <cstring>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"

namespace heddle {

namespace {

using Program = std::function<NDArray()>;

// Enough rows that a sum over them is split into several chunks.
constexpr std::int64_t kRows = test::kSanitized ? 300 : 3000;

std::vector<float> run_on(EngineOptions options, const Program& program) {
  Engine engine(options);
  EngineScope scope(engine);
  return program().to_vector<float>();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

NDArray normal(Shape shape) { return Generator(9).normal(shape); }

// Computes gradients of a loss in which leaves are used by many operators, with large sums over each axis.
NDArray training_step() {
  NDArray w = normal({64, 1500}), b = normal({1500});
  set_requires_grad(w);
  set_requires_grad(b);
  const NDArray x = tanh(w * 0.5 + b) * sigmoid(w);
  const NDArray y = mean(exp(x), {0}) + max(w, {0}) / (1 + square(b));
  backward(sum(y * max(take(transpose(w), arange(0, 1500, 1, DType::i64)), {1})));
  return concat({flatten(grad(w), 0), grad(b), y});
}

}  // namespace

TEST_CASE("results are the same bits whatever the scheduler and the number of workers") {
  const std::vector<Program> programs = {
      training_step,
      [] {
        return sum(normal({kRows, 700}));
      },
      [] {
        return sum(normal({kRows, 700}), {0});
      },
      [] {
        return mean(normal({40000, 3}), {0});
      },
      [] {
        return exp(normal({1000, 333})) + transpose(normal({333, 1000}));
      },
  };
  for (const Program& program : programs) {
    const std::vector<float> expected = run_on({.scheduler = Scheduler::naive}, program);
    CHECK(same_bits(expected, run_on({.workers = 1}, program)));
    CHECK(same_bits(expected, run_on({.workers = 2}, program)));
    CHECK(same_bits(expected, run_on({.workers = 4}, program)));
    for (std::uint64_t seed = 0; seed < (test::kSanitized ? 2 : 5); ++seed) {
      CHECK(same_bits(expected, run_on({.scheduler = Scheduler::fuzz, .seed = seed}, program)));
    }
  }
}

}  // namespace heddle
