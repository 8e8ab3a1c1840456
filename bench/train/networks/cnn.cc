#include "train/networks/network.h"

namespace heddle::bench {

// The network of train_network.h.
std::unique_ptr<Network> make_cnn() {
  const auto net = std::make_shared<Sequential>(Conv2d(1, 32, 3, {.padding = 1, .relu = true}), MaxPool2d(2),
                                                Conv2d(32, 64, 3, {.padding = 1, .relu = true}), MaxPool2d(2),
                                                Flatten(), Dense(3136, 128, {.relu = true}), Dense(128, 10));
  return std::make_unique<TrainedModule>(
      net, TrainerOptions{.params = {{"lr", 0.01}, {"momentum", 0.9}}},
      [net](const Arrays& batch) { return cross_entropy((*net)(batch[0]), batch[1]); },
      [](Generator& random) {
        return Arrays{random.normal({64, 1, 28, 28}), random.integers({64}, 0, 10)};
      });
}

}  // namespace heddle::bench
