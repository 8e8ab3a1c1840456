// Connectionist temporal classification against all alignments by enumeration, a serial recursion, and finite differences.
#include <algorithm>
#include <arguments.h>
#include <cmath>
#include <limits>
#include <message_of.h>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/default_engine.h>
#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using Doubles = std::vector<double>;
using Labels = std::vector<std::int64_t>;
using In = const std::vector<NDArray>&;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Labels collapsed(const Labels& path, std::int64_t blank) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

// -log of the sum over all paths of classes that collapse to the target. rows: steps x classes.
double loss_by_paths(const Doubles& rows, std::int64_t steps, std::int64_t classes, const Labels& target,
                     std::int64_t blank) {
  Labels path(static_cast<std::size_t>(steps), 0);
  double total = 0;
  while (true) {
    if (collapsed(path, blank) == target) {
      double logarithm = 0;
      for (std::int64_t t = 0; t < steps; ++t)
        logarithm += rows[static_cast<std::size_t>(t * classes + path[static_cast<std::size_t>(t)])];
      total += std::exp(logarithm);
    }
    std::size_t digit = 0;
    while (digit < path.size() && ++path[digit] == classes) path[digit++] = 0;
    if (digit == path.size()) return 0 - std::log(total);
  }
}

// The same by probabilities of states, for sequences that are too long to enumerate paths. log_probs is of moderate size.
double loss_by_states(const Doubles& rows, std::int64_t steps, std::int64_t classes, const Labels& target,
                      std::int64_t blank) {
  Labels states{blank};
  for (const std::int64_t label : target) states.insert(states.end(), {label, blank});
  std::vector<long double> p(states.size(), 0);
  long double scale = 0;
  for (std::int64_t t = 0; t < steps; ++t) {
    std::vector<long double> next(states.size(), 0);
    long double sum = 0;
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (t == 0) next[s] = s < 2 ? 1 : 0;
      if (t > 0) next[s] = p[s] + (s > 0 ? p[s - 1] : 0);
      if (t > 0 && s > 1 && states[s] != blank && states[s] != states[s - 2]) next[s] += p[s - 2];
      next[s] *= std::exp(static_cast<long double>(rows[static_cast<std::size_t>(t * classes + states[s])]));
      sum += next[s];
    }
    for (long double& one : next) one /= sum;
    scale += std::log(sum);
    p = next;
  }
  return static_cast<double>(-(scale + std::log(p.back() + (p.size() > 1 ? p[p.size() - 2] : 0))));
}

NDArray probabilities(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  return log_softmax(Generator(seed).normal(shape, 0, 1, dtype));
}

// The rows of sequence n of an array (T, N, C).
Doubles rows_of(const NDArray& x, std::int64_t n, std::int64_t steps) {
  return x.slice(1, {n, n + 1}).slice(0, {0, steps}).copy().astype(DType::f64).to_vector<double>();
}

struct Case {
  NDArray x, padded, flat, steps, lengths;
  std::vector<Labels> targets;
  Labels each_steps;
};

// Sequences of random lengths; the padding is no label.
Case random_case(std::int64_t steps, std::int64_t batch, std::int64_t classes, std::int64_t longest,
                 std::uint64_t seed, std::int64_t blank = 0, DType dtype = DType::f64) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  Case made;
  made.x = probabilities({steps, batch, classes}, seed, dtype);
  Labels padded, flat, lengths;
  for (std::int64_t n = 0; n < batch; ++n) {
    Labels target(static_cast<std::size_t>(below(longest + 1)));
    for (std::int64_t& label : target) label = (blank + 1 + below(classes - 1)) % classes;
    flat.insert(flat.end(), target.begin(), target.end());
    padded.insert(padded.end(), target.begin(), target.end());
    padded.resize(static_cast<std::size_t>((n + 1) * longest), -7);
    lengths.push_back(static_cast<std::int64_t>(target.size()));
    made.each_steps.push_back(steps - below(steps / 3 + 1));
    made.targets.push_back(std::move(target));
  }
  made.padded = array<std::int64_t>(padded, {batch, longest});
  made.flat = array<std::int64_t>(flat, {static_cast<std::int64_t>(flat.size())});
  made.steps = array<std::int64_t>(made.each_steps, {batch});
  made.lengths = array<std::int64_t>(lengths, {batch});
  return made;
}

