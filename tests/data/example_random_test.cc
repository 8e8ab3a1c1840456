// Random numbers of examples: augmentation of one's own, in datasets and maps; which arrays a batch has.
#include <atomic>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/ops.h>

#include "message_of.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Lists of random lengths, which grow with the epoch: {number, random values}.
class Noisy : public Dataset {
 public:
  std::int64_t size() const override { return 23; }
  std::vector<ExampleArray> arrays() const override { return {{DType::i64, {}}, {DType::f64, {kInferred}}}; }
  Example read(std::int64_t index) const override {
    ExampleRandom random(0, 0, index);
    return read_with(index, random);
  }
  Example read_with(std::int64_t index, ExampleRandom& random) const override {
    std::vector<double> values;
    for (std::int64_t i = random.integer(4) + random.epoch(); i >= 0; --i) values.push_back(random.uniform());
    const auto count = static_cast<std::int64_t>(values.size());
    return {full({}, index, DType::i64), array(values, {count})};
  }
};

using Batch = std::vector<std::vector<double>>;

std::vector<Batch> rest_of(Loader& loader) {
  std::vector<Batch> all;
  for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
    Batch one;
    for (const NDArray& array : batch) one.push_back(array.astype(DType::f64).to_vector<double>());
    all.push_back(one);
  }
  return all;
}

Example with_noise(Example example, ExampleRandom& random) {
  return {example[0].astype(DType::f64) + random.uniform()};
}

}  // namespace

TEST_CASE("the random numbers of an example are those of a block cipher, and say where they are from") {
  ExampleRandom random(7, 3, 11), again(7, 3, 11), other(7, 4, 11);
  CHECK(random.seed() == 7);
  CHECK(random.epoch() == 3);
  CHECK(random.index() == 11);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    const double value = random.uniform();
    CHECK(value == again.uniform());
    CHECK(value >= 0);
    CHECK(value < 1);
    sum += value;
  }
  CHECK(sum / 1000 == doctest::Approx(0.5).epsilon(0.06));
  CHECK(again.bits() != other.bits());
  ExampleRandom copy = random;
  CHECK(copy.integer(1000) == random.integer(1000));
  CHECK(message_of([&] { random.integer(0); }) == "ExampleRandom::integer: below is 0; wanted 1 or more");
}

TEST_CASE("datasets that draw give the same in an epoch, on any workers and from any batch on") {
  std::vector<std::vector<Batch>> wanted;
  on_every_scheduler([&](Engine& engine) {
    const EngineScope scope(engine);
    for (const int ahead : {0, 5}) {
      Loader loader(Noisy(), {.batch = 4, .shuffle = true, .seed = 9, .ahead = ahead});
      std::vector<std::vector<Batch>> epochs;
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        loader.start(epoch);
        epochs.push_back(rest_of(loader));
      }
      CHECK(epochs[0] != epochs[1]);
      if (wanted.empty()) wanted = epochs;
      CHECK(epochs == wanted);
      loader.start(1, 3);
      CHECK(rest_of(loader) == std::vector<Batch>(wanted[1].begin() + 3, wanted[1].end()));
    }
  });
  // A serial computation of the second epoch.
  Loader loader(Noisy(), {.batch = 4, .shuffle = true, .seed = 9});
  const auto indices = loader.indices(1, 2);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ExampleRandom random(9, 1, indices[i]);
    const Example example = Noisy().read_with(indices[i], random);
    const auto values = example[1].to_vector<double>();
    CHECK(wanted[1][2][2][i] == static_cast<double>(values.size()));
    const std::size_t width = wanted[1][2][1].size() / indices.size();
    for (std::size_t k = 0; k < values.size(); ++k) CHECK(wanted[1][2][1][i * width + k] == values[k]);
  }
}

TEST_CASE("maps, subsets and concatenations pass the numbers on, and each draws further ones") {
  const ArrayDataset zeros_of({zeros({6}, DType::f64)});
  const std::vector<ExampleArray> arrays{{DType::f64, {}}};
  const MapDataset once(zeros_of, with_noise, arrays);
  const MapDataset twice(Subset(ConcatDataset({once, once}), {7, 2, 2}), with_noise, arrays);
  Loader loader(twice, {.batch = 3, .seed = 5});
  loader.start(2);
  const auto values = loader.next()[0].to_vector<double>();
  for (std::int64_t i = 0; i < 3; ++i) {
    ExampleRandom random(5, 2, i);
    const double first = random.uniform(), second = random.uniform();
    CHECK(values[static_cast<std::size_t>(i)] == first + second);
    CHECK(first != second);
  }
  ExampleRandom plain(0, 0, 4);
  CHECK(once.read(4)[0].item<double>() == plain.uniform());
  CHECK(message_of([&] { MapDataset(zeros_of, MapDataset::RandomFunction(), arrays); }) ==
        "MapDataset: fn is empty; wanted a function");
}

TEST_CASE("an augmentation goes on behind the numbers that the dataset has drawn, and skip_bad begins anew") {
  const std::vector<ExampleArray> arrays{{DType::u8, {1, 4, 4}}};
  const NDArray images = arange(6 * 16, DType::i64).astype(DType::u8).view_as({6, 1, 4, 4});
  std::atomic<int> reads{0};
  const MapDataset drawing(
      ArrayDataset({images}),
      [&](Example example, ExampleRandom& random) {
        ++reads;
        random.uniform();
        if (random.index() == 3) throw Error("no 3");
        return example;
      },
      arrays);
  const Augmentation change{.crop = {2, 2}};
  Loader loader(drawing, {.batch = 6, .seed = 4, .augment = change, .skip_bad = true});
  loader.start(1);
  const NDArray batch = loader.next()[0];
  const std::vector<std::int64_t> read{0, 1, 2, 4, 4, 5};
  for (std::size_t i = 0; i < read.size(); ++i) {
    ExampleRandom random(4, 1, read[i]);
    random.uniform();
    CHECK(batch[static_cast<std::int64_t>(i)].to_vector<std::uint8_t>() ==
          augment(change, images[read[i]], random).to_vector<std::uint8_t>());
  }
  CHECK(reads == 7);
  CHECK(loader.skipped() == 1);
}

TEST_CASE("a batch has the arrays that are wanted, in their order") {
  Loader plain(Noisy(), {.batch = 4}), ordered(Noisy(), {.batch = 4, .arrays = {1, 2, 0, 2}});
  CHECK(ordered.arrays().size() == 4);
  CHECK(ordered.arrays()[0].dtype == DType::f64);
  CHECK(ordered.arrays()[1].shape.size() == 0);
  const auto all = rest_of(plain), chosen = rest_of(ordered);
  REQUIRE(all.size() == chosen.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(chosen[i] == Batch{all[i][1], all[i][2], all[i][0], all[i][2]});
  Loader fixed(ArrayDataset({arange(5, DType::i64), ones({5})}), {.batch = 5, .arrays = {1}});
  CHECK(fixed.next().size() == 1);
  CHECK(message_of([] { Loader(Noisy(), {.arrays = {0, 3}}); }) == "Loader: arrays[1] is 3; wanted 0 to 2");
  CHECK(message_of([] { Loader(Noisy(), {.arrays = {-1}}); }) == "Loader: arrays[0] is -1; wanted 0 to 2");
}
