// Connectionist temporal classification on a GPU against the CPU, whose sums and exponentials differ in the last bits.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/ctc.h>
#include <heddle/default_engine.h>
#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
#include <heddle/softmax.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;
using Integers = std::vector<std::int64_t>;

// Numbers below 1/8, by which equal ones of small_numbers() differ.
NDArray fractional(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(random()) * 0x1p-67);
  return array(values, shape).astype(dtype);
}

struct Case {
  std::int64_t steps, batch, classes, longest;
  bool flat = false;
  CtcOptions options{};
  DType dtype = DType::f32;
};

std::int64_t below(Random& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
}

// Scores, targets, input_lengths, target_lengths. Many labels are repeated; some targets have no alignment.
Arrays arrays_of(Random& random, const Case& of) {
  Integers inputs, lengths, labels;
  for (std::int64_t n = 0; n < of.batch; ++n) {
    inputs.push_back(n % 3 == 0 ? of.steps : below(random, of.steps + 1));
    lengths.push_back(n % 4 == 3 ? 0 : below(random, of.longest + 1));
    for (std::int64_t i = 0; i < (of.flat ? lengths.back() : of.longest); ++i) {
      const std::int64_t label = below(random, of.classes - 1);
      labels.push_back(i > 0 && below(random, 3) == 0 ? labels.back() : label + (label >= of.options.blank));
    }
  }
  const Shape shape = of.flat ? Shape{static_cast<std::int64_t>(labels.size())} : Shape{of.batch, of.longest};
  return {small_numbers(random, {of.steps, of.batch, of.classes}, of.dtype), array(labels, shape),
          array(inputs, {of.batch}), array(lengths, {of.batch})};
}

NDArray loss_of(const Case& of, const Arrays& in) {
  return ctc_loss(log_softmax(in[0], 2), in[1], in[2], in[3], of.options);
}

TEST_CASE("the loss of CTC and its gradient on a GPU are those of the CPU") {
  Random random(1);
  const std::int64_t steps[] = {1, 4, 12, 31}, batches[] = {1, 3, 7}, classes[] = {2, 3, 8, 40},
                     longest[] = {1, 2, 5, 15};
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16};
  for (int i = 0; i < 24; ++i) {
    const auto one_of = [&](const auto& all) { return all[random() % std::size(all)]; };
    Case of{one_of(steps), one_of(batches), one_of(classes), one_of(longest)};
    of.flat = i % 2 == 0;
    of.options = {below(random, of.classes), static_cast<Reduction>(i % 3), true};
    of.dtype = kTypes[static_cast<std::size_t>(i) % 3];
    CAPTURE(i);
    CHECK(same_gradients([&](const Arrays& in) { return loss_of(of, in); }, arrays_of(random, of), 5));
  }
  CHECK(problems() == "");
}

// Roundings of f32 add up over the steps. More states than a block has threads, and than its shared memory holds.
TEST_CASE("the loss of CTC on a GPU of targets with many labels") {
  Random random(2);
  for (const std::int64_t longest : {300, 1540}) {
    Case of{longest + 3, 1, 3, longest};
    of.options.reduction = Reduction::none;
    Integers labels;
    for (std::int64_t i = 0; i < longest; ++i) labels.push_back(1 + i % 2);  // without repetitions
    const Arrays in{small_numbers(random, {of.steps, 1, 3}, DType::f32), array(labels, {1, longest}),
                    array(Integers{of.steps}, {1}), array(Integers{longest}, {1})};
    const Arrays here = with_gradients([&](const Arrays& all) { return loss_of(of, all); }, in, cpu());
    CHECK(here[0].item<float>() < 1e6);  // there are alignments
    Arrays there;
    for (const NDArray& one : in) there.push_back(one.copy_to(gpu(0)));
    CHECK(near_sum(here[0], loss_of(of, there), 50 * rounding_of(DType::f32)));
    if (longest > 1000) continue;  // the states of all steps need more memory than the tests' device has
    CHECK(same_gradients([&](const Arrays& all) { return loss_of(of, all); }, in, 50));
  }
  CHECK(problems() == "");
}