void check_near(double value, double expected, double tolerance) {
  if (std::isinf(expected)) {
    CHECK(value == expected);
  } else {
    CHECK(std::abs(value - expected) <= tolerance * std::max(1.0, std::abs(expected)));
  }
}

}  // namespace

TEST_CASE("ctc_loss is the sum over all alignments") {
  for (const std::int64_t blank : {0, 2}) {
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
      const Case c = random_case(6, 5, 3, 4, seed, blank);
      const Doubles padded =
          ctc_loss(c.x, c.padded, c.steps, c.lengths, {blank, Reduction::none}).to_vector<double>();
      const Doubles flat =
          ctc_loss(c.x, c.flat, c.steps, c.lengths, {blank, Reduction::none}).to_vector<double>();
      CHECK(padded == flat);
      for (std::size_t n = 0; n < padded.size(); ++n) {
        const auto at = static_cast<std::int64_t>(n);
        check_near(padded[n],
                   loss_by_paths(rows_of(c.x, at, c.each_steps[n]), c.each_steps[n], 3, c.targets[n], blank),
                   1e-12);
      }
    }
  }
}

TEST_CASE("ctc_loss of long sequences in every dtype, of strided arrays and other integers") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Case c = random_case(150, 6, 20, 30, 3, 19, dtype);
    const NDArray losses = ctc_loss(c.x, c.padded, c.steps, c.lengths, {19, Reduction::none});
    CHECK(losses.dtype() == dtype);
    const Doubles values = losses.astype(DType::f64).to_vector<double>();
    const double tolerance = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-6 : 1e-2;
    double mean = 0;
    for (std::size_t n = 0; n < values.size(); ++n) {
      const Doubles rows = rows_of(c.x, static_cast<std::int64_t>(n), c.each_steps[n]);
      const double expected = loss_by_states(rows, c.each_steps[n], 20, c.targets[n], 19);
      check_near(values[n], expected, tolerance);
      mean += expected / std::max<double>(1, static_cast<double>(c.targets[n].size())) / 6;
    }
    check_near(ctc_loss(c.x, c.padded, c.steps, c.lengths, {19}).astype(DType::f64).item<double>(), mean,
               tolerance);
    const NDArray strided = transpose(transpose(c.x, {2, 0, 1}).copy(), {1, 2, 0});
    CHECK_FALSE(strided.is_contiguous());
    CHECK(ctc_loss(strided, c.padded.astype(DType::i32), c.steps.astype(DType::u8),
                   c.lengths.astype(DType::i16), {19, Reduction::none})
              .astype(DType::f64)
              .to_vector<double>() == values);
  }
}

TEST_CASE("ctc_loss of very improbable targets is finite") {
  // Every step prefers the blank by 300, as logarithms of probabilities: e^-300 of each label underflows f32.
  const std::int64_t steps = 40;
  Doubles rows(static_cast<std::size_t>(steps * 3), -300);
  for (std::size_t t = 0; t < rows.size(); t += 3) rows[t] = 0;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const NDArray x = array<double>(rows, {steps, 3}).astype(dtype);
    const NDArray target = array<std::int64_t>({1, 2, 1, 2, 2}), length = array<std::int64_t>({5});
    const double loss =
        ctc_loss(x, target, array<std::int64_t>({steps}), length, {.reduction = Reduction::sum})
            .astype(DType::f64)
            .item<double>();
    // The number of alignments with one step for each label: of 40 steps 5, the last two not adjacent.
    const double ways = std::lgamma(41) - std::lgamma(36) - std::lgamma(6),
                 adjacent = std::lgamma(40) - std::lgamma(36) - std::lgamma(5);
    check_near(loss, 1500 - std::log(std::exp(ways) - std::exp(adjacent)), 1e-6);
  }
}

