// ResNet-18 (He et al., CVPR'16).
#include "train/networks/network.h"

namespace heddle::bench {
namespace {

Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return {in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}};
}

struct BasicBlock : Module {
  Conv2d conv1, conv2;
  BatchNorm norm1, norm2;
  std::shared_ptr<Sequential> shortcut;  // null: x itself

  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(child("conv1", convolution(in, out, 3, stride))),
        conv2(child("conv2", convolution(out, out, 3, 1))),
        norm1(child("norm1", BatchNorm(out))),
        norm2(child("norm2", BatchNorm(out))) {
    if (in != out)
      shortcut =
          child("shortcut", std::make_shared<Sequential>(convolution(in, out, 1, stride), BatchNorm(out)));
  }
  NDArray forward(const NDArray& x) override {
    const NDArray y = norm2(conv2(relu(norm1(conv1(x)))));
    return relu(y + (shortcut ? (*shortcut)(x) : x));
  }
};

}  // namespace

std::unique_ptr<Network> make_resnet() {
  const auto net =
      std::make_shared<Sequential>(convolution(3, 64, 7, 2), BatchNorm(64), Relu(), MaxPool2d(3, 2, 1));
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    net->add(BasicBlock(in, out, in == out ? 1 : 2));
    net->add(BasicBlock(out, out, 1));
    in = out;
  }
  net->add(GlobalAvgPool());
  net->add(Dense(512, 200));
  // With a larger rate the losses of the first steps depend on how sums are rounded.
  return std::make_unique<TrainedModule>(
      net, TrainerOptions{.params = {{"lr", 0.001}, {"momentum", 0.9}}},
      [net](const Arrays& batch) { return cross_entropy((*net)(batch[0]), batch[1]); },
      [](Generator& random) {
        return Arrays{random.normal({32, 3, 64, 64}), random.integers({32}, 0, 200)};
      });
}

}  // namespace heddle::bench
