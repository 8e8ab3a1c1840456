#include "train/networks/network.h"

namespace heddle::bench {

std::unique_ptr<Network> make_mlp() {
  const auto net = std::make_shared<Sequential>(Dense(784, 512, {.relu = true}),
                                                Dense(512, 512, {.relu = true}), Dense(512, 10));
  return std::make_unique<TrainedModule>(
      net, TrainerOptions{.params = {{"lr", 0.01}, {"momentum", 0.9}}},
      [net](const Arrays& batch) { return cross_entropy((*net)(batch[0]), batch[1]); },
      [](Generator& random) {
        return Arrays{random.normal({128, 784}), random.integers({128}, 0, 10)};
      });
}

}  // namespace heddle::bench