TEST_CASE("targets that no alignment gives, and sequences without steps or labels") {
  // "1 1" needs three steps. The last sequence has neither steps nor labels.
  NDArray x = probabilities({3, 4, 3}, 5).copy();
  const NDArray targets = array<std::int64_t>({1, 1, 1, 2, 2, -1, 0, 0}, {4, 2}),
                steps = array<std::int64_t>({2, 3, 0, 0}), lengths = array<std::int64_t>({2, 2, 1, 0});
  for (const bool zero : {false, true}) {
    set_requires_grad(x);
    clear_grad(x);
    const NDArray losses = ctc_loss(x, targets, steps, lengths, {0, Reduction::none, zero});
    const Doubles values = losses.to_vector<double>();
    CHECK(values[0] == (zero ? 0 : kInfinity));
    CHECK(std::isfinite(values[1]));
    CHECK(values[2] == (zero ? 0 : kInfinity));
    CHECK(values[3] == 0);
    backward(losses, {.seed = array<double>({kInfinity, 1, 1, 1})});
    const Doubles gradient = grad(x).to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (i / 3 % 4 == 1) continue;
      CHECK(gradient[i] == 0);
    }
    CHECK(*std::min_element(gradient.begin(), gradient.end()) < 0);
  }
  CHECK(ctc_loss(zeros({0, 2, 3}), zeros({2, 0}, DType::i64), zeros({2}, DType::i64), zeros({2}, DType::i64))
            .item<float>() == 0);
  CHECK(ctc_loss(zeros({4, 0, 3}), zeros({0, 2}, DType::i64), zeros({0}, DType::i64), zeros({0}, DType::i64),
                 {.reduction = Reduction::none})
            .shape() == Shape{0});
  CHECK(ctc_loss(zeros({4, 0, 3}), zeros({0}, DType::i64), zeros({0}, DType::i64), zeros({0}, DType::i64),
                 {.reduction = Reduction::sum})
            .item<float>() == 0);
}

TEST_CASE("first and second gradients of ctc_loss agree with finite differences") {
  const Case c = random_case(6, 4, 4, 3, 9, 1);
  const NDArray scores = Generator(4).normal({6, 4, 4}, 0, 1, DType::f64);
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const CtcOptions options{1, r, true};
    testing::check_gradients([&](In in) { return ctc_loss(in[0], c.padded, c.steps, c.lengths, options); },
                             {c.x});
    testing::check_gradients(
        [&](In in) { return ctc_loss(log_softmax(in[0]), c.flat, c.steps, c.lengths, options); }, {scores});
  }
  const NDArray target = array<std::int64_t>({2, 2, 3}), five = array<std::int64_t>(5),
                three = array<std::int64_t>(3);
  testing::check_gradients(
      [&](In in) { return ctc_loss(in[0], target, five, three, {.reduction = Reduction::none}); },
      {probabilities({6, 4}, 8)});
}

TEST_CASE("ctc_loss in f32 has the gradient of f64, and refuses a third one") {
  const Case c = random_case(120, 4, 30, 25, 2);
  const auto gradient_of = [&](DType dtype) {
    NDArray x = c.x.astype(dtype).copy();
    set_requires_grad(x);
    backward(ctc_loss(x, c.padded, c.steps, c.lengths));
    return grad(x).astype(DType::f64);
  };
  CHECK(max(abs(gradient_of(DType::f32) - gradient_of(DType::f64))).item<double>() < 2e-6);
  CHECK(max(abs(gradient_of(DType::f16) - gradient_of(DType::f64))).item<double>() < 1e-2);
  NDArray x = c.x.copy();
  set_requires_grad(x);
  const NDArray first = grad({ctc_loss(x, c.padded, c.steps, c.lengths)}, {x}, {.create_graph = true})[0];
  CHECK(message_of<Error>([&] {
          grad({sum(square(first))}, {x}, {.create_graph = true});
        }).find("ctc_loss_backward") != std::string::npos);
}

