// Recurrent networks, compared with a loop over single numbers.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"
#include "gradient_check.h"

using namespace heddle;

namespace {

// peepholes, projected and both: an lstm; reset_before: a gru.
enum class Kind { tanh, relu, lstm, gru, peepholes, projected, both, reset_before };
constexpr Kind kKinds[] = {Kind::tanh,      Kind::relu,      Kind::lstm, Kind::gru,
                           Kind::peepholes, Kind::projected, Kind::both, Kind::reset_before};

bool is_gru(Kind kind) { return kind == Kind::gru || kind == Kind::reset_before; }
bool is_lstm(Kind kind) { return kind != Kind::tanh && kind != Kind::relu && !is_gru(kind); }
bool is_projected(Kind kind) { return kind == Kind::projected || kind == Kind::both; }
bool has_peepholes(Kind kind) { return kind == Kind::peepholes || kind == Kind::both; }
std::int64_t gates_of(Kind kind) { return is_lstm(kind) ? 4 : is_gru(kind) ? 3 : 1; }

NDArray normal(const Shape& shape, std::uint64_t seed, double stddev = 0.5) {
  return Generator(seed).normal(shape, 0, stddev, DType::f64);
}

struct Case {
  Kind kind;
  std::int64_t steps = 4, batch = 3, features = 2, hidden = 3;
  bool bias = true, state = true, reverse = false, batch_first = false;
  std::vector<std::int64_t> lengths{};  // empty: all steps

  std::int64_t width() const { return is_projected(kind) ? (hidden + 1) / 2 : hidden; }  // of h
};

// x, weight_ih, weight_hh, and then others, of which some may be undefined.
struct Arrays {
  NDArray x, ih, hh, ih_bias, hh_bias, h, c, hr, peepholes, lengths;
};

Arrays arrays_of(const Case& of, DType dtype = DType::f64) {
  const std::int64_t rows = gates_of(of.kind) * of.hidden;
  const double scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, of.hidden)));
  Arrays made;
  made.x =
      normal(of.batch_first ? Shape{of.batch, of.steps, of.features} : Shape{of.steps, of.batch, of.features},
             1, 1)
          .astype(dtype);
  made.ih = normal({rows, of.features}, 2, 1).astype(dtype);
  made.hh = normal({rows, of.width()}, 3, scale).astype(dtype);
  if (of.bias) {
    made.ih_bias = normal({rows}, 4).astype(dtype);
    made.hh_bias = normal({rows}, 5).astype(dtype);
  }
  if (of.state) {
    made.h = normal({of.batch, of.width()}, 6).astype(dtype);
    if (is_lstm(of.kind)) made.c = normal({of.batch, of.hidden}, 7).astype(dtype);
  }
  if (is_projected(of.kind)) made.hr = normal({of.width(), of.hidden}, 8, 2 * scale).astype(dtype);
  if (has_peepholes(of.kind)) made.peepholes = normal({3 * of.hidden}, 10, 1).astype(dtype);
  if (!of.lengths.empty()) made.lengths = array<std::int64_t>(of.lengths, {of.batch});
  return made;
}

std::vector<NDArray> call(const Case& of, const Arrays& in) {
  const RecurrentWeights weights{in.ih, in.hh, in.ih_bias, in.hh_bias, in.hr, in.peepholes};
  const RecurrentOptions options{in.lengths, of.reverse, of.batch_first, of.kind != Kind::reset_before};
  const auto listed = [](const auto& results) {
    return std::vector<NDArray>(results.begin(), results.end());
  };
  if (is_lstm(of.kind)) return listed(lstm(in.x, weights, in.h, in.c, options));
  if (is_gru(of.kind)) return listed(gru(in.x, weights, in.h, options));
  return listed(rnn(in.x, weights, in.h, of.kind == Kind::relu, options));
}

