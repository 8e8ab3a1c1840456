// HEP-CNN (Kurth et al., SC'17): events of a particle detector, of two kinds.
#include "train/networks/network.h"

namespace heddle::bench {
namespace {

class HepCnn : public TrainedModule {
 public:
  using TrainedModule::TrainedModule;
  void set_dropout(bool on) override { net_->train(on); }
};

}  // namespace

std::unique_ptr<Network> make_hep_cnn(const NetworkSetup& setup) {
  const std::int64_t size = setup.batch > 0 ? setup.batch : 8;
  const auto net = std::make_shared<Sequential>();
  for (const std::int64_t in : {3, 128, 128, 128}) {
    net->add(Conv2d(in, 128, 3, {.padding = 1, .relu = true}));
    net->add(MaxPool2d(2));
    net->add(Dropout(0.5));
  }
  net->add(Conv2d(128, 128, 3, {.padding = 1, .relu = true}));
  net->add(GlobalAvgPool());
  net->add(Dense(128, 2));
  return std::make_unique<HepCnn>(
      net, TrainerOptions{.optimizer = "adam", .params = {{"lr", 1e-4}}, .store = setup.store()},
      [net](const Arrays& batch) { return cross_entropy((*net)(batch[0]), batch[1]); },
      [size](Generator& random) {
        return Arrays{random.normal({size, 3, 224, 224}), random.integers({size}, 0, 2)};
      });
}

}  // namespace heddle::bench
