// Routes tickets: from the title, the text and the tags of each, a network with two outputs says which department it belongs to, and how
// urgent it is. It is the example of Keras's guide to the functional API. The tickets are Debian's packages, the departments their
// sections. The urgency is their priority, which is "optional" for nearly all: the loss weighs classes by how rare they are, and
// the result is the balanced accuracy, the mean over the classes of the share that was found.
#include <cstdio>

#include <heddle/heddle.h>

#include "support.h"
#include "table.h"

using namespace heddle;

namespace {

const Column kTitle{.index = 1, .length = 12}, kBody{.index = 2, .length = 40};
const Column kTags{.index = 3, .length = 12, .at_spaces = true};

struct Sizes {
  std::int64_t words, tags, sections, priorities, features;
};

// Numbers of words: title (batch, 12), body (batch, 40), tags (batch, 12) -> logits of sections and of priorities
Model make_router(const Sizes& sizes, Generator& generator) {
  const auto words_of = [](const char* name, const Column& column) {
    return input(name, {kInferred, column.length}, DType::i64);
  };
  const Symbol title = words_of("title", kTitle), body = words_of("body", kBody),
               tags = words_of("tags", kTags);
  const std::int64_t features = sizes.features;

  const Embedding words(sizes.words, features, {.stddev = 0.3, .padding_index = 0}, generator);  // used twice
  const Lstm read(features, features, {.bidirectional = true}, generator);
  const EmbeddingBag bag(sizes.tags, features, {.stddev = 0.3, .padding_index = 0}, generator);
  const Symbol of_title = connect("max", {connect(read, connect(words, title)), 1});
  const Symbol of_body = connect("mean", {connect(words, body), 1});
  const Symbol all = connect("concat", {{of_title, of_body, connect(bag, tags)}, 1});

  const Symbol hidden =
      connect(Dense(kInferred, 4 * features, {.relu = true}, generator), connect(Dropout(0.3), all));
  const Dense section(kInferred, sizes.sections, {.init = Init::xavier}, generator);
  const Dense priority(kInferred, sizes.priorities, {.init = Init::xavier}, generator);
  return Model({title, body, tags}, {connect(section, hidden), connect(priority, hidden)});
}

// (classes): the rarer, the heavier, so that all classes together weigh the same
NDArray class_weights(const std::vector<double>& counts) {
  std::vector<float> weights;
  double rows = 0;
  for (double count : counts) rows += count;
  for (double count : counts) {
    weights.push_back(static_cast<float>(rows / static_cast<double>(counts.size()) / (count + 1)));
  }
  return array(weights, {static_cast<std::int64_t>(weights.size())});
}

// The packages, with three priorities: those that a base system has are one, for each alone has too few.
Table read_tickets(const std::string& path) {
  Table rows = read_table(path, 6);
  for (auto& row : rows) {
    if (row[5] != "optional" && row[5] != "extra") row[5] = "base";
  }
  return rows;
}

bool run(const Options& options) {
  Table learn, test;
  const Table rows = read_tickets(options.data);
  for (std::size_t i = 0; i < rows.size(); ++i) (i % 5 == 0 ? test : learn).push_back(rows[i]);
  const Vocabulary words(learn, {kTitle, kBody}, 20'000), tags(learn, {kTags}, 2'000);
  const Classes sections(rows, 4), priorities(rows, 5);
  std::printf("%zu tickets, %zu more are held out; %lld words, %lld tags; %lld sections, %lld priorities\n",
              learn.size(), test.size(), static_cast<long long>(words.size()),
              static_cast<long long>(tags.size()), static_cast<long long>(sections.size()),
              static_cast<long long>(priorities.size()));
  const auto arrays = [&](const Table& of) {
    return std::vector<NDArray>{words.numbers(of, kTitle), words.numbers(of, kBody), tags.numbers(of, kTags),
                                sections.labels(of), priorities.labels(of)};
  };
  const std::vector<NDArray> examples = arrays(learn), held_out = arrays(test);

  manual_seed(options.seed);  // of dropout
  Generator initial(options.seed);
  Model router = make_router(
      {words.size(), tags.size(), sections.size(), priorities.size(), options.quick ? 32 : 64}, initial);
  const int epochs = options.epochs_or(3, 8);
  const std::int64_t batch = options.quick ? 16 : 64, steps = epochs * (examples[0].size(0) / batch + 1);
  Trainer trainer(
      router.parameters(),
      {.optimizer = "adam", .schedule = cosine_schedule(options.quick ? 5e-3 : 2e-3, steps, 1e-5)});

  const NDArray weights = class_weights(priorities.counts(learn));
  const auto weighted = [weights](const NDArray& logits, const NDArray& labels) {
    return cross_entropy_with(logits, labels, {.weight = weights});
  };
  FitOptions fitting = fit_options(options, epochs);
  fitting.outputs = {"section", "priority"};
  fitting.loss = {LossTerm("cross_entropy"), LossTerm(weighted, 0.5)};
  fitting.metrics = {{"Accuracy", 0}, {std::make_shared<Recall>(), 1, "priority_balanced_accuracy"}};
  fitting.validation = held_out;
  fitting.batch = batch;
  fitting.capture = FitCapture::always;
  fit(router, trainer, examples, fitting);

  const std::vector<NDArray> found = predict(router, {held_out[0], held_out[1], held_out[2]});
  ConfusionMatrix confusion;
  confusion.update(found[0], held_out[3]);
  const std::vector<std::int64_t> section = argmax(found[0], 1).to_vector<std::int64_t>();
  const std::vector<std::int64_t> priority = argmax(found[1], 1).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < test.size(); i += test.size() / 8) {
    std::printf("  %-60.60s -> %s, %s (is %s, %s)\n", test[i][1].c_str(),
                sections.names.at(section[i]).c_str(), priorities.names.at(priority[i]).c_str(),
                test[i][4].c_str(), test[i][5].c_str());
  }
  draw_confusion(options.picture, confusion.result(), sections.names);

  const FitValues result = evaluate(
      router, held_out, {.loss = fitting.loss, .metrics = fitting.metrics, .outputs = fitting.outputs});
  const double accuracy = result.at("section_accuracy"), balanced = result.at("priority_balanced_accuracy");
  const double guess = sections.counts(test)[0] / static_cast<double>(test.size());
  std::printf("held out: accuracy of the section %.3f, balanced accuracy of the priority %.3f\n", accuracy,
              balanced);
  std::printf("the most frequent class: %.3f and %.3f\n", guess,
              1.0 / static_cast<double>(priorities.size()));
  const double wanted = options.wanted_or(0.8, 0.35), wanted_balanced = options.quick ? 0.4 : 0.55;
  std::printf("wanted: at least %.3f and %.3f\n", wanted, wanted_balanced);
  return accuracy >= wanted && balanced >= wanted_balanced;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv,
                     {.name = "tickets",
                      .text = "Routes tickets, Debian's packages, to their section and priority.",
                      .quick_data = EXAMPLE_DATA "/packages.tsv",
                      .full_data = "packages.tsv",
                      .how_to_get = "examples/networks/data/collect.py packages packages.tsv"},
                     run);
}
