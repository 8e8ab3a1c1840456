#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

// Computes the loss and all gradients of a small convolutional network, on an engine with these options.
std::vector<float> gradients(EngineOptions options) {
  Engine engine(options);
  EngineScope scope(engine);
  Generator random(7);
  const NDArray images = random.normal({37, 1, 28, 28}), labels = random.integers({37}, 0, 10);
  std::vector<NDArray> leaves{random.normal({32, 1, 3, 3}),           random.normal({32}),   //
                              random.normal({64, 32, 3, 3}, 0, 0.05), random.normal({64}),   //
                              random.normal({128, 3136}, 0, 0.02),    random.normal({128}),  //
                              random.normal({10, 128}, 0, 0.1),       random.normal({10})};
  for (NDArray& leaf : leaves) set_requires_grad(leaf);
  NDArray x = max_pool2d(conv2d(images, leaves[0], leaves[1], {.padding = {1, 1}, .relu = true}));
  x = max_pool2d(conv2d(x, leaves[2], leaves[3], {.padding = {1, 1}, .relu = true}));
  x = dropout(linear(flatten(x), leaves[4], leaves[5], {.relu = true}), 0.3, random, true);
  const NDArray loss = cross_entropy(linear(x, leaves[6], leaves[7]), labels);
  backward(loss);
  std::vector<NDArray> results{reshape(loss.detach(), {1})};
  for (const NDArray& leaf : leaves) results.push_back(flatten(grad(leaf), 0));
  return concat(results).to_vector<float>();
}

}  // namespace

TEST_CASE("a network's gradients are the same bits whatever the scheduler and the number of workers") {
  const std::vector<float> expected = gradients({.scheduler = Scheduler::naive});
  const auto check = [&](EngineOptions options) {
    const std::vector<float> got = gradients(options);
    REQUIRE(got.size() == expected.size());
    CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
  };
  for (const int workers : {1, 2, 3, 16}) check({.workers = workers});
  for (std::uint64_t seed = 0; seed < 3; ++seed) check({.scheduler = Scheduler::fuzz, .seed = seed});
}

}  // namespace heddle
