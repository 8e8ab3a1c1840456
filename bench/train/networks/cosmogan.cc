// CosmoGAN (Mustafa et al., arXiv:1706.02390), for maps of 64 x 64: a generator and a discriminator, each with a trainer.
#include "train/networks/network.h"

namespace heddle::bench {
namespace {

constexpr std::int64_t kNoise = 64;

TrainerOptions adam(const NetworkSetup& setup) {
  return {.optimizer = "adam", .params = {{"lr", 0.00002}, {"beta1", 0.5}}, .store = setup.store()};
}

Sequential make_generator() {
  Sequential net(Dense(kNoise, 512 * 4 * 4), Unflatten(1, {512, 4, 4}), BatchNorm(512), Relu());
  const auto up = [&](std::int64_t in, std::int64_t out) {
    net.add(ConvTranspose2d(in, out, 5, {.stride = 2, .padding = 2, .output_padding = 1}));
  };
  for (const std::int64_t out : {256, 128, 64}) {
    up(2 * out, out);
    net.add(BatchNorm(out));
    net.add(Relu());
  }
  up(64, 1);
  net.add(Tanh());
  return net;
}

Sequential make_discriminator() {
  Sequential net;
  std::int64_t in = 1;
  for (const std::int64_t out : {64, 128, 256, 384}) {
    net.add(Conv2d(in, out, 5, {.stride = 2, .padding = 2}));
    if (in != 1) net.add(BatchNorm(out));
    net.add(LeakyRelu(0.2));
    in = out;
  }
  net.add(Flatten());
  net.add(Dense(384 * 4 * 4, 1));
  return net;
}

class CosmoGan : public Network {
 public:
  explicit CosmoGan(const NetworkSetup& setup)
      : size_(setup.batch > 0 ? setup.batch : 16),
        of_generator_(generator_.parameters(), adam(setup)),
        of_discriminator_(discriminator_.parameters(), adam(setup)) {
    const NoGrad no_grad;
    for (const Parameter& one : parameters()) {
      if (one.value.ndim() > 1) one.value.assign(default_generator().normal(one.value.shape(), 0, 0.02));
    }
  }

  std::vector<Parameter> parameters() const override {
    std::vector<Parameter> all = generator_.parameters();
    for (const Parameter& one : discriminator_.parameters()) all.push_back(one);
    return all;
  }
  // Maps, noise for each network's step, and the labels of maps, of which 1 % are wrong.
  Arrays draw_batch(Generator& random) const override {
    return {random.uniform({size_, 1, 64, 64}, -1, 1), random.normal({size_, kNoise}),
            random.normal({size_, kNoise}), random.bernoulli({size_, 1}, 0.99)};
  }
  // The sum of both losses.
  NDArray step(const Arrays& batch, bool captured) override {
    const Arrays first{batch[0], batch[1], batch[3]}, second{batch[2]};
    const NDArray one = captured ? captured_discriminator_(first) : step_discriminator(first);
    return one + (captured ? captured_generator_(second) : step_generator(second));
  }

 private:
  NDArray step_discriminator(const Arrays& batch) {
    const NDArray made = make(batch[1]);
    const NDArray loss = bce_with_logits(discriminator_(batch[0]), batch[2]) +
                         bce_with_logits(discriminator_(made), zeros({size_, 1}));
    backward(loss);
    of_discriminator_.step();
    return loss.detach();
  }
  NDArray make(const NDArray& noise) {
    const NoGrad no_grad;
    return generator_(noise);
  }
  NDArray step_generator(const Arrays& batch) {
    discriminator_.freeze();
    const NDArray loss = bce_with_logits(discriminator_(generator_(batch[0])), ones({size_, 1}));
    backward(loss);
    discriminator_.freeze(false);
    of_generator_.step();
    return loss.detach();
  }

  const std::int64_t size_;
  Sequential generator_ = make_generator(), discriminator_ = make_discriminator();
  Trainer of_generator_, of_discriminator_;
  CapturedStep captured_discriminator_ =
      of_discriminator_.capture([this](const Arrays& batch) { return step_discriminator(batch); });
  CapturedStep captured_generator_ =
      of_generator_.capture([this](const Arrays& batch) { return step_generator(batch); });
};

}  // namespace

std::unique_ptr<Network> make_cosmogan(const NetworkSetup& setup) {
  return std::make_unique<CosmoGan>(setup);
}

}  // namespace heddle::bench
