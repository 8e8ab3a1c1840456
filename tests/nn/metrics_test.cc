// Metrics against serial computations over all batches at once.
#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <message_of.h>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/default_engine.h>
#include <heddle/metrics.h>
#include <heddle/ops.h>
#include <heddle/random.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

using Doubles = std::vector<double>;
using Labels = std::vector<std::int64_t>;

// Three batches of scores and labels, one of which is ignored here and there.
struct ClassData {
  std::vector<NDArray> scores, labels;
  std::vector<Doubles> rows;  // of all batches
  Labels wanted;
};

ClassData class_data(std::int64_t classes, std::uint64_t seed, bool ignored = true) {
  ClassData data;
  std::mt19937_64 random(seed);
  for (const std::int64_t n : {7, 1, 12}) {
    const NDArray scores =
        round(Generator(seed + static_cast<std::uint64_t>(n)).normal({n, classes}) * 2);  // with ties
    Labels labels;
    for (std::int64_t i = 0; i < n; ++i)
      labels.push_back(ignored && random() % 5 == 0
                           ? -1
                           : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(classes - 1)));
    const Doubles values = scores.astype(DType::f64).to_vector<double>();
    for (std::int64_t i = 0; i < n; ++i)
      data.rows.emplace_back(values.begin() + i * classes, values.begin() + (i + 1) * classes);
    data.wanted.insert(data.wanted.end(), labels.begin(), labels.end());
    data.scores.push_back(scores);
    data.labels.push_back(array<std::int64_t>(labels, {n}));
  }
  return data;
}

std::int64_t best_of(const Doubles& row) { return std::max_element(row.begin(), row.end()) - row.begin(); }

// The metric of all batches in turn; the same of two metrics that are merged, and again after reset().
NDArray result_of(Metric& metric, const std::vector<NDArray>& a, const std::vector<NDArray>& b,
                  Metric& part) {
  for (std::size_t i = 0; i < a.size(); ++i) metric.update(a[i], b[i]);
  const NDArray all = metric.result();
  const Doubles whole = all.to_vector<double>();
  metric.reset();
  metric.update(a[0], b[0]);
  for (std::size_t i = 1; i < a.size(); ++i) part.update(a[i], b[i]);
  metric.merge(part.state());
  const Doubles merged = metric.result().to_vector<double>();
  REQUIRE(merged.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK((merged[i] == doctest::Approx(whole[i]).epsilon(1e-12) ||
           (std::isnan(merged[i]) && std::isnan(whole[i]))));
  return all;
}

template <class Make> NDArray result_of(const ClassData& data, Make make) {
  const auto metric = make(), part = make();
  return result_of(*metric, data.scores, data.labels, *part);
}

double area_by_pairs(const Doubles& scores, const Doubles& labels) {
  double better = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = 0; j < scores.size(); ++j)
      if (labels[i] == 1 && labels[j] == 0) {
        better += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
        pairs += 1;
      }
  return better / pairs;
}

std::int64_t distance_by_recursion(const Labels& a, const Labels& b, std::size_t i, std::size_t j) {
  if (i == a.size() || j == b.size()) return static_cast<std::int64_t>(a.size() - i + b.size() - j);
  if (a[i] == b[j]) return distance_by_recursion(a, b, i + 1, j + 1);
  return 1 + std::min({distance_by_recursion(a, b, i + 1, j), distance_by_recursion(a, b, i, j + 1),
                       distance_by_recursion(a, b, i + 1, j + 1)});
}

}  // namespace

TEST_CASE("accuracy and top-k accuracy count right labels") {
  const ClassData data = class_data(6, 1);
  double right = 0, among = 0, count = 0;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    if (data.wanted[i] == -1) continue;
    const Doubles& row = data.rows[i];
    const auto label = static_cast<std::size_t>(data.wanted[i]);
    right += best_of(row) == data.wanted[i];
    std::size_t before = 0;
    for (std::size_t c = 0; c < row.size(); ++c)
      before += row[c] > row[label] || (row[c] == row[label] && c < label);
    among += before < 3;
    count += 1;
  }
  CHECK(result_of(data, [] { return std::make_unique<Accuracy>(); }).item<double>() ==
        doctest::Approx(right / count));
  CHECK(result_of(data, [] { return std::make_unique<TopKAccuracy>(3); }).item<double>() ==
        doctest::Approx(among / count));
  Accuracy of_classes;
  for (std::size_t i = 0; i < 3; ++i)
    of_classes.update(argmax(data.scores[i], 1), data.labels[i].astype(DType::i32));
  CHECK(of_classes.value() == doctest::Approx(right / count));
  CHECK(std::isnan(Accuracy().value()));
  Accuracy none;
  none.update(zeros({0, 3}), zeros({0}, DType::i64));
  none.update(zeros({2, 3}), array<std::int64_t>({-1, -1}));
  CHECK(std::isnan(none.value()));
}