using Doubles = std::vector<double>;
Doubles values(const NDArray& x, std::size_t size) {
  return x.defined() ? x.astype(DType::f64).to_vector<double>() : Doubles(size, 0);
}
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// The definition of PyTorch's documentation, one element of the batch after the other.
class Oracle {
 public:
  Oracle(const Case& of, const Arrays& in)
      : c_(of),
        x_(values(in.x, 0)),
        ih_(values(in.ih, 0)),
        hh_(values(in.hh, 0)),
        ih_bias_(values(in.ih_bias, size(gates_of(of.kind) * of.hidden))),
        hh_bias_(values(in.hh_bias, ih_bias_.size())),
        hr_(values(in.hr, 0)),
        peepholes_(values(in.peepholes, size(3 * of.hidden))),
        final_h(values(in.h, size(of.batch * of.width()))),
        final_c(values(in.c, size(of.batch * of.hidden))) {
    output.assign(size(of.steps * of.batch * of.width()), 0);
    for (std::int64_t n = 0; n < of.batch; ++n) {
      const std::int64_t length = of.lengths.empty() ? of.steps : of.lengths[size(n)];
      for (std::int64_t s = 0; s < length; ++s) step(of.reverse ? length - 1 - s : s, n);
    }
  }

 private:
  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
  double of_x(std::int64_t gate, std::int64_t place, std::int64_t u) const {
    const std::int64_t row = gate * c_.hidden + u;
    double sum = ih_bias_[size(row)];
    const double *weights = ih_.data() + row * c_.features, *x = x_.data() + place * c_.features;
    for (std::int64_t k = 0; k < c_.features; ++k) sum += weights[k] * x[k];
    return sum;
  }
  // `reset`: what h is multiplied by; empty: 1.
  double of_h(std::int64_t gate, std::int64_t n, std::int64_t u, const Doubles& reset = {}) const {
    const std::int64_t row = gate * c_.hidden + u, width = c_.width();
    double sum = hh_bias_[size(row)];
    const double *weights = hh_.data() + row * width, *h = final_h.data() + n * width;
    for (std::int64_t k = 0; k < width; ++k) sum += weights[k] * h[k] * (reset.empty() ? 1 : reset.data()[k]);
    return sum;
  }
  double peephole(std::int64_t gate, std::int64_t u, double cell) const {
    return peepholes_[size(gate * c_.hidden + u)] * cell;
  }
  // Unit u of what an lstm gives before the projection; replaces the cell state.
  double lstm_unit(std::int64_t place, std::int64_t n, std::int64_t u) {
    const auto sum = [&](std::int64_t gate) { return of_x(gate, place, u) + of_h(gate, n, u); };
    double& c = final_c[size(n * c_.hidden + u)];
    const double i = sigmoid_of(sum(0) + peephole(0, u, c)), f = sigmoid_of(sum(1) + peephole(1, u, c));
    c = f * c + i * std::tanh(sum(2));
    return sigmoid_of(sum(3) + peephole(2, u, c)) * std::tanh(c);
  }
  double gate(std::int64_t at, std::int64_t place, std::int64_t n, std::int64_t unit) const {
    return sigmoid_of(of_x(at, place, unit) + of_h(at, n, unit));
  }
  // `reset`: all reset gates, for the kind that multiplies h by them.
  double gru_unit(std::int64_t place, std::int64_t n, std::int64_t u, const Doubles& reset) const {
    const double part = c_.kind == Kind::gru ? gate(0, place, n, u) * of_h(2, n, u) : of_h(2, n, u, reset);
    const double z = gate(1, place, n, u);
    return (1 - z) * std::tanh(of_x(2, place, u) + part) + z * final_h[size(n * c_.hidden + u)];
  }
  Doubles projected(const Doubles& units) const {
    Doubles h(size(c_.width()));
    for (std::size_t row = 0; row < h.size(); ++row)
      for (std::size_t k = 0; k < units.size(); ++k) h[row] += hr_[row * units.size() + k] * units[k];
    return h;
  }
  void step(std::int64_t time, std::int64_t n) {
    const std::int64_t place = c_.batch_first ? n * c_.steps + time : time * c_.batch + n;
    Doubles h(size(c_.hidden)), reset;
    if (c_.kind == Kind::reset_before)
      for (std::int64_t u = 0; u < c_.hidden; ++u) reset.push_back(gate(0, place, n, u));
    for (std::int64_t u = 0; u < c_.hidden; ++u) {
      double& next = h[size(u)];
      if (c_.kind == Kind::tanh) next = std::tanh(of_x(0, place, u) + of_h(0, n, u));
      if (c_.kind == Kind::relu) next = std::max(0.0, of_x(0, place, u) + of_h(0, n, u));
      if (is_lstm(c_.kind)) next = lstm_unit(place, n, u);
      if (is_gru(c_.kind)) next = gru_unit(place, n, u, reset);
    }
    if (is_projected(c_.kind)) h = projected(h);
    for (std::int64_t u = 0; u < c_.width(); ++u)
      final_h[size(n * c_.width() + u)] = output[size(place * c_.width() + u)] = h[size(u)];
  }

