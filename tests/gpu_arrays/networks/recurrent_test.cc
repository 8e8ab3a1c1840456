// Recurrent networks on a GPU: values and gradients against the CPU, whose sums and exponentials differ in the last bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autocast.h>
#include <heddle/autograd.h>
#include <heddle/default_engine.h>
#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/recurrent.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;

// The last three are an lstm with peepholes, with a projection, with both, and a gru that resets before the product.
enum class Kind { tanh, relu, lstm, gru, peepholes, projected, both, reset_before };
constexpr int kKinds = 8;

struct Case {
  Kind kind;
  std::int64_t steps, batch, features, hidden;
  bool bias = true, state = true, reverse = false, batch_first = false, lengths = false;
  DType dtype = DType::f32;

  bool is_gru() const { return kind == Kind::gru || kind == Kind::reset_before; }
  bool is_lstm() const { return kind != Kind::tanh && kind != Kind::relu && !is_gru(); }
  bool projected() const { return kind == Kind::projected || kind == Kind::both; }
  bool peepholes() const { return kind == Kind::peepholes || kind == Kind::both; }
  std::int64_t gates() const { return is_lstm() ? 4 : is_gru() ? 3 : 1; }
  std::int64_t width() const { return projected() ? (hidden + 1) / 2 : hidden; }  // of h
};

NDArray fractions(Random& random, const Shape& shape, DType dtype, double scale) {
  return (small_numbers(random, shape, DType::f64) * (scale / 4)).astype(dtype);
}

// x, weight_ih, weight_hh, then in this order what the case has: biases, h, c, weight_hr, peepholes, lengths.
Arrays arrays_of(Random& random, const Case& of) {
  const std::int64_t rows = of.gates() * of.hidden;
  const double scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, of.hidden)));
  const auto made = [&](const Shape& shape, double size) { return fractions(random, shape, of.dtype, size); };
  Arrays all{
      made(of.batch_first ? Shape{of.batch, of.steps, of.features} : Shape{of.steps, of.batch, of.features},
           1),
      made({rows, of.features}, scale), made({rows, of.width()}, scale)};
  if (of.bias) all.insert(all.end(), {made({rows}, 0.5), made({rows}, 0.5)});
  if (of.state) {
    all.push_back(made({of.batch, of.width()}, 1));
    if (of.is_lstm()) all.push_back(made({of.batch, of.hidden}, 1));
  }
  if (of.projected()) all.push_back(made({of.width(), of.hidden}, scale));
  if (of.peepholes()) all.push_back(made({3 * of.hidden}, 1));
  if (of.lengths) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = 0; n < of.batch; ++n)
      lengths.push_back(
          n == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(of.steps + 1)));
    constexpr DType kIntegers[] = {DType::i64, DType::i32, DType::u8, DType::u64};
    all.push_back(array(lengths, {of.batch}).astype(kIntegers[random() % 4]));
  }
  return all;
}

// The results in a row.
NDArray call(const Case& of, const Arrays& in) {
  std::size_t at = 3;
  const auto next = [&](bool has) { return has ? in[at++] : NDArray(); };
  RecurrentWeights weights{in[1], in[2]};
  weights.ih_bias = next(of.bias);
  weights.hh_bias = next(of.bias);
  const NDArray h = next(of.state), c = next(of.state && of.is_lstm());
  weights.hr = next(of.projected());
  weights.peepholes = next(of.peepholes());
  const RecurrentOptions options{next(of.lengths), of.reverse, of.batch_first, of.kind != Kind::reset_before};
  Arrays parts;
  const auto take = [&](const auto& results) {
    for (const NDArray& one : results) parts.push_back(reshape(one, {one.size()}));
  };
  if (of.is_lstm())
    take(lstm(in[0], weights, h, c, options));
  else if (of.is_gru())
    take(gru(in[0], weights, h, options));
  else
    take(rnn(in[0], weights, h, of.kind == Kind::relu, options));
  return concat(parts);
}

// Roundings of a step, at most 1e-6 of the largest number, are multiplied in further ones.
constexpr double kFactor = 10;

TEST_CASE("recurrent networks on a GPU have the values and the gradients of the CPU") {
  Random random(1);
  const std::int64_t steps[] = {1, 2, 4, 6}, batches[] = {1, 2, 5, 33}, features[] = {1, 3, 8},
                     hidden[] = {1, 2, 8, 31, 32, 33};
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f32, DType::bf16, DType::f16};
  for (int i = 0; i < 48; ++i) {
    const auto bit = [&] { return random() % 2 == 0; };
    const auto one_of = [&](const auto& all) { return all[random() % std::size(all)]; };
    Case of{static_cast<Kind>(i % kKinds), one_of(steps), one_of(batches), one_of(features), one_of(hidden)};
    if (of.batch > 5 && of.hidden > 8) of.batch = 3;
    of.bias = bit(), of.state = bit(), of.reverse = bit(), of.batch_first = bit(), of.lengths = bit();
    of.dtype = kTypes[static_cast<std::size_t>(i) % std::size(kTypes)];
    CAPTURE(i);
    const Arrays in = arrays_of(random, of);
    CHECK(same_gradients([&](const Arrays& all) { return call(of, all); }, in, kFactor));
  }
  CHECK(problems() == "");
}