TEST_CASE("accuracy of binary and multi-label predictions, in several dtypes") {
  const NDArray scores = array<double>({0.2, 0.7, 0.5, 0.9, 0.6, 0.1}, {2, 3}),
                labels = array<std::int64_t>({0, 1, 1, 1, 0, -1}, {2, 3});
  Accuracy accuracy, of_bools, of_logits({.threshold = 0});
  accuracy.update(scores, labels);
  CHECK(accuracy.value() == doctest::Approx(0.6));
  accuracy.update(scores.astype(DType::f16), labels.astype(DType::i8));
  CHECK(accuracy.value() == doctest::Approx(0.6));
  of_bools.update(scores > 0.5, labels > 0);
  CHECK(of_bools.value() == doctest::Approx(4.0 / 6));
  of_logits.update(scores - 0.5, (labels > 0).astype(DType::f32));
  CHECK(of_logits.value() == doctest::Approx(4.0 / 6));
  CHECK(of_logits.to_string().starts_with("Accuracy: 0.66666"));
}

TEST_CASE("confusion matrix, precision, recall and F1 by class, macro and micro") {
  const std::int64_t classes = 5;
  const ClassData data = class_data(classes, 4);  // no label is the last class
  Doubles matrix(25, 0);
  for (std::size_t i = 0; i < data.rows.size(); ++i)
    if (data.wanted[i] != -1)
      matrix[static_cast<std::size_t>(data.wanted[i] * classes + best_of(data.rows[i]))] += 1;
  CHECK(result_of(data, [] { return std::make_unique<ConfusionMatrix>(); }).to_vector<double>() == matrix);
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return matrix[static_cast<std::size_t>(i * classes + j)];
  };
  Doubles precision, recall, f1;
  double right = 0, all = 0, occurring = 0, macro = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    double found = 0, wanted = 0;
    for (std::int64_t k = 0; k < classes; ++k) found += at(k, c), wanted += at(c, k);
    const auto part = [&](double a, double b) {
      return b > 0 ? a / b : found + wanted > 0 ? 0 : std::nan("");
    };
    precision.push_back(part(at(c, c), found));
    recall.push_back(part(at(c, c), wanted));
    f1.push_back(part(2 * at(c, c), found + wanted));
    right += at(c, c);
    all += wanted;
    occurring += found + wanted > 0;
    macro += found + wanted > 0 ? f1.back() : 0;
  }
  const auto check = [&](const NDArray& result, const Doubles& expected) {
    const Doubles values = result.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(
          (values[i] == doctest::Approx(expected[i]) || (std::isnan(values[i]) && std::isnan(expected[i]))));
  };
  check(result_of(data, [] { return std::make_unique<Precision>(Average::none); }), precision);
  check(result_of(data, [] { return std::make_unique<Recall>(Average::none); }), recall);
  check(result_of(data, [] { return std::make_unique<F1>(Average::none); }), f1);
  check(result_of(data, [] { return std::make_unique<F1>(); }), {macro / occurring});
  check(result_of(data, [] { return std::make_unique<F1>(Average::micro); }), {right / all});
  check(result_of(data, [] { return std::make_unique<Precision>(Average::micro); }), {right / all});
  check(sum(result_of(data,
                      [] {
                        return std::make_unique<ConfusionMatrix>(MetricOptions{},
                                                                 ConfusionMatrix::Normalize::labels);
                      }),
            {1}),
        {1, 1, 1, 1, 0});
  check(sum(result_of(data,
                      [] {
                        return std::make_unique<ConfusionMatrix>(MetricOptions{},
                                                                 ConfusionMatrix::Normalize::all);
                      })),
        {1});
  F1 of_classes(Average::none, {.classes = 7});
  of_classes.update(array<std::int64_t>({0, 1, 1, 6}), array<std::int64_t>({0, 1, 2, 5}));
  check(of_classes.result(), {1, 2.0 / 3, 0, std::nan(""), std::nan(""), 0, 0});
  CHECK(std::isnan(F1(Average::macro, {.classes = 3}).value()));
  CHECK(std::isnan(F1(Average::micro, {.classes = 3}).value()));
}