  const Case& c_;
  Doubles x_, ih_, hh_, ih_bias_, hh_bias_, hr_, peepholes_;

 public:
  Doubles output, final_h, final_c;
};

void check_close(const NDArray& a, const Doubles& b, double tolerance) {
  const Doubles x = values(a, 0);
  REQUIRE(x.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(x[i] - b[i]) / (1 + std::abs(b[i]));
    most = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(most, difference);
  }
  CHECK(most <= tolerance);
}

void check_oracle(const Case& of, const Arrays& in, double tolerance) {
  CAPTURE(static_cast<int>(of.kind));
  CAPTURE(of.steps);
  CAPTURE(of.batch);
  CAPTURE(of.reverse);
  CAPTURE(of.batch_first);
  const Oracle expected(of, in);
  const std::vector<NDArray> results = call(of, in);
  REQUIRE(results.size() == (is_lstm(of.kind) ? 3 : 2));
  CHECK(results[0].shape() ==
        (of.batch_first ? Shape{of.batch, of.steps, of.width()} : Shape{of.steps, of.batch, of.width()}));
  CHECK(results[1].shape() == Shape{of.batch, of.width()});
  check_close(results[0], expected.output, tolerance);
  check_close(results[1], expected.final_h, tolerance);
  if (is_lstm(of.kind)) check_close(results[2], expected.final_c, tolerance);
}

// Calls body for each kind, with and without each option.
template <class Body> void for_all(Case of, const Body& body) {
  const std::vector<std::int64_t> lengths = of.lengths;
  for (const Kind kind : kKinds)
    for (int bits = 0; bits < 32; ++bits) {
      of.kind = kind;
      of.bias = bits & 1;
      of.state = bits & 2;
      of.reverse = bits & 4;
      of.batch_first = bits & 8;
      of.lengths = bits & 16 ? lengths : std::vector<std::int64_t>();
      body(of);
    }
}

// All floating arrays that are defined.
std::vector<NDArray> inputs_of(const Arrays& in) {
  std::vector<NDArray> all;
  for (const NDArray& each : {in.x, in.ih, in.hh, in.ih_bias, in.hh_bias, in.h, in.c, in.hr, in.peepholes})
    if (each.defined()) all.push_back(each);
  return all;
}
Arrays with(Arrays in, const std::vector<NDArray>& inputs) {
  std::size_t at = 0;
  for (NDArray* each : {&in.x, &in.ih, &in.hh, &in.ih_bias, &in.hh_bias, &in.h, &in.c, &in.hr, &in.peepholes})
    if (each->defined()) *each = inputs[at++];
  return in;
}

// All results in one array.
NDArray joined(const std::vector<NDArray>& results) {
  std::vector<NDArray> flat;
  for (const NDArray& one : results) flat.push_back(reshape(one, {one.size()}));
  return concat(flat);
}

std::vector<NDArray> gradients(const Case& of, const Arrays& in) {
  std::vector<NDArray> leaves;
  for (const NDArray& each : inputs_of(in)) {
    leaves.push_back(each.copy());
    set_requires_grad(leaves.back());
  }
  const NDArray y = joined(call(of, with(in, leaves)));
  return grad({y}, leaves, {.seeds = {normal(y.shape(), 9).astype(y.dtype())}});
}

}  // namespace

TEST_CASE("recurrent networks compute what their definition says, with every option") {
  for_all({.kind = Kind::tanh, .lengths = {2, 4, 0}},
          [](const Case& of) { check_oracle(of, arrays_of(of), 1e-13); });
  const Case middle{.kind = Kind::tanh,
                    .steps = 7,
                    .batch = 9,
                    .features = 5,
                    .hidden = 21,
                    .lengths = {7, 1, 3, 3, 0, 6, 7, 2, 5}};
  for_all(middle, [](const Case& of) {
    check_oracle(of, arrays_of(of), 1e-12);
    check_oracle(of, arrays_of(of, DType::f32), 2e-5);
  });
}

