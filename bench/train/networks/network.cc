#include "train/networks/network.h"

#include <stdexcept>
#include <utility>

namespace heddle::bench {

TrainedModule::TrainedModule(std::shared_ptr<Module> net, TrainerOptions options, Loss loss, Draw draw)
    : net_(std::move(net)),
      loss_(std::move(loss)),
      draw_(std::move(draw)),
      trainer_(net_->parameters(), std::move(options)),
      captured_(trainer_.capture([this](const Arrays& batch) { return step_now(batch); })) {}

NDArray TrainedModule::step_now(const Arrays& batch) {
  const NDArray loss = loss_(batch);
  backward(loss);
  trainer_.step();
  return loss.detach();
}

NDArray TrainedModule::step(const Arrays& batch, bool captured) {
  return captured ? captured_(batch) : step_now(batch);
}

const std::vector<NetworkKind>& network_kinds() {
  static const std::vector<NetworkKind> kinds{
      {"mlp", "MLP 784-512-512-10, batch 128, SGD with momentum", make_mlp},
      {"cnn", "two convolutions and two dense layers on 28 x 28, batch 64, SGD with momentum", make_cnn,
       "images"},
      {"resnet18", "ResNet-18 on 64 x 64, 200 classes, batch 32, SGD with momentum", make_resnet, "images"},
      {"lstm", "language model: LSTM 2 x 512, vocabulary 256, T 64, batch 32, Adam",
       [] { return make_lstm(false); }},
      {"lstm-lengths", "the same with sequences of 6 to 64 steps, mean 21", [] { return make_lstm(true); },
       "lengths"},
      {"transformer",
       "language model: 4 causal blocks of 256, 8 heads, vocabulary 256, T 128, batch 16, Adam",
       make_transformer},
      {"hep-cnn", "HEP-CNN on 3 x 224 x 224, batch 8, Adam", [] { return make_hep_cnn(); }, "images"},
      {"cosmogan", "CosmoGAN at 64 x 64, batch 16, a step of both networks, Adam",
       [] { return make_cosmogan(); }, "images"},
      {"embeddings",
       "recommender: 8 tables of 100,000 x 32 and 3 dense layers, batch 1,024, SGD, row-sparse gradients",
       make_recommender}};
  return kinds;
}

const NetworkKind& network_kind(const std::string& name) {
  for (const NetworkKind& kind : network_kinds())
    if (kind.name == name) return kind;
  throw std::out_of_range("no network is called " + name);
}

}  // namespace heddle::bench