TEST_CASE("precision and recall of one binary label, and of columns of labels") {
  const NDArray scores = array({0.9, 0.8, 0.3, 0.6, 0.1}), labels = array<std::int64_t>({1, 0, 1, 1, 0});
  Precision precision;
  Recall recall;
  F1 f1;
  for (Metric* metric : std::vector<Metric*>{&precision, &recall, &f1}) metric->update(scores, labels);
  CHECK(precision.value() == doctest::Approx(2.0 / 3));
  CHECK(recall.value() == doctest::Approx(2.0 / 3));
  CHECK(f1.value() == doctest::Approx(2.0 / 3));
  Recall columns(Average::none);
  columns.update(stack({scores, 1 - scores}, 1), stack({labels, labels}, 1));
  CHECK(columns.result().to_vector<double>()[1] == doctest::Approx(1.0 / 3));
  ConfusionMatrix matrix;
  matrix.update(scores, labels);
  CHECK(matrix.result().to_vector<double>() == Doubles{1, 1, 1, 2});
}

TEST_CASE("area under the curve: ties, one label alone, nothing, bins") {
  std::vector<NDArray> scores, labels;
  Doubles all_scores, all_labels;
  for (const std::int64_t n : {40, 1, 90}) {
    const auto seed = static_cast<std::uint64_t>(n);
    const NDArray y = (Generator(seed).uniform({n}) > 0.6).astype(DType::i64);
    const NDArray s = round((Generator(seed + 7).uniform({n}) + y * 0.4) / 1.4 * 20) / 20;
    for (const double one : s.astype(DType::f64).to_vector<double>()) all_scores.push_back(one);
    for (const double one : y.astype(DType::f64).to_vector<double>()) all_labels.push_back(one);
    scores.push_back(s);
    labels.push_back(y);
  }
  const double expected = area_by_pairs(all_scores, all_labels);
  CHECK(expected > 0.6);
  Auc exact, part, binned(400), other_binned(400);
  CHECK(result_of(exact, scores, labels, part).item<double>() == doctest::Approx(expected).epsilon(1e-12));
  CHECK(result_of(binned, scores, labels, other_binned).item<double>() ==
        doctest::Approx(expected).epsilon(1e-12));
  for (const std::int64_t bins : {0, 4}) {
    Auc empty(bins), alone(bins);
    CHECK(std::isnan(empty.value()));
    alone.update(array({0.5, 0.2}), array<std::int64_t>({1, 1}));
    CHECK(std::isnan(alone.value()));
    alone.update(array({0.5}), array<std::int64_t>({0}).astype(DType::boolean));
    CHECK(alone.value() == 0.25);
    alone.reset();
    CHECK(std::isnan(alone.value()));
  }
  Auc with_nan;
  with_nan.update(array({0.5, std::nan(""), 0.1}), array<std::int64_t>({1, 1, 0}));
  CHECK(std::isnan(with_nan.value()));
}