TEST_CASE("the loss of CTC on a GPU without steps, labels or alignments") {
  Random random(3);
  for (const Case& of : {Case{0, 2, 3, 2}, Case{3, 0, 3, 2}, Case{2, 3, 4, 0}, Case{4, 2, 3, 0, true}}) {
    for (const Reduction reduction : {Reduction::none, Reduction::sum}) {
      Case one = of;
      one.options.reduction = reduction;
      CHECK(same_gradients([&](const Arrays& in) { return loss_of(one, in); }, arrays_of(random, one), 5));
    }
  }
  // More labels than steps: infinity.
  const Arrays in{small_numbers(random, {2, 1, 3}, DType::f32), array(Integers{1, 2, 1}, {1, 3}),
                  array(Integers{2}, {1}), array(Integers{3}, {1})};
  CHECK(same_gradients([&](const Arrays& all) { return loss_of({2, 1, 3, 3}, all); }, in));
  CHECK(problems() == "");
}

TEST_CASE("second gradients of the loss of CTC on a GPU") {
  Random random(4);
  for (const bool flat : {false, true}) {
    Case of{6, 3, 4, 3, flat};
    of.options = {0, Reduction::none, true};
    for (const DType dtype : {DType::f64, DType::f32}) {
      of.dtype = dtype;
      const auto slope = [&](const Arrays& all) {
        return grad({sum(square(loss_of(of, all)))}, {all[0]}, {.create_graph = true})[0];
      };
      CHECK(same_gradients(slope, arrays_of(random, of), 10));
    }
  }
  CHECK(problems() == "");
}

std::string error_of(const Arrays& in, Device device) {
  Arrays there;
  for (const NDArray& one : in) {
    there.push_back(one.copy_to(device));
    there.back().wait();
  }
  const std::uint64_t waits = host_waits();
  const NDArray y = ctc_loss(there[0], there[1], there[2], there[3]);
  CHECK(host_waits() == waits);
  try {
    y.to_vector<float>();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "no error";
}

TEST_CASE("lengths and labels out of range fail CTC on a GPU with the CPU's error") {
  Random random(5);
  const NDArray x = log_softmax(small_numbers(random, {4, 3, 5}, DType::f32), 2);
  const auto padded = [](const Integers& labels) { return array(labels, {3, 2}); };
  const auto three = [](const Integers& values) { return array(values, {3}); };
  const NDArray good = padded({1, 2, 3, 4, 1, 1}), all = three({4, 4, 4}), two = three({2, 2, 2});
  for (const Arrays& in :
       {Arrays{x, good, three({4, 5, -1}), two},
        {x, good, all, three({2, 3, -1})},
        {x, good, three({-1, 4, 4}), three({-1, 2, 2})},
        {x, padded({1, 2, 0, 3, 5, 1}), all, two},
        {x, padded({1, 2, 1, 5, 1, 1}), three({4, 4, 9}), two},
        {x, padded({1, 1, 1, -7, 1, 1}), all, two},
        {x, array<std::int64_t>({1, 2, 3}), all, three({1, 2, 2})},
        {x, array<std::int64_t>({1, 2, 3, 4}), all, three({1, 1, 1})},
        {x, array<std::int64_t>({1, 2, 9, 4}), all, three({1, 1, 4})},
        {x.slice(1, {0, 0}), array<std::int64_t>({1}), all.slice(0, {0, 0}), all.slice(0, {0, 0})}}) {
    const std::string here = error_of(in, cpu());
    CHECK(here != "no error");
    CHECK(error_of(in, gpu(0)) == here);
  }
  CHECK(problems() == "");
}

TEST_CASE("decoders of CTC on a GPU find the labels that the CPU finds") {
  Random random(6);
  const std::int64_t steps[] = {0, 1, 7, 33, 70}, batches[] = {1, 4}, classes[] = {1, 2, 5, 40};
  for (int i = 0; i < 20; ++i) {
    const auto one_of = [&](const auto& all) { return all[random() % std::size(all)]; };
    const std::int64_t t = one_of(steps), n = one_of(batches), c = one_of(classes), blank = below(random, c);
    const DType dtype = i % 3 == 0 ? DType::f64 : DType::f32;
    // Every third time with few values: equal ones are chosen in the CPU's order.
    NDArray x = small_numbers(random, {t, n, c}, dtype);
    if (i % 3 != 0) x = log_softmax(x + fractional(random, {t, n, c}, dtype), 2);
    NDArray lengths;
    if (i % 2 == 0) {
      Integers all;
      for (std::int64_t k = 0; k < n; ++k) all.push_back(below(random, t + 1));
      lengths = array(all, {n});
    }
    const NDArray there = x.copy_to(gpu(0)),
                  lengths_there = lengths.defined() ? lengths.copy_to(gpu(0)) : lengths;
    CAPTURE(i);
    const auto greedy = ctc_greedy_decode(x, lengths, blank),
               other = ctc_greedy_decode(there, lengths_there, blank);
    for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(greedy[k], other[k]));
    if (t > 33) continue;
    const std::int64_t beam = i % 4 == 0 ? 1 : i % 4 == 1 ? 20 : 4;
    const auto here = ctc_beam_search(x, lengths, beam, blank),
               found = ctc_beam_search(there, lengths_there, beam, blank);
    for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(here[k], found[k]));
    CHECK(near_sum(here[2], found[2], rounding_of(dtype)));
  }
  CHECK(problems() == "");
}