TEST_CASE("recurrent networks on a GPU with nothing to compute") {
  Random random(2);
  for (int kind = 0; kind < kKinds; ++kind) {
    const auto of_kind = static_cast<Kind>(kind);
    for (Case of : {Case{of_kind, 0, 2, 3, 4}, Case{of_kind, 3, 0, 3, 4}, Case{of_kind, 2, 2, 0, 3},
                    Case{of_kind, 2, 3, 2, 0}}) {
      CAPTURE(kind);
      of.lengths = of.batch > 0;
      const Arrays in = arrays_of(random, of);
      CHECK(same_gradients([&](const Arrays& all) { return call(of, all); }, in, kFactor));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("autocast of recurrent networks on a GPU") {
  Random random(3);
  for (int i = 0; i < 16; ++i) {
    Case of{static_cast<Kind>(i % kKinds), 4, 3, 5, 9};
    of.reverse = i % 3 == 0, of.batch_first = i % 2 == 0, of.lengths = i % 4 == 1;
    const DType dtype = i < 8 ? DType::bf16 : DType::f16;
    const auto autocast = [&](const Arrays& all) {
      const Autocast cast(dtype);
      return call(of, all);
    };
    const Arrays in = arrays_of(random, of);
    const Arrays here = with_gradients(autocast, in, cpu()), there = with_gradients(autocast, in, gpu(0));
    CAPTURE(i);
    // The products' operands are rounded to halves, sometimes to another one than the CPU's.
    for (std::size_t k = 0; k < here.size(); ++k) CHECK(near_sum(here[k], there[k], rounding_of(dtype)));
  }
  CHECK(problems() == "");
}

TEST_CASE("a recurrent network on a GPU does not read x behind the lengths") {
  Random random(4);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const bool batch_first : {false, true}) {
      Case of{static_cast<Kind>(kind), 5, 3, 2, 4};
      of.lengths = true, of.batch_first = batch_first, of.reverse = kind % 2 == 0;
      Arrays in = arrays_of(random, of);
      in.back() = array(std::vector<std::int64_t>{0, 5, 2}, {3});
      for (const std::int64_t n : {0, 2}) {
        const NDArray of_n = in[0].slice(batch_first ? 0 : 1, {n, n + 1});
        const std::int64_t first = n == 0 ? 0 : 2;
        of_n.slice(batch_first ? 1 : 0, {first, 5}).fill(std::numeric_limits<double>::quiet_NaN());
      }
      const auto call_of = [&](const Arrays& all) { return call(of, all); };
      CAPTURE(kind);
      CHECK(same_gradients(call_of, in, kFactor));
      for (const NDArray& one : with_gradients(call_of, in, gpu(0)))
        for (const double x : one.copy_to(cpu()).astype(DType::f64).to_vector<double>())
          CHECK(!std::isnan(x));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("second gradients of recurrent networks on a GPU") {
  Random random(5);
  for (const Kind kind : {Kind::lstm, Kind::gru, Kind::relu}) {
    Case of{kind, 3, 2, 2, 3};
    of.lengths = true;
    of.dtype = DType::f64;
    const Arrays in = arrays_of(random, of);
    const auto slope = [&](const Arrays& all) {
      const Arrays first = grad({sum(square(call(of, all)))}, {all[0], all[2]}, {.create_graph = true});
      return concat({reshape(first[0], {first[0].size()}), reshape(first[1], {first[1].size()})});
    };
    CHECK(same_gradients(slope, in, kFactor));
  }
  CHECK(problems() == "");
}

std::string error_of(const Case& of, const Arrays& in, Device device) {
  Arrays there;
  for (const NDArray& one : in) {
    there.push_back(one.copy_to(device));
    there.back().wait();
  }
  const std::uint64_t waits = host_waits();
  const NDArray y = call(of, there);
  CHECK(host_waits() == waits);
  try {
    y.to_vector<float>();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "no error";
}

TEST_CASE("lengths out of range fail a recurrent network on a GPU with the CPU's error") {
  Random random(6);
  Case of{Kind::gru, 4, 3, 2, 3};
  of.lengths = true;
  Arrays in = arrays_of(random, of);
  for (const auto& [lengths, dtype] : {std::pair(std::vector<std::int64_t>{4, -1, 7}, DType::i64),
                                       {{4, 4, -5}, DType::i16},
                                       {{0, 200, 5}, DType::u8},
                                       {{0, 1, -1}, DType::u64}}) {
    in.back() = array(lengths, {3}).astype(dtype);
    const std::string here = error_of(of, in, cpu());
    CHECK(here != "no error");
    CHECK(error_of(of, in, gpu(0)) == here);
  }
  CHECK(problems() == "");
}

TEST_CASE("a recurrent network on a GPU gives the same bits in each order of threads and blocks") {
  std::vector<std::vector<float>> expected;
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    reorder(seed, true, 0);
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    Random random(8);
    Case of{Kind::lstm, 4, 3, 5, 33};
    of.lengths = true;
    std::vector<std::vector<float>> found;
    for (const NDArray& one :
         with_gradients([&](const Arrays& all) { return call(of, all); }, arrays_of(random, of), gpu(0)))
      found.push_back(one.copy_to(cpu()).to_vector<float>());
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
  CHECK(problems() == "");
}

}  // namespace