TEST_CASE("means, squared errors and R2") {
  const NDArray y = Generator(1).normal({9, 2}), target = Generator(2).normal({9, 2});
  const Doubles a = y.astype(DType::f64).to_vector<double>(),
                b = target.astype(DType::f64).to_vector<double>();
  double squares = 0, sum_y = 0, r2 = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]), sum_y += a[i];
  for (std::size_t c = 0; c < 2; ++c) {
    double mean = 0, error = 0, spread = 0;
    for (std::size_t i = c; i < a.size(); i += 2) mean += b[i] / 9;
    for (std::size_t i = c; i < a.size(); i += 2)
      error += (a[i] - b[i]) * (a[i] - b[i]), spread += (b[i] - mean) * (b[i] - mean);
    r2 += (1 - error / spread) / 2;
  }
  const std::vector<NDArray> ys{y.slice(0, {0, 4}), y.slice(0, {4, 9})},
      targets{target.slice(0, {0, 4}), target.slice(0, {4, 9})};
  MeanSquaredError mse, other, root(true), root_other(true);
  CHECK(result_of(mse, ys, targets, other).item<double>() == doctest::Approx(squares / 18));
  CHECK(result_of(root, ys, targets, root_other).item<double>() == doctest::Approx(std::sqrt(squares / 18)));
  R2 fit, fit_other;
  CHECK(result_of(fit, ys, targets, fit_other).item<double>() == doctest::Approx(r2));
  R2 constant;
  constant.update(ones({1}), ones({1}));
  CHECK(std::isnan(constant.value()));
  constant.update(ones({2}), ones({2}));
  CHECK(constant.value() == 1);
  constant.update(zeros({1}), ones({1}));
  CHECK(constant.value() == 0);
  MeanMetric mean;
  CHECK(std::isnan(mean.value()));
  mean.update(y);
  CHECK(mean.value() == doctest::Approx(sum_y / 18));
  mean.reset();
  mean.update(array(3.0), array<std::int64_t>(2));
  mean.update(array({1.0, 2.0}), array({1.0, 3.0}));
  CHECK(mean.value() == doctest::Approx((6 + 1 + 6) / 6.0));
}

TEST_CASE("perplexity of labels, and of means with numbers of labels") {
  const ClassData data = class_data(6, 3);
  double total = 0, count = 0;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    if (data.wanted[i] == -1) continue;
    double sum = 0;
    for (const double one : data.rows[i]) sum += std::exp(one);
    total += std::log(sum) - data.rows[i][static_cast<std::size_t>(data.wanted[i])];
    count += 1;
  }
  CHECK(result_of(data, [] { return std::make_unique<Perplexity>(); }).item<double>() ==
        doctest::Approx(std::exp(total / count)));
  Perplexity of_means, of_sequences;
  for (std::size_t i = 0; i < 3; ++i)
    of_means.update(cross_entropy_with(data.scores[i], data.labels[i]),
                    sum((data.labels[i] != -1).astype(DType::i64)));
  CHECK(of_means.value() == doctest::Approx(std::exp(total / count)));
  of_sequences.update(data.scores[2].view_as({3, 4, 6}), data.labels[2].view_as({3, 4}));
  Perplexity flat;
  flat.update(data.scores[2], data.labels[2]);
  CHECK(of_sequences.value() == flat.value());
}

TEST_CASE("edit distance agrees with its definition") {
  std::mt19937_64 random(5);
  std::vector<NDArray> found, wanted;
  double edits = 0, length = 0;
  for (const std::int64_t n : {4, 1, 20}) {
    Labels a, b;
    for (std::int64_t i = 0; i < n; ++i) {
      Labels x(random() % 6), y(random() % 8);
      for (std::int64_t& one : x) one = static_cast<std::int64_t>(random() % 3);
      for (std::int64_t& one : y) one = static_cast<std::int64_t>(random() % 3);
      edits += static_cast<double>(distance_by_recursion(x, y, 0, 0));
      length += static_cast<double>(y.size());
      x.resize(6, -1);
      y.resize(8, -1);
      a.insert(a.end(), x.begin(), x.end());
      b.insert(b.end(), y.begin(), y.end());
    }
    found.push_back(array<std::int64_t>(a, {n, 6}));
    wanted.push_back(array<std::int64_t>(b, {n, 8}));
  }
  EditDistance rate, other, mean(false), other_mean(false);
  CHECK(result_of(rate, found, wanted, other).item<double>() == doctest::Approx(edits / length));
  CHECK(result_of(mean, found, wanted, other_mean).item<double>() == doctest::Approx(edits / 25));
  EditDistance with_lengths;
  const NDArray x = array<std::int64_t>({1, 2, 9, 3}, {2, 2}),
                y = array<std::int32_t>({1, 2, 3, 3, 9, 9}, {2, 3});
  with_lengths.update(x, y, array<std::int64_t>({2, 1}),
                      array<std::int64_t>({3, 0}));  // "1 2" and "1 2 3", "9" and nothing
  CHECK(with_lengths.value() == doctest::Approx(2.0 / 3));
  EditDistance words;
  words.update(array<std::int64_t>({7, 8, 9}), array<std::int64_t>({7, 9}));
  CHECK(words.value() == 0.5);
  const auto [labels, numbers] = ctc_greedy_decode(log_softmax(Generator(1).normal({12, 20, 4})));
  EditDistance of_decoder;
  of_decoder.update(labels, wanted[2], numbers);
  EditDistance by_padding;
  by_padding.update(labels, wanted[2]);
  CHECK(of_decoder.value() == by_padding.value());
}

