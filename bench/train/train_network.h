// The network that train_bench and train_ranks train, and the settings for the PyTorch peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/heddle.h>

namespace heddle::bench {

// Pictures of ten patterns in noise; a fifth of the labels are wrong, so that the loss never vanishes.
struct TrainData {
  NDArray images, labels;
  explicit TrainData(std::int64_t count);
};

class TrainNetwork {
 public:
  // Makes the store of the trainer. It is called while the network's engine is the current engine.
  using MakeStore = std::function<std::shared_ptr<KVStore>()>;
  // captured: each step launches a captured graph.
  TrainNetwork(int workers, std::int64_t batch, const MakeStore& make_store = nullptr, bool captured = false);

  // Images per second over `steps` steps. Throws std::runtime_error if the loss is not finite.
  double run(int steps);

 private:
  NDArray train_step();
  NDArray step_of(const NDArray& images, const NDArray& labels);

  Engine engine_;
  EngineScope scope_;
  std::int64_t batch_;
  TrainData data_;
  Sequential net_;
  std::shared_ptr<KVStore> store_;
  Trainer trainer_;
  std::unique_ptr<CapturedStep> captured_;  // null: steps are not captured
  std::int64_t step_ = 0;
};

// Environment variables and command-line arguments with which PyTorch may be fast.
struct TorchSetting {
  std::string name;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;
};

std::vector<TorchSetting> torch_settings(int threads);

}  // namespace heddle::bench
