// Finds collisions with a heavy particle in images of a detector: HEP-CNN (Kurth et al., SC'17). The program makes its data itself, see
// collisions.h. Alone, or on several ranks that learn from a share each:  heddle launch -n 2 -- hep_cnn
#include <cstdio>

#include "collisions.h"
#include "support.h"

using namespace heddle;

namespace {

// Images (batch, 3, size, size) -> logits (batch, 2). The authors' size is 224, their width 128 and their dropout 0.5.
Sequential hep_cnn(std::int64_t width, double dropout, Generator& initial, Generator& noise) {
  Sequential net;
  for (int block = 0; block < 4; ++block) {
    net.add(Conv2d(block == 0 ? 3 : width, width, 3, {.padding = 1, .relu = true}, initial));
    net.add(MaxPool2d(2));
    net.add(Dropout(dropout, noise));
  }
  net.add(Conv2d(width, width, 3, {.padding = 1, .relu = true}, initial));
  net.add(GlobalAvgPool());
  net.add(Dense(width, 2, {.init = Init::xavier}, initial));
  return net;
}

// The area under the curve of signals found against false alarms.
double area(Module& net, const Collisions& collisions) {
  Loader all(collisions, {.batch = 100});
  const NDArray logits = predict(net, all, {.inputs = 1})[0];
  Auc auc;
  auc.update(logits(kAll, 1) - logits(kAll, 0), collisions.labels());
  return auc.result().item<double>();
}

// A row of the background, and one of signals.
void draw(const std::string& path, const Collisions& collisions, const std::vector<std::string>& notes) {
  std::vector<NDArray> images;
  for (std::int64_t kind = 0; kind < 2; ++kind) {
    for (std::int64_t i = 0; i < 6; ++i) images.push_back(collisions.read(2 * i + kind)[0](1) / 3);
  }
  draw_pictures(path, stack(images), 6, notes);
}

bool run(const Options& options) {
  const std::shared_ptr<Communicator> ranks = Communicator::create();
  const std::int64_t size = options.quick ? 32 : 64, batch = options.quick ? 20 : 64;  // of all ranks
  const Collisions known(options.quick ? 3'000 : 10'000, size, 2 * options.seed);
  const Collisions held_out(options.quick ? 500 : 2'000, size, 2 * options.seed + 1);
  LoaderOptions share{.batch = batch / ranks->size(), .rank = ranks->rank(), .ranks = ranks->size()};
  Loader test(held_out, share);
  share.shuffle = true, share.seed = options.seed;
  Loader train(known, share);

  Generator initial(options.seed), noise = Generator(options.seed + 1).jumped(ranks->rank());
  Sequential net = hep_cnn(options.quick ? 12 : 16, options.quick ? 0 : 0.1, initial, noise);
  const int epochs = options.epochs_or(8, 4);
  Trainer trainer(net.parameters(),
                  {.optimizer = "adam",
                   .schedule = cosine_schedule(options.quick ? 5e-3 : 2e-3, epochs * train.size(), 1e-5),
                   .store = KVStore::create("allreduce", ranks)});
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = "cross_entropy";
  fitting.metrics = {"Accuracy"};
  fitting.validation = test;
  fitting.generators = {{"noise", &noise}};
  const History history = fit(net, trainer, train, fitting);
  if (history.interrupted) return false;

  const double found = area(net, held_out), wanted = options.wanted_or(0.9, 0.8);
  if (ranks->rank() == 0) {
    char result[200];
    std::snprintf(result, sizeof result, "held out: accuracy %.3f, area under the curve (AUC) %.4f",
                  history["val_accuracy"].back(), found);
    std::printf("%s; wanted: at least %.3f\n", result, wanted);
    draw(options.picture, held_out,
         {"Hadronic energy; above: background, below: signals, with a jet of two or three cores.", result});
  }
  return found >= wanted;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(
      argc, argv,
      {.name = "hep_cnn", .text = "Finds collisions with a heavy particle in images of a detector."}, run);
}