TEST_CASE("metrics by name have the values of their classes") {
  const ClassData data = class_data(4, 2);
  CHECK(metrics().size() == 12);
  const auto f1 = make_metric("F1", {std::string("micro")});
  F1 expected(Average::micro);
  f1->update(data.scores[2], data.labels[2]);
  expected.update(data.scores[2], data.labels[2]);
  CHECK(f1->value() == expected.value());
  CHECK(f1->info().signature() == "F1(average='macro', threshold=0.5, ignore=-1, classes=None)");
  for (const MetricInfo& info : metrics()) CHECK(make_metric(info, {})->info().name == info.name);
  CHECK(make_metric("ConfusionMatrix", {}, {{"classes", 3}})->result().shape() == Shape{3, 3});
  CHECK(message_of<InvalidArgument>([] { make_metric("F2"); }) ==
        "make_metric: there is no metric 'F2'; metrics() lists them");
  CHECK(message_of<InvalidArgument>([] { make_metric("TopKAccuracy", {0}); }).starts_with("TopKAccuracy: "));
}

TEST_CASE("metrics refuse what does not fit; an op's error stays until reset") {
  const NDArray scores = zeros({2, 3}), labels = array<std::int64_t>({0, 1});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  Accuracy accuracy;
  CHECK(why([&] { accuracy.update(scores); }) == "Accuracy: array 2 is missing; want predictions, labels");
  CHECK(why([&] { accuracy.update(scores, labels, labels); }) ==
        "Accuracy: array 3 is one too many; want predictions, labels");
  CHECK(why([&] { accuracy.update(scores, zeros({3}, DType::i64)); }) ==
        "Accuracy: predictions are (2, 3), labels (3,); want scores (..., C), or classes or binary "
        "predictions in the shape of the labels");
  CHECK(why([&] { accuracy.update(scores, zeros({2})); }) == "Accuracy: labels are f32; want integers");
  CHECK(why([&] { ConfusionMatrix().update(labels, labels); }) ==
        "ConfusionMatrix: predictions are classes; give the number of classes, `classes`");
  CHECK(why([&] { ConfusionMatrix().state(); }) ==
        "ConfusionMatrix: the number of classes is not known before the first batch; give `classes`");
  CHECK(why([&] { F1(Average::none, {.classes = 4}).update(scores, labels); }) ==
        "F1: predictions have 3 classes; want 4");
  CHECK(why([&] { ConfusionMatrix({.classes = 2}).value(); }) ==
        "ConfusionMatrix: the result is (2, 2); value() is for one number, result() has all");
  CHECK(why([&] {
          TopKAccuracy(4).update(scores, labels);
        }).find("want floating scores (..., C) with at least 4 classes") != std::string::npos);
  CHECK(why([&] { accuracy.merge(zeros({3}, DType::f64)); }) == "Accuracy: the state is (3,); want (2,)");
  CHECK(why([&] { accuracy.merge(zeros({2})); }) ==
        "Accuracy: the state is f32; want the f64 array that state() returns");
  CHECK(why([&] { Auc(-1); }).starts_with("Auc: bins is -1"));
  CHECK(why([&] { Auc().update(zeros({2}), zeros({3})); }).starts_with("Auc: the arrays are (2,) and (3,)"));
  CHECK(why([&] {
          R2().update(zeros({2, 2, 2}), zeros({2, 2, 2}));
        }) == "R2: the arrays are (2, 2, 2); want (N) or (N, D)");
  CHECK(why([&] { EditDistance().update(zeros({2}), labels); }) ==
        "EditDistance: predictions are f32; want integers");
  CHECK(why([&] {
          EditDistance().update(labels, zeros({2, 2}, DType::i64));
        }) == "EditDistance: there are 1 predictions and 2 targets; want as many");
  CHECK(
      why([&] { Perplexity().update(scores); }).starts_with("Perplexity: logits are (2, 3), labels missing"));
  const auto fails = [](const Metric& metric) { return message_of<Error>([&] { (void)metric.value(); }); };
  accuracy.update(scores, labels);
  accuracy.update(scores, labels + 2);
  accuracy.update(scores, labels);
  CHECK(fails(accuracy).find("Accuracy: label 3 at position 1; want 0 to 2, or -1, which does not count") !=
        std::string::npos);
  accuracy.reset();
  accuracy.update(scores, labels);
  CHECK(accuracy.value() == 0.5);
  ConfusionMatrix matrix({.classes = 2});
  matrix.update(labels + 5, labels);
  CHECK(message_of<Error>([&] {
          matrix.result().wait();
        }).find("ConfusionMatrix: prediction 5 at position 0; want 0 to 1") != std::string::npos);
  Auc auc, binned(3);
  auc.update(ones({2}), labels * 2);
  CHECK(fails(auc).find("Auc: label 2 at position 1; want 0 or 1") != std::string::npos);
  binned.update(ones({2}) * 1.5, labels);
  CHECK(fails(binned).find("Auc: score 1.5 at position 0; want 0 to 1 with bins") != std::string::npos);
  EditDistance distance;
  distance.update(labels, labels, array<std::int64_t>(3));
  CHECK(fails(distance).find("EditDistance: the length of prediction 0 is 3; want 0 to 2") !=
        std::string::npos);
}

