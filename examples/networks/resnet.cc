// Classifies pictures of clothes (Fashion-MNIST) with ResNet-18 (He et al., CVPR'16), in the form for small pictures: the first
// convolution keeps the size, and there is no pooling before the blocks. It learns from pictures that are moved and mirrored
// at random, and is measured on pictures that it has not seen.
#include <cstdio>

#include "fashion.h"
#include "support.h"

using namespace heddle;

namespace {

Conv2d conv3(std::int64_t in, std::int64_t out, std::int64_t stride, Generator& generator) {
  return Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false}, generator);
}

// Two convolutions, whose result is added to what they were given.
struct Block : Module {
  Conv2d conv1, conv2;
  BatchNorm norm1, norm2;
  std::shared_ptr<Module> shortcut;  // of another size or stride: a convolution of 1 by 1

  Block(std::int64_t in, std::int64_t out, std::int64_t stride, Generator& generator)
      : conv1(child("conv1", conv3(in, out, stride, generator))),
        conv2(child("conv2", conv3(out, out, 1, generator))),
        norm1(child("norm1", BatchNorm(out))),
        norm2(child("norm2", BatchNorm(out))) {
    if (in == out && stride == 1) {
      shortcut = child("shortcut", std::make_shared<Identity>());
    } else {
      shortcut = child("shortcut",
                       std::make_shared<Sequential>(
                           Conv2d(in, out, 1, {.stride = stride, .bias = false}, generator), BatchNorm(out)));
    }
  }
  NDArray forward(const NDArray& x) override {
    const NDArray y = relu(norm1(conv1(x)));
    return relu(norm2(conv2(y)) + (*shortcut)(x));
  }
};

// Pictures (batch, 1, H, W) -> logits (batch, 10). The authors' width is 64.
Sequential resnet18(std::int64_t width, Generator& generator) {
  Sequential net{conv3(1, width, 1, generator), BatchNorm(width), Relu()};
  std::int64_t channels = width;
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const std::int64_t out = width << stage;
    net.add(Block(channels, out, stage == 0 ? 1 : 2, generator));
    net.add(Block(out, out, 1, generator));
    channels = out;
  }
  net.add(GlobalAvgPool());
  net.add(Dense(channels, 10, {.init = Init::xavier}, generator));
  return net;
}

bool run(const Options& options) {
  const Fashion fashion = read_fashion(options.data);
  const Augmentation augmentation{
      .padding = 2, .crop = {28, 28}, .flip = 0.5, .mean = {0.286}, .std = {0.353}};
  const std::int64_t batch = options.quick ? 25 : 128;
  Loader train(ArrayDataset({fashion.train_images, fashion.train_labels}),
               {.batch = batch, .shuffle = true, .seed = options.seed, .augment = augmentation});
  Loader test(ArrayDataset({fashion.test_images, fashion.test_labels}),
              {.batch = batch, .augment = augmentation.evaluation()});

  Generator initial(options.seed);
  Sequential net = resnet18(options.quick ? 4 : 16, initial);
  if (options.precision == "bf16") net.autocast(DType::bf16);
  const int epochs = options.epochs_or(5, 8);
  Trainer trainer(net.parameters(),
                  {.optimizer = "sgd",
                   .params = {{"momentum", 0.9}, {"weight_decay", 5e-4}},
                   .schedule = one_cycle_schedule(options.quick ? 0.05 : 0.2, epochs * train.size()),
                   .groups = {{.max_axes = 1, .weight_decay = 0}}});
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = "cross_entropy";
  fitting.metrics = {"Accuracy"};
  fitting.validation = test;
  fitting.capture = FitCapture::always;
  const History history = fit(net, trainer, train, fitting);
  if (history.interrupted) return false;

  ConfusionMatrix confusion;
  confusion.update(predict(net, test, {.inputs = 1})[0], fashion.test_labels);
  draw_confusion(options.picture, confusion.result(), kFashionNames);
  const double accuracy = history["val_accuracy"].back(), wanted = options.wanted_or(0.92, 0.45);
  std::printf("accuracy of %lld pictures that were held out: %.4f; wanted: at least %.3f\n",
              static_cast<long long>(fashion.test_images.size(0)), accuracy, wanted);
  return accuracy >= wanted;
}

}  // namespace

int main(int argc, char** argv) {
  Description description = describe_fashion("resnet", "Classifies pictures of clothes with ResNet-18.");
  description.precisions = true;
  return run_example(argc, argv, description, run);
}