TEST_CASE("many rows, many units, one step, and no steps, elements, features or units") {
  for (const Kind kind : kKinds) {
    for (Case of :
         {Case{.kind = kind, .steps = test::kSanitized ? 2 : 5, .batch = 70, .features = 3, .hidden = 150},
          Case{.kind = kind, .steps = 1, .batch = 2, .features = 3, .hidden = 40},
          Case{.kind = kind, .steps = 3, .batch = 1, .features = 1, .hidden = 1},
          Case{.kind = kind, .steps = 0}, Case{.kind = kind, .batch = 0}, Case{.kind = kind, .features = 0},
          Case{.kind = kind, .hidden = 0}, Case{.kind = kind, .steps = 3, .lengths = {0, 0, 0}}}) {
      for (const bool reverse : {false, true}) {
        of.reverse = reverse;
        check_oracle(of, arrays_of(of), 1e-12);
        const Arrays in = arrays_of(of);
        const std::vector<NDArray> found = gradients(of, in), inputs = inputs_of(in);
        for (std::size_t i = 0; i < inputs.size(); ++i) CHECK(found[i].shape() == inputs[i].shape());
      }
    }
  }
}

TEST_CASE("gradients and second gradients of recurrent networks agree with finite differences") {
  const auto check = [](const Case& of) {
    CAPTURE(static_cast<int>(of.kind));
    CAPTURE(of.reverse);
    CAPTURE(of.batch_first);
    const Arrays in = arrays_of(of);
    testing::check_gradients(
        [&](const std::vector<NDArray>& leaves) { return joined(call(of, with(in, leaves))); },
        inputs_of(in));
  };
  for (const Kind kind : kKinds) {
    check({.kind = kind, .steps = 5, .batch = 2, .features = 1, .hidden = 2});
    check(
        {.kind = kind, .steps = 3, .batch = 2, .hidden = 2, .bias = false, .state = false, .reverse = true});
    check({.kind = kind,
           .steps = 3,
           .batch = 3,
           .features = 1,
           .hidden = 2,
           .batch_first = true,
           .lengths = {1, 3, 0}});
    check({.kind = kind,
           .steps = 5,
           .batch = 2,
           .features = 1,
           .hidden = 1,
           .state = false,
           .reverse = true,
           .lengths = {2, 5}});
  }
}

TEST_CASE("the kernels' gradients are those of the composition, in f64 and f32") {
  for (const Kind kind : kKinds) {
    for (const bool reverse : {false, true}) {
      Case of{.kind = kind, .steps = 6, .batch = 75, .features = 20, .hidden = 37, .reverse = reverse};
      for (std::int64_t i = 0; i < of.batch; ++i) of.lengths.push_back(i * 5 % 7);
      const Arrays in = arrays_of(of);
      const std::vector<NDArray> ours = gradients(of, in), narrow = gradients(of, arrays_of(of, DType::f32));
      std::vector<NDArray> leaves;
      for (const NDArray& each : inputs_of(in)) {
        leaves.push_back(each.copy());
        set_requires_grad(leaves.back());
      }
      const NDArray y = joined(call(of, with(in, leaves)));
      // A recorded gradient is computed by operators.
      const std::vector<NDArray> composed =
          grad({y}, leaves, {.seeds = {normal(y.shape(), 9)}, .create_graph = true});
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const Doubles expected = values(composed[i], 0);
        check_close(ours[i], expected, 1e-11);
        check_close(narrow[i], expected, 1e-3);
      }
    }
  }
}

TEST_CASE("an input that is computed from a weight has second gradients of its own") {
  const Case of{
      .kind = Kind::lstm, .steps = 3, .batch = 2, .features = 2, .hidden = 2, .bias = false, .state = false};
  const Arrays in = arrays_of(of);
  testing::check_gradients(
      [&](const std::vector<NDArray>& v) {
        return lstm(v[0] * sum(v[1]), {v[1], v[2]}, sum(v[1] * v[2]) + zeros({2, 2}, DType::f64))[0];
      },
      {in.x, in.ih, in.hh});
}