TEST_CASE("metrics of classes: before the first batch the state of another one tells the number of classes") {
  const NDArray labels = array<std::int64_t>({0, 2, 1, 2}),
                scores = one_hot(array<std::int64_t>({0, 1, 1, 2}), 3);
  ConfusionMatrix counted, merged;
  counted.update(scores, labels);
  merged.merge(counted.state());
  CHECK(merged.result().to_vector<double>() == counted.result().to_vector<double>());
  F1 rates, other;
  rates.update(scores, labels);
  other.merge(rates.state());
  CHECK(other.value() == rates.value());
  other.update(scores, labels);
  CHECK(other.value() == rates.value());
  CHECK_THROWS_AS(F1().merge(zeros({3, 2}, DType::f64)), InvalidArgument);
}

TEST_CASE("R2: before the first batch the state of another one tells the number of columns") {
  R2 whole, merged;
  whole.update(array<float>({1, 2, 3, 5, 4, 4}, {3, 2}), array<float>({1, 2, 4, 4, 5, 5}, {3, 2}));
  merged.merge(whole.state());
  CHECK(merged.value() == whole.value());
  CHECK_THROWS_AS(R2().merge(zeros({3, 2}, DType::f64)), InvalidArgument);
}

TEST_CASE("update never waits: it takes arrays that are computed later") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  std::promise<void> go;
  NDArray labels = zeros({2}, DType::i64);
  array_push("later", {}, {labels}, [labels, ready = go.get_future().share()] {
    ready.wait();
    labels.data<std::int64_t>()[0] = 1;
    labels.data<std::int64_t>()[1] = 2;
  });
  std::vector<std::unique_ptr<Metric>> all;
  for (const char* name : {"Accuracy", "TopKAccuracy", "ConfusionMatrix", "Precision", "Perplexity"}) {
    all.push_back(
        make_metric(name, name == std::string("TopKAccuracy") ? OperatorValues{2} : OperatorValues{}));
    all.back()->update(one_hot(array<std::int64_t>({1, 2}), 3), labels);
  }
  all.push_back(make_metric("Auc"));
  all.back()->update(array({0.5, 0.5}), labels - 1);
  all.push_back(make_metric("EditDistance"));
  all.back()->update(labels, labels);
  std::vector<NDArray> results;
  for (const auto& metric : all) results.push_back(metric->result());
  go.set_value();
  CHECK(results[0].item<double>() == 1);
  CHECK(results[1].item<double>() == 1);
  CHECK(results[3].item<double>() == 1);
  CHECK(results[5].item<double>() == 0.5);
  CHECK(results[6].item<double>() == 0);
}

TEST_CASE("metrics take arrays of any device") {
  const NDArray scores = array<float>({1, 2, 4, 3}).view({2, 2}), labels = array<std::int64_t>({1, 1});
  Accuracy here, there, mixed, merged;
  here.update(scores, labels);
  there.update(scores.copy_to(cpu(1)), labels.copy_to(cpu(1)));
  mixed.update(scores.copy_to(cpu(1)), labels);
  merged.merge(here.state().copy_to(cpu(1)));
  for (const Accuracy* const one : {&here, &there, &mixed, &merged}) CHECK(one->value() == 0.5);
}
