// Networks of the Horovod paper (Sergeev and Del Balso, arXiv:1802.05799), from their published shapes: VGG-16
// (Simonyan and Zisserman, arXiv:1409.1556), ResNet-101 (He et al., arXiv:1512.03385), Inception V3 (Szegedy et al.,
// arXiv:1512.00567).
//
// Compute times are those of one NVIDIA P100 with 64 images per step, synthetic data, May 2017, which tensorflow.org
// published as "Benchmarks: training with NVIDIA DGX-1": Inception V3 142 images/s, VGG-16 154, ResNet-50 219,
// ResNet-152 91.8. ResNet-101 was not measured there: its time is interpolated between ResNet-50 and -152 by
// operations: (7.8 - 4.1) / (11.5 - 4.1).
//
// HEP-CNN (Kurth et al., "Deep Learning at 15PF", arXiv:1708.05256): 8 images per step on a node of Cori (one Xeon Phi),
// which is published to reach about 2e12 operations a second; a multiplication with its addition counts as two.
#include <algorithm>
#include <stdexcept>

#include "step.h"

namespace heddle::tool {
namespace {

constexpr double kFloat = 4;
// The share of the forward pass in the time of a step: for each matrix product of the forward pass, the
// backward pass has two.
constexpr double kForward = 1.0 / 3;

struct Layer {
  double parameters, operations;
};

class Network {
 public:
  // Adds a convolution whose output has side x side pixels. `per_channel` is the number of parameters of each
  // output channel beside the kernel: normalisation or bias.
  void conv(int in, int out, int height, int width, int side, int per_channel = 2) {
    const double weights = static_cast<double>(in) * out * height * width;
    layers.push_back({weights + static_cast<double>(per_channel) * out, weights * side * side});
  }
  void conv(int in, int out, int kernel, int side) { conv(in, out, kernel, kernel, side); }
  void dense(int in, int out) {
    const double weights = static_cast<double>(in) * out;
    layers.push_back({weights + out, weights});
  }
  std::vector<Layer> layers;  // the network's layers, from the input to the output
};

Network vgg16() {
  struct Block {
    int channels, convs, side;
  };
  Network net;
  int in = 3;
  for (const Block& block :
       {Block{64, 2, 224}, Block{128, 2, 112}, Block{256, 3, 56}, Block{512, 3, 28}, Block{512, 3, 14}}) {
    for (int i = 0; i < block.convs; ++i, in = block.channels)
      net.conv(in, block.channels, 3, 3, block.side, 1);
  }
  net.dense(512 * 7 * 7, 4096);
  net.dense(4096, 4096);
  net.dense(4096, 1000);
  return net;
}

Network resnet101() {
  struct Stage {
    int width, blocks, side;
  };
  Network net;
  net.conv(3, 64, 7, 112);
  int in = 64;
  for (const Stage& stage : {Stage{64, 3, 56}, Stage{128, 4, 28}, Stage{256, 23, 14}, Stage{512, 3, 7}}) {
    for (int i = 0; i < stage.blocks; ++i, in = 4 * stage.width) {
      net.conv(in, stage.width, 1, stage.side);
      net.conv(stage.width, stage.width, 3, stage.side);
      net.conv(stage.width, 4 * stage.width, 1, stage.side);
      if (i == 0) net.conv(in, 4 * stage.width, 1, stage.side);
    }
  }
  net.dense(2048, 1000);
  return net;
}

void inception_a(Network& net, int in, int pool) {
  net.conv(in, 64, 1, 35);
  net.conv(in, 48, 1, 35);
  net.conv(48, 64, 5, 35);
  net.conv(in, 64, 1, 35);
  net.conv(64, 96, 3, 35);
  net.conv(96, 96, 3, 35);
  net.conv(in, pool, 1, 35);
}

void inception_b(Network& net) {
  net.conv(288, 384, 3, 17);
  net.conv(288, 64, 1, 35);
  net.conv(64, 96, 3, 35);
  net.conv(96, 96, 3, 17);
}

void inception_c(Network& net, int width) {
  constexpr int kSide = 17;
  net.conv(768, 192, 1, kSide);
  net.conv(768, width, 1, kSide);
  net.conv(width, width, 1, 7, kSide);
  net.conv(width, 192, 7, 1, kSide);
  net.conv(768, width, 1, kSide);
  for (int i = 0; i < 3; ++i) net.conv(width, width, i % 2 ? 1 : 7, i % 2 ? 7 : 1, kSide);
  net.conv(width, 192, 1, 7, kSide);
  net.conv(768, 192, 1, kSide);
}

void inception_d(Network& net) {
  net.conv(768, 192, 1, 17);
  net.conv(192, 320, 3, 8);
  net.conv(768, 192, 1, 17);
  net.conv(192, 192, 1, 7, 17);
  net.conv(192, 192, 7, 1, 17);
  net.conv(192, 192, 3, 8);
}

void inception_e(Network& net, int in) {
  constexpr int kSide = 8;
  net.conv(in, 320, 1, kSide);
  net.conv(in, 384, 1, kSide);
  net.conv(384, 384, 1, 3, kSide);
  net.conv(384, 384, 3, 1, kSide);
  net.conv(in, 448, 1, kSide);
  net.conv(448, 384, 3, kSide);
  net.conv(384, 384, 1, 3, kSide);
  net.conv(384, 384, 3, 1, kSide);
  net.conv(in, 192, 1, kSide);
}

Network inception3() {
  Network net;
  net.conv(3, 32, 3, 149);
  net.conv(32, 32, 3, 147);
  net.conv(32, 64, 3, 147);
  net.conv(64, 80, 1, 73);
  net.conv(80, 192, 3, 71);
  inception_a(net, 192, 32);
  inception_a(net, 256, 64);
  inception_a(net, 288, 64);
  inception_b(net);
  for (const int width : {128, 160, 160, 192}) inception_c(net, width);
  inception_d(net);
  inception_e(net, 1280);
  inception_e(net, 2048);
  net.dense(2048, 1000);
  return net;
}

Network hepcnn() {
  Network net;
  int in = 3;
  for (const int side : {224, 112, 56, 28, 14}) {
    net.conv(in, 128, 3, 3, side, 1);
    in = 128;
  }
  net.dense(128, 2);
  return net;
}

struct Model {
  const char* name;
  Network (*network)();
  double batch, images_per_second;
};

constexpr double kResNet101 = 1 / (1 / 219.0 + (1 / 91.8 - 1 / 219.0) * (7.8 - 4.1) / (11.5 - 4.1));
constexpr double kHepCnn = 2e12 / (3 * 5.3e9);
const Model kModels[] = {{"hepcnn", hepcnn, 8, kHepCnn},
                         {"inception3", inception3, 64, 142},
                         {"resnet101", resnet101, 64, kResNet101},
                         {"vgg16", vgg16, 64, 154}};

}  // namespace

Step step_of_model(const std::string& name, double images_per_second) {
  const auto* model = std::find_if(std::begin(kModels), std::end(kModels),
                                   [&](const Model& one) { return one.name == name; });
  if (model == std::end(kModels)) {
    throw std::runtime_error("there is no model '" + name +
                             "'; there is hepcnn, inception3, resnet101, vgg16");
  }
  std::vector<Layer> layers = model->network().layers;
  std::reverse(layers.begin(), layers.end());
  double all = 0, done = 0;
  for (const Layer& layer : layers) all += layer.operations;
  const double speed = images_per_second > 0 ? images_per_second : model->images_per_second;
  Step step{name, model->batch / speed, 0, model->batch, {}};
  for (const Layer& layer : layers) {
    done += layer.operations;
    const double ready = step.compute * (kForward + (1 - kForward) * done / all);
    step.gradients.push_back({ready, layer.parameters * kFloat});
  }
  return step;
}

}  // namespace heddle::tool