TEST_CASE("ctc_loss has the same bits with any number of workers, and sees changes before backward") {
  std::vector<Doubles> all;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const Case c = random_case(90, 9, 12, 20, 6);
    NDArray x = c.x.copy();
    set_requires_grad(x);
    const NDArray loss = ctc_loss(x, c.padded, c.steps, c.lengths);
    backward(loss);
    all.push_back(grad(x).to_vector<double>());
    all.back().push_back(loss.item<double>());
  }
  CHECK(all[0] == all[1]);
  CHECK(all[0] == all[2]);
  const Case c = random_case(9, 2, 4, 3, 6);
  NDArray x = c.x.copy();
  set_requires_grad(x);
  const NDArray y = x * 1, loss = ctc_loss(y, c.padded, c.steps, c.lengths);
  {
    NoGrad no_grad;
    NDArray changed = y;
    changed += 1;
  }
  CHECK_THROWS_AS(backward(loss), Error);
}

TEST_CASE("ctc_loss and ctc_greedy_decode refuse what does not fit") {
  const NDArray x = probabilities({4, 2, 3}, 1), targets = array<std::int64_t>({1, 2, 2, 1}, {2, 2}),
                steps = array<std::int64_t>({4, 4}), lengths = array<std::int64_t>({2, 1});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([&] { ctc_loss(x.astype(DType::i32), targets, steps, lengths); }) ==
        "ctc_loss: dtype i32; wanted a floating one");
  CHECK(why([&] { ctc_loss(ones({3}), targets, steps, lengths); }) ==
        "ctc_loss: log_probs is (3,); want (T, N, C), or (T, C) for one sequence");
  CHECK(why([&] { ctc_loss(x, targets, steps, lengths, {3}); }) ==
        "ctc_loss: blank is 3, log_probs (4, 2, 3); want a class, below 3");
  CHECK(why([&] {
          ctc_loss(x, zeros({3, 2}, DType::i64), steps, lengths);
        }) == "ctc_loss: targets are (3, 2); want (2, S), or all labels in a row");
  CHECK(why([&] {
          ctc_loss(x, ones({2, 2}), steps, lengths);
        }) == "ctc_loss: targets are f32; want integers");
  CHECK(why([&] { ctc_loss(x, targets, array<std::int64_t>({4}), lengths); }) ==
        "ctc_loss: input_lengths are (1,); want (2,), one for each sequence");
  CHECK(why([&] { ctc_greedy_decode(x, ones({2})); }) ==
        "ctc_greedy_decode: input_lengths are f32; want integers");
  const auto fails = [](const NDArray& y) { return message_of<Error>([&] { y.wait(); }); };
  CHECK(fails(ctc_loss(x, targets, steps + 1, lengths))
            .find("ctc_loss: the input length of sequence 0 is 5; want 0 to 4") != std::string::npos);
  CHECK(fails(ctc_loss(x, targets, steps - 5, lengths)).find("is -1; want 0 to 4") != std::string::npos);
  CHECK(fails(ctc_loss(x, targets, steps, lengths + 1))
            .find("ctc_loss: the target length of sequence 0 is 3; want 0 to 2") != std::string::npos);
  CHECK(fails(ctc_loss(x, targets - 1, steps, lengths))
            .find("ctc_loss: label 0 of sequence 0 is 0; want 0 to 2 without the blank, 0") !=
        std::string::npos);
  CHECK(fails(ctc_loss(x, targets + 5, steps, lengths)).find("label 0 of sequence 0 is 6") !=
        std::string::npos);
  CHECK(fails(ctc_loss(x, array<std::int64_t>({1, 2, 1, 1}), steps, lengths))
            .find("ctc_loss: the target lengths sum up to 3, targets has 4 labels; want as many") !=
        std::string::npos);
  CHECK(fails(ctc_loss(x, array<std::int64_t>({1, 2}), steps, lengths)).find("sum up to more than 2") !=
        std::string::npos);
  CHECK(fails(ctc_greedy_decode(x, steps + 1)[0])
            .find("ctc_greedy_decode: the input length of sequence 0 is 5; want 0 to 4") !=
        std::string::npos);
}