TEST_CASE(
    "an element of a batch with lengths is what it is alone, and what is behind a length counts for "
    "nothing") {
  for (const Kind kind : kKinds) {
    for (const bool reverse : {false, true}) {
      const Case of{.kind = kind,
                    .steps = 9,
                    .batch = 5,
                    .features = 6,
                    .hidden = 20,
                    .reverse = reverse,
                    .lengths = {4, 9, 6, 9, 5}};
      Arrays in = arrays_of(of);
      for (std::int64_t n = 0; n < of.batch; ++n) {
        NDArray behind =
            in.x.slice(0, {of.lengths[static_cast<std::size_t>(n)], of.steps}).slice(1, {n, n + 1});
        behind.assign(full(behind.shape(), std::numeric_limits<double>::quiet_NaN(), DType::f64));
      }
      const std::vector<NDArray> together = call(of, in);
      for (std::int64_t n = 0; n < of.batch; ++n) {
        const std::int64_t length = of.lengths[static_cast<std::size_t>(n)];
        Case single = of;
        single.lengths.clear();
        single.batch = 1;
        single.steps = length;
        Arrays alone = in;
        alone.x = in.x.slice(0, {0, length}).slice(1, {n, n + 1});
        alone.h = in.h.slice(0, {n, n + 1});
        if (in.c.defined()) alone.c = in.c.slice(0, {n, n + 1});
        alone.lengths = {};
        const std::vector<NDArray> one = call(single, alone);
        check_close(together[0].slice(0, {0, length}).slice(1, {n, n + 1}), values(one[0], 0), 1e-14);
        for (std::size_t i = 1; i < one.size(); ++i)
          check_close(together[i].slice(0, {n, n + 1}), values(one[i], 0), 1e-14);
        for (const double zero : values(together[0].slice(0, {length, of.steps}).slice(1, {n, n + 1}), 0))
          CHECK(zero == 0);
      }
      const std::vector<NDArray> found = gradients(of, in);
      for (const double each : values(found[1], 0)) CHECK(std::isfinite(each));
      for (const double each : values(found[0].slice(0, {4, 9}).slice(1, {0, 1}), 0)) CHECK(each == 0);
    }
  }
}

TEST_CASE("recurrent networks give the same bits with any number of workers") {
  for (const Kind kind : kKinds) {
    Case of{.kind = kind, .steps = test::kSanitized ? 3 : 12, .batch = 20, .features = 70, .hidden = 200};
    for (std::int64_t i = 0; i < of.batch; ++i) of.lengths.push_back(i % (of.steps + 1));
    const auto run = [&](EngineOptions options) {
      Engine engine(options);
      const EngineScope scope(engine);
      const Arrays in = arrays_of(of, DType::f32);
      std::vector<NDArray> all = call(of, in);
      for (const NDArray& each : gradients(of, in)) all.push_back(each);
      return joined(all).to_vector<float>();
    };
    const std::vector<float> expected = run({.workers = 1});
    CHECK(run({.workers = 2}) == expected);
    CHECK(run({.workers = 4}) == expected);
  }
}

TEST_CASE("strided arrays, halves, and lengths of every integer dtype") {
  const Case of{.kind = Kind::lstm, .lengths = {2, 4, 1}};
  const Arrays in = arrays_of(of);
  Arrays strided = in;
  strided.x = transpose(transpose(in.x).copy());
  strided.hh = transpose(transpose(in.hh).copy());
  strided.lengths = repeat(in.lengths, 2, 0).slice(0, {.step = 2});
  check_oracle(of, strided, 1e-13);
  for (const DType dtype : {DType::u8, DType::i8, DType::i32, DType::u64}) {
    Arrays other = in;
    other.lengths = in.lengths.astype(dtype);
    check_oracle(of, other, 1e-13);
  }
  for (const Kind kind : kKinds) {
    Case each = of;
    each.kind = kind;
    const Arrays half = arrays_of(each, DType::f16);
    check_oracle(each, half, 2e-3);
    for (const NDArray& one : call(each, half)) CHECK(one.dtype() == DType::f16);
    for (const NDArray& one : gradients(each, half)) CHECK(one.dtype() == DType::f16);
  }
}

