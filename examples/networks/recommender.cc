// Recommends: which packages does a package need, given some that it needs? Two tables of vectors, one for each side; the score of a pair is
// the product of its vectors. Training compares each package that is needed with others that are not (Rendle et al., BPR, UAI'09). A step has
// gradients for a few rows of the tables alone, and updates these. Held out: one need of each package that has several.
#include <algorithm>
#include <cstdio>

#include <heddle/heddle.h>

#include "needs.h"
#include "support.h"

using namespace heddle;

namespace {

struct Recommender : Module {
  static constexpr std::int64_t kOthers = 16;  // packages that are not needed, drawn for each pair
  Embedding packages, items, offsets;          // offsets: how often an item is needed in general
  Generator& generator;

  Recommender(std::int64_t package_count, std::int64_t item_count, std::int64_t features, Generator& from)
      : packages(child("packages",
                       Embedding(package_count, features, {.stddev = 0.1, .sparse_grad = true}, from))),
        items(child("items", Embedding(item_count, features, {.stddev = 0.1, .sparse_grad = true}, from))),
        offsets(child("offsets", Embedding(item_count, 1, {.stddev = 0.01, .sparse_grad = true}, from))),
        generator(from) {}

  // package (batch), needed (batch) -> how much larger its score is than those of others: (batch, kOthers)
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
    const std::int64_t batch = inputs[0].size(0), count = items.parameters()[0].value.size(0);
    const NDArray others = generator.integers({batch, kOthers}, 0, count);
    const NDArray all = concat({inputs[1].reshape(batch, 1), others}, 1);  // (batch, 1 + kOthers)
    const NDArray scores =
        matmul(items(all), packages(inputs[0]).unsqueeze(2)).squeeze(2) + offsets(all).squeeze(2);
    return {scores.slice(1, {0, 1}) - scores.slice(1, {1, 1 + kOthers})};
  }

  // (rows) -> scores of all items: (rows, items)
  NDArray scores(const NDArray& package) {
    return matmul(packages(package), items.parameters()[0].value.T()) + offsets.parameters()[0].value.T();
  }
};

struct Quality {
  double hits = 0, auc = 0;  // the share among the best ten; the mean place, 1 the first, 0 the last
};

using Scores = std::function<NDArray(const NDArray& packages)>;

// Ranks the held-out item of each package among all that are not known of it.
Quality measure(const Needs& needs, const Scores& scores_of) {
  const NoGrad no_grad;
  const auto count = static_cast<std::int64_t>(needs.test_packages.size());
  const auto items = static_cast<std::int64_t>(needs.names.size());
  Quality sum;
  for (std::int64_t first = 0; first < count; first += 500) {
    const std::int64_t rows = std::min<std::int64_t>(500, count - first);
    const auto begin = needs.test_packages.begin() + first;
    const std::vector<std::int64_t> packages(begin, begin + rows);
    const std::vector<float> scores = scores_of(array(packages, {rows})).to_vector<float>();
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* of = &scores[row * items];
      const std::set<std::int64_t>& known = needs.known[packages[row]];
      const float own = of[needs.test_needed[first + row]];
      std::int64_t better = -1;  // or as good; without itself
      for (std::int64_t item = 0; item < items; ++item) better += !(of[item] < own) && !known.contains(item);
      sum.hits += better < 10;
      const double others = static_cast<double>(items - 1) - static_cast<double>(known.size());
      sum.auc += 1 - static_cast<double>(better) / others;
    }
  }
  return {sum.hits / static_cast<double>(count), sum.auc / static_cast<double>(count)};
}

struct Measure : Callback {
  Measure(const Needs& of, Scores by) : needs(of), scores(std::move(by)) {}
  const Needs& needs;
  Scores scores;
  std::vector<double> hits{};
  void on_epoch_end(FitRun&, const FitValues&) override {
    const Quality now = measure(needs, scores);
    hits.push_back(now.hits);
    std::printf("held out: hit rate at 10 %.3f, AUC %.3f\n", now.hits, now.auc);
  }
};

// Prints the best items for some packages, without those that are known.
void show(const Needs& needs, Recommender& net) {
  const NoGrad no_grad;
  for (std::size_t at = 0; at < needs.test_packages.size(); at += needs.test_packages.size() / 5) {
    const std::int64_t package = needs.test_packages[at];
    const NDArray order = argsort(-net.scores(array(std::vector{package}, {1})).reshape(-1));
    const std::string &name = needs.package_names[package], &needed = needs.names[needs.test_needed[at]];
    std::printf("%s needs %s; recommended:", name.c_str(), needed.c_str());
    int left = 5;
    for (std::int64_t item : order.to_vector<std::int64_t>()) {
      if (!needs.known[package].contains(item) && left-- > 0) std::printf(" %s", needs.names[item].c_str());
    }
    std::puts("");
  }
}

bool run(const Options& options) {
  const Needs needs = read_needs(options.data);
  const auto items = static_cast<std::int64_t>(needs.names.size());
  const NDArray popularity = index_add(zeros({items}), needs.needed, ones({needs.needed.size()}));
  const Quality popular = measure(needs, [&](const NDArray& packages) {
    return popularity.broadcast_to({packages.size(), items});
  });

  Generator generator(options.seed);
  Recommender net(static_cast<std::int64_t>(needs.known.size()), items, options.quick ? 16 : 32, generator);
  const int epochs = options.epochs_or(24, 20);
  const std::int64_t batch = options.quick ? 64 : 512, steps = epochs * (needs.packages.size() / batch + 1);
  Trainer trainer(net.parameters(), {.optimizer = "adam",
                                     .schedule = cosine_schedule(options.quick ? 2e-2 : 1e-2, steps, 1e-4)});
  const auto scores = [&](const NDArray& packages) { return net.scores(packages); };
  const auto measured = std::make_shared<Measure>(needs, scores);
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = [](const std::vector<NDArray>& better, const std::vector<NDArray>&) {
    return mean(softplus(-better[0]));
  };
  fitting.labels = 0;
  fitting.batch = batch;
  fitting.callbacks.push_back(measured);
  fitting.capture = FitCapture::always;
  fitting.generators = {{"others", &generator}};
  fit(net, trainer, {needs.packages, needs.needed}, fitting);

  show(needs, net);
  draw_curves(options.picture,
              {{"hit rate at 10", measured->hits},
               {"of the most popular", std::vector<double>(measured->hits.size(), popular.hits)}});
  const double hits = measure(needs, scores).hits, wanted = options.wanted_or(0.65, popular.hits + 0.07);
  std::printf("the most popular ones: hit rate at 10 %.3f, AUC %.3f\nwanted: a hit rate of at least %.3f\n",
              popular.hits, popular.auc, wanted);
  return hits >= wanted;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv,
                     {.name = "recommender",
                      .text = "Recommends what a package needs, from what it and others need.",
                      .quick_data = EXAMPLE_DATA "/dependencies.tsv",
                      .full_data = "dependencies.tsv",
                      .how_to_get = "examples/networks/data/collect.py dependencies dependencies.tsv"},
                     run);
}
