// Makes a trained network smaller and faster: a convolutional network with batch norms learns kinds of clothes (Fashion-MNIST). Then its batch norms
// are folded into the convolutions before them, 80 % of its weights become 0 and the rest learn to do without them, and its products become those
// of 8-bit integers. A table shows what each costs and saves.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "fashion.h"
#include "support.h"

using namespace heddle;

namespace {

// Pictures (batch, 1, 28, 28) -> logits (batch, 10)
Sequential make_net(std::int64_t width, Generator& generator) {
  const Conv2dLayerOptions same{.padding = 1, .bias = false};
  return Sequential{Conv2d(1, width, 3, same, generator),
                    BatchNorm(width),
                    Relu(),
                    Conv2d(width, width, 3, same, generator),
                    BatchNorm(width),
                    Relu(),
                    MaxPool2d(2),
                    Conv2d(width, 2 * width, 3, same, generator),
                    BatchNorm(2 * width),
                    Relu(),
                    Conv2d(2 * width, 2 * width, 3, same, generator),
                    BatchNorm(2 * width),
                    Relu(),
                    MaxPool2d(2),
                    Flatten(),
                    Dense(2 * width * 49, 128, {.bias = false}, generator),
                    BatchNorm(128),
                    Relu(),
                    Dense(128, 10, {.init = Init::xavier}, generator)};
}

Sequential copy_of(const Sequential& net, std::int64_t width) {
  Generator generator(0);
  Sequential copy = make_net(width, generator);
  const std::vector<Parameter> from = net.state(), to = copy.state();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].value.detach().assign(from[i].value.detach());
  copy.train(false);
  return copy;
}

// u8 pictures as numbers around 0.
NDArray pixels(const NDArray& images) { return (images.astype(DType::f32) / 255.0 - 0.286) / 0.353; }

struct Costs {
  double accuracy = 0, milliseconds = 0;
  std::int64_t bytes = 0;
};

// The least of several times for 100 pictures. `zeros`: weights that a file would hold as a bit each.
Costs measure(Sequential& net, const NDArray& images, const NDArray& labels, std::int64_t zeros = 0) {
  Costs costs{.accuracy = evaluate(net, {images, labels}, {.metrics = {"Accuracy"}}).at("accuracy")};
  for (const Parameter& one : net.state())
    costs.bytes += one.value.size() * static_cast<std::int64_t>(size_of(one.value.dtype()));
  costs.bytes -= zeros * 31 / 8;
  const NoGrad no_grad;
  const NDArray batch = images.slice(0, {0, std::min<std::int64_t>(100, images.size(0))});
  costs.milliseconds = 1e9;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    net(batch).wait();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    costs.milliseconds = std::min(costs.milliseconds, took.count());
  }
  return costs;
}

void print_row(const char* name, const Costs& costs) {
  std::printf("%-24s %8.4f %12.2f %12lld\n", name, costs.accuracy, costs.milliseconds,
              static_cast<long long>(costs.bytes));
}

bool run(const Options& options) {
  const Fashion fashion = read_fashion(options.data);
  const NDArray images = pixels(fashion.train_images), test = pixels(fashion.test_images);
  const std::int64_t width = options.quick ? 8 : 32, batch = options.quick ? 25 : 128;
  const int epochs = options.epochs_or(6, 6), more = std::max(1, epochs / 2);
  Generator initial(options.seed);
  Sequential net = make_net(width, initial);
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = "cross_entropy";
  fitting.metrics = {"Accuracy"};
  fitting.validation = {test, fashion.test_labels};
  fitting.batch = batch;
  const std::int64_t steps = (images.size(0) + batch - 1) / batch;
  Trainer trainer(net.parameters(),
                  {.optimizer = "adam", .schedule = cosine_schedule(2e-3, epochs * steps, 1e-5)});
  if (fit(net, trainer, {images, fashion.train_labels}, fitting).interrupted) return false;

  // the pruned network goes on learning: more weights become 0 in the first half of its steps
  Sequential pruned = copy_of(net, width);
  Pruning pruning(pruned, {.sparsity = 0});
  FitOptions again = fitting;
  again.epochs = more;
  again.callbacks = {GradualPruning(pruning, {.final_sparsity = 0.8,
                                              .initial_sparsity = 0.4,
                                              .end = std::max<std::int64_t>(1, more * steps / 2),
                                              .every = 10})};
  again.resume.clear();
  Trainer finer(pruned.parameters(),
                {.optimizer = "adam", .schedule = cosine_schedule(1e-3, more * steps, 1e-5)});
  if (fit(pruned, finer, {images, fashion.train_labels}, again).interrupted) return false;
  const PruningReport zeros = pruning.report();

  net.train(false);
  pruned.train(false);
  Sequential folded = copy_of(net, width);
  fold_batch_norms(folded);
  Sequential bytes = copy_of(net, width);
  fold_batch_norms(bytes);
  const std::vector<NDArray> calibration{images.slice(0, {0, 200})};
  std::printf("%s%s", zeros.to_string().c_str(), quantize(bytes, calibration).to_string().c_str());
  Sequential both = copy_of(pruned, width);
  fold_batch_norms(both);
  quantize(both, calibration);

  std::printf("%-24s %8s %12s %12s\n", "", "accuracy", "ms a batch", "bytes");
  const Costs whole = measure(net, test, fashion.test_labels);
  print_row("f32", whole);
  print_row("batch norms folded", measure(folded, test, fashion.test_labels));
  const Costs sparse = measure(pruned, test, fashion.test_labels, zeros.zeros());
  print_row("80 % of weights pruned", sparse);
  const Costs small = measure(bytes, test, fashion.test_labels);
  print_row("folded, 8 bits", small);
  print_row("pruned, folded, 8 bits", measure(both, test, fashion.test_labels));
  const double lost = whole.accuracy - std::min(sparse.accuracy, small.accuracy),
               most = options.wanted_or(0.01, 0.06);
  std::printf("accuracy lost at most: %.4f; wanted: at most %.4f\n", lost, most);
  return lost <= most;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(
      argc, argv,
      describe_fashion("compress", "Folds, prunes and quantizes a network that classifies clothes."), run);
}