TEST_CASE(
    "gradients by a part of the inputs, of a part of the results; arrays changed before the backward pass") {
  const Case of{.kind = Kind::lstm};
  const Arrays in = arrays_of(of);
  const std::vector<NDArray> all = gradients(of, in);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<NDArray> inputs = inputs_of(in);
    inputs[i] = inputs[i].copy();
    set_requires_grad(inputs[i]);
    const NDArray y = joined(call(of, with(in, inputs)));
    check_close(grad({y}, {inputs[i]}, {.seeds = {normal(y.shape(), 9)}})[0], values(all[i], 0), 1e-14);
  }
  NDArray h = in.h.copy();
  set_requires_grad(h);
  Arrays changed = in;
  changed.h = h;
  const NDArray c = call(of, changed)[2];
  CHECK(grad({sum(c)}, {h}, {.keep_tape = true})[0].shape() == h.shape());
  in.hh.assign(in.hh * 2);
  CHECK_THROWS_AS(backward(sum(c)), Error);
}

TEST_CASE("what is behind a length counts for nothing in recorded gradients") {
  for (const Kind kind : kKinds) {
    for (const bool batch_first : {false, true}) {
      for (const double padding : {std::numeric_limits<double>::quiet_NaN(), 1e308}) {
        const Case of{.kind = kind, .batch_first = batch_first, .lengths = {2, 4, 0}};
        Arrays in = arrays_of(of);
        for (std::int64_t n = 0; n < 3; ++n) {
          const std::int64_t length = of.lengths[static_cast<std::size_t>(n)];
          NDArray behind =
              in.x.slice(batch_first ? 1 : 0, {length, 4}).slice(batch_first ? 0 : 1, {n, n + 1});
          behind.assign(full(behind.shape(), padding, DType::f64));
        }
        std::vector<NDArray> leaves;
        for (const NDArray& each : inputs_of(in)) {
          leaves.push_back(each.copy());
          set_requires_grad(leaves.back());
        }
        const auto loss = [&] { return sum(joined(call(of, with(in, leaves)))); };
        const std::vector<NDArray> first = grad({loss()}, leaves),
                                   recorded = grad({loss()}, leaves, {.create_graph = true});
        NDArray squares = zeros({}, DType::f64);
        for (std::size_t i = 0; i < first.size(); ++i) {
          check_close(recorded[i].detach(), values(first[i], 0), 1e-12);
          squares = squares + sum(square(recorded[i]));
        }
        for (const NDArray& second : grad({squares}, leaves, {.allow_unused = true}))
          for (const double each : values(second, 0)) CHECK(std::isfinite(each));
      }
    }
  }
}

TEST_CASE("products of every option are rounded in an autocast") {
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const Case of{.kind = kind, .steps = 6, .batch = 9, .features = 5, .hidden = 21};
    const Arrays in = arrays_of(of, DType::f32);
    const Oracle expected(of, in);
    const std::vector<NDArray> wide = gradients(of, in);
    const Autocast autocast(DType::bf16);
    const std::vector<NDArray> results = call(of, in), narrow = gradients(of, in);
    CHECK(results[0].dtype() == DType::bf16);
    // The distance of all numbers together: a gradient of relu jumps where its operand is nearly 0.
    const auto distance = [](const NDArray& a, const Doubles& b) {
      const Doubles x = values(a, 0);
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < b.size(); ++i) {
        difference += (x[i] - b[i]) * (x[i] - b[i]);
        norm += b[i] * b[i];
      }
      return std::sqrt(difference / norm);
    };
    CHECK(distance(results[0], expected.output) < 0.02);
    CHECK(distance(results[0], expected.output) > 1e-4);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      CAPTURE(i);
      CHECK(narrow[i].dtype() == DType::f32);
      CHECK(distance(narrow[i], values(wide[i], 0)) < (kind == Kind::relu ? 0.3 : 0.05));
    }
  }
}

TEST_CASE("NaN and infinity stay in their element of the batch") {
  for (const Kind kind : kKinds) {
    const Case of{.kind = kind, .state = false};
    Arrays in = arrays_of(of);
    NDArray bad = in.x.slice(0, {1, 2}).slice(1, {1, 2});
    bad.assign(full(bad.shape(), std::numeric_limits<double>::quiet_NaN(), DType::f64));
    const NDArray y = call(of, in)[0];
    for (std::int64_t n = 0; n < 3; ++n)
      for (const double each : values(y.slice(0, {1, 4}).slice(1, {n, n + 1}), 0))
        CHECK(std::isnan(each) == (n == 1));
  }
}