TEST_CASE("decoders of CTC on a GPU with NaN, huge beams, and lengths out of range") {
  Random random(7);
  NDArray x = small_numbers(random, {6, 2, 3}, DType::f32);
  x.slice(0, {1, 2}).slice(2, {0, 1}).fill(std::numeric_limits<double>::quiet_NaN());
  x.slice(0, {3, 4}).slice(2, {1, 2}).fill(std::numeric_limits<double>::quiet_NaN());
  x.slice(0, {4, 5}).slice(2, {1, 2}).fill(-std::numeric_limits<double>::infinity());
  const NDArray there = x.copy_to(gpu(0));
  const auto here = ctc_greedy_decode(x), other = ctc_greedy_decode(there);
  for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(here[k], other[k]));
  for (const std::int64_t beam : {std::int64_t{3}, std::int64_t{1} << 40}) {
    const auto all = ctc_beam_search(x, {}, beam), found = ctc_beam_search(there, {}, beam);
    for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(all[k], found[k]));
    CHECK(near_sum(all[2], found[2], 1e-6));
  }
  const NDArray lengths = array<std::int64_t>({6, 7}).copy_to(gpu(0));
  CHECK_THROWS_WITH_AS(
      ctc_greedy_decode(there, lengths)[0].to_vector<std::int64_t>(),
      doctest::Contains("ctc_greedy_decode: the input length of sequence 1 is 7; want 0 to 6"),
      InvalidArgument);
  CHECK_THROWS_WITH_AS(ctc_beam_search(there, lengths)[1].to_vector<std::int64_t>(),
                       doctest::Contains("ctc_beam_search: the input length of sequence 1 is 7; want 0 to 6"),
                       InvalidArgument);
  CHECK(problems() == "");
}

TEST_CASE("the loss of CTC on a GPU gives the same bits in each order of threads and blocks") {
  std::vector<std::vector<float>> expected;
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    reorder(seed, true, 0);
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    Random random(8);
    const Case of{9, 4, 6, 4};
    std::vector<std::vector<float>> found;
    for (const NDArray& one :
         with_gradients([&](const Arrays& all) { return loss_of(of, all); }, arrays_of(random, of), gpu(0)))
      found.push_back(one.copy_to(cpu()).to_vector<float>());
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
  CHECK(problems() == "");
}

}  // namespace