TEST_CASE("ctc_greedy_decode collapses the best path") {
  const Case c = random_case(12, 7, 4, 3, 11, 1);
  const auto [labels, numbers] = ctc_greedy_decode(c.x, c.steps, 1);
  const Labels found = labels.to_vector<std::int64_t>(), counts = numbers.to_vector<std::int64_t>();
  for (std::size_t n = 0; n < 7; ++n) {
    const Doubles rows = rows_of(c.x, static_cast<std::int64_t>(n), c.each_steps[n]);
    Labels path;
    for (std::size_t t = 0; t < rows.size(); t += 4)
      path.push_back(std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(t),
                                      rows.begin() + static_cast<std::ptrdiff_t>(t) + 4) -
                     rows.begin() - static_cast<std::ptrdiff_t>(t));
    Labels expected = collapsed(path, 1);
    CHECK(counts[n] == static_cast<std::int64_t>(expected.size()));
    expected.resize(12, -1);
    CHECK(Labels(found.begin() + static_cast<std::ptrdiff_t>(n * 12),
                 found.begin() + static_cast<std::ptrdiff_t>(n * 12 + 12)) == expected);
  }
  const NDArray one = c.x.slice(1, {0, 1}).copy().view_as({12, 4});
  const auto [row, number] = ctc_greedy_decode(one, {}, 1);
  CHECK(row.shape() == Shape{12});
  CHECK(number.shape() == Shape{});
  CHECK(ctc_greedy_decode(zeros({0, 2, 3}))[0].shape() == Shape{2, 0});
}

TEST_CASE("ctc_beam_search with a wide beam finds the most probable labels") {
  const std::int64_t steps = 5, classes = 3;
  for (const std::int64_t blank : {0, 2}) {
    const NDArray x = probabilities({steps, 8, classes}, 21);
    const auto [labels, numbers, scores] = ctc_beam_search(x, {}, 1000, blank);
    for (std::int64_t n = 0; n < 8; ++n) {
      const Doubles rows = rows_of(x, n, steps);
      Labels best, path(static_cast<std::size_t>(steps), 0);
      double least = kInfinity;
      for (std::size_t digit = 0; digit < path.size();) {
        const Labels target = collapsed(path, blank);
        const double loss = loss_by_paths(rows, steps, classes, target, blank);
        if (loss < least) {
          least = loss;
          best = target;
        }
        for (digit = 0; digit < path.size() && ++path[digit] == classes;) path[digit++] = 0;
      }
      CHECK(numbers[n].item<std::int64_t>() == static_cast<std::int64_t>(best.size()));
      best.resize(static_cast<std::size_t>(steps), -1);
      CHECK(labels[n].copy().to_vector<std::int64_t>() == best);
      check_near(scores[n].item<double>(), -least, 1e-12);
    }
  }
}

TEST_CASE(
    "ctc_beam_search on long sequences: better than the best path, with short lengths, in every dtype") {
  const Case c = random_case(60, 5, 12, 20, 31);
  const auto [labels, numbers, scores] = ctc_beam_search(c.x, c.steps, 20);
  const auto [greedy, greedy_numbers] = ctc_greedy_decode(c.x, c.steps);
  const CtcOptions each{.reduction = Reduction::none};
  const Doubles found = ctc_loss(c.x, maximum(labels, 0), c.steps, numbers, each).to_vector<double>();
  const Doubles by_path =
      ctc_loss(c.x, maximum(greedy, 0), c.steps, greedy_numbers, each).to_vector<double>();
  const Doubles score = scores.to_vector<double>();
  for (std::size_t n = 0; n < found.size(); ++n) {
    CHECK(found[n] <= by_path[n] + 1e-9);
    CHECK(-score[n] >= found[n] - 1e-9);  // the search may miss alignments
  }
  CHECK(ctc_beam_search(c.x.astype(DType::f16), c.steps)[2].dtype() == DType::f16);
  CHECK(ctc_beam_search(full({3, 1, 2}, std::nan("")), {}, 2)[0].shape() == Shape{1, 3});  // of some labels
  const auto [none, zero, sure] = ctc_beam_search(zeros({0, 2, 3}));
  CHECK(none.shape() == Shape{2, 0});
  CHECK(sure.to_vector<float>() == std::vector<float>{0, 0});
  CHECK(ctc_beam_search(zeros({4, 2}), {}, 3)[0].shape() == Shape{4});
  CHECK(message_of<InvalidArgument>([&] { ctc_beam_search(c.x, {}, 0); }) ==
        "ctc_beam_search: beam is 0; want 1 or more");
}
