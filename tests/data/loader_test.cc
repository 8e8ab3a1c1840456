// Loaders: order, resumption, ranks, buckets, errors, early ends, memory.
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/graph.h>
#include <heddle/ops.h>
#include <heddle/random.h>
#include <heddle/storage.h>

#include "arguments.h"
#include "message_of.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Examples 0 .. size-1: the number itself, and the list 0 .. n-1 with n between 1 and 7.
class Lists : public Dataset {
 public:
  explicit Lists(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::vector<ExampleArray> arrays() const override { return {{DType::i64, {}}, {DType::f32, {kInferred}}}; }
  static std::int64_t length_of(std::int64_t index) { return 1 + index * 5 % 7; }
  std::int64_t length(std::int64_t index) const override { return length_of(index); }
  Example read(std::int64_t index) const override {
    std::vector<float> values(static_cast<std::size_t>(length_of(index)));
    std::iota(values.begin(), values.end(), 0.0f);
    return {full({}, index, DType::i64), array(values, {length_of(index)})};
  }

 private:
  std::int64_t size_;
};

// Numbers by themselves; those in `bad` cannot be read.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size, std::set<std::int64_t> bad = {}) : size_(size), bad_(std::move(bad)) {}
  std::int64_t size() const override { return size_; }
  std::vector<ExampleArray> arrays() const override { return {{DType::i64, {2}}}; }
  Example read(std::int64_t index) const override {
    if (bad_.count(index)) throw Error("file 'numbers': offset " + std::to_string(8 * index) + ": damaged");
    return {array(std::vector<std::int64_t>{index, -index}, {2})};
  }

 private:
  std::int64_t size_;
  std::set<std::int64_t> bad_;
};

// Lists without elements.
class Empty : public Dataset {
 public:
  explicit Empty(DType dtype) : dtype_(dtype) {}
  std::int64_t size() const override { return 2; }
  std::vector<ExampleArray> arrays() const override { return {{dtype_, {kInferred}}}; }
  Example read(std::int64_t) const override { return {NDArray({0}, dtype_)}; }

 private:
  DType dtype_;
};

ArrayDataset numbers(std::int64_t size) { return ArrayDataset({arange(size, DType::i64), ones({size, 3})}); }

// Fisher and Yates' shuffle with one Philox block a step.
std::vector<std::int64_t> shuffled(std::int64_t size, std::uint32_t seed, std::uint32_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = size - 1; i > 0; --i) {
    const auto words = philox({static_cast<std::uint32_t>(i), 1u << 24, epoch, 0}, {seed, 0});
    const double share = (static_cast<double>(words[0]) + words[1] * 0x1p-32) * 0x1p-32;
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(share * static_cast<double>(i + 1))]);
  }
  return order;
}

std::vector<std::int64_t> rest_of_epoch(Loader& loader) {
  std::vector<std::int64_t> result;
  for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
    for (const std::int64_t value : batch[0].to_vector<std::int64_t>()) result.push_back(value);
  }
  return result;
}

std::vector<std::int64_t> epoch_of(Loader& loader, std::int64_t epoch, std::int64_t first = 0) {
  loader.start(epoch, first);
  return rest_of_epoch(loader);
}

}  // namespace

TEST_CASE("an epoch's order follows from the seed and the epoch alone") {
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    for (const int ahead : {0, 1, 7}) {
      Loader loader(numbers(101), {.batch = 8, .shuffle = true, .seed = 5, .ahead = ahead});
      CHECK(loader.size() == 13);
      CHECK(rest_of_epoch(loader) == shuffled(101, 5, 0));
      CHECK(loader.next().empty());
      CHECK(epoch_of(loader, 3) == shuffled(101, 5, 3));
      CHECK(epoch_of(loader, 0) == shuffled(101, 5, 0));
    }
    Loader plain(numbers(10), {.batch = 4, .drop_last = true});
    CHECK(epoch_of(plain, 1) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  });
}

TEST_CASE("an epoch goes on at each batch with the same bits, augmentations too") {
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    Generator generator(3);
    const NDArray images = generator.integers({23, 3, 8, 6}, 0, 256, DType::u8);
    const Augmentation change{
        .padding = 2, .crop = {8, 6}, .flip = 0.5, .mean = {0.4}, .std = {0.2}, .erase = 0.5};
    Loader loader(ArrayDataset({images, arange(23)}),
                  {.batch = 4, .shuffle = true, .seed = 9, .ahead = 3, .augment = change});
    std::vector<std::vector<float>> batches;
    loader.start(2);
    for (auto batch = loader.next(); !batch.empty(); batch = loader.next())
      batches.push_back(batch[0].to_vector<float>());
    CHECK(batches.size() == 6);
    CHECK(batches[0].size() == 4 * 3 * 8 * 6);
    for (std::int64_t first = 0; first <= loader.size(); ++first) {
      loader.start(2, first);
      CHECK(loader.position() == first);
      for (std::int64_t i = first; i < loader.size(); ++i)
        CHECK(loader.next()[0].to_vector<float>() == batches[static_cast<std::size_t>(i)]);
      CHECK(loader.next().empty());
    }
    // The oracle: each image by itself.
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t index = loader.indices(2, 0)[static_cast<std::size_t>(i)];
      const std::vector<float> wanted =
          augment(change, images[index], ExampleRandom(9, 2, index)).to_vector<float>();
      CHECK(std::equal(wanted.begin(), wanted.end(), batches[0].begin() + i * 3 * 8 * 6));
    }
  });
}

TEST_CASE("ranks share an epoch: all examples, in batches of equal number") {
  for (const std::int64_t size : {1, 5, 12, 13}) {
    for (const int ranks : {1, 2, 3, 8}) {
      std::multiset<std::int64_t> seen, dropped;
      for (int rank = 0; rank < ranks; ++rank) {
        LoaderOptions options{.batch = 2, .shuffle = true, .seed = 1, .rank = rank, .ranks = ranks};
        Loader loader(numbers(size), options);
        const std::int64_t each = (size + ranks - 1) / ranks;
        CHECK(loader.size() == (each + 1) / 2);
        const std::vector<std::int64_t> got = rest_of_epoch(loader);
        CHECK(static_cast<std::int64_t>(got.size()) == each);
        const std::vector<std::int64_t> order = shuffled(size, 1, 0);
        for (std::int64_t i = 0; i < each; ++i)
          CHECK(got[static_cast<std::size_t>(i)] ==
                order[static_cast<std::size_t>((i * ranks + rank) % size)]);
        seen.insert(got.begin(), got.end());
        options.remainder = Remainder::drop;
        if (size < ranks) {
          CHECK_THROWS_AS(Loader(numbers(size), options), InvalidArgument);
          continue;
        }
        Loader less(numbers(size), options);
        for (const std::int64_t value : rest_of_epoch(less)) dropped.insert(value);
      }
      for (std::int64_t i = 0; i < size; ++i) CHECK(seen.count(i) >= 1);
      CHECK(static_cast<std::int64_t>(dropped.size()) == size / ranks * ranks);
      for (const std::int64_t value : dropped) CHECK(dropped.count(value) == 1);
    }
  }
}

TEST_CASE("sizes that vary are padded, and their lengths are an output") {
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    Loader loader(Lists(20), {.batch = 6, .pad = {0, -1}, .pad_multiple = 4});
    CHECK(loader.arrays().size() == 3);
    loader.start(0);
    std::int64_t index = 0;
    for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
      REQUIRE(batch.size() == 3);
      const std::int64_t count = batch[0].size(), width = batch[1].size(1);
      const auto lengths = batch[2].to_vector<std::int64_t>();
      CHECK(width % 4 == 0);
      CHECK(width < *std::max_element(lengths.begin(), lengths.end()) + 4);
      const auto values = batch[1].to_vector<float>();
      for (std::int64_t i = 0; i < count; ++i, ++index) {
        CHECK(lengths[static_cast<std::size_t>(i)] == Lists::length_of(index));
        for (std::int64_t k = 0; k < width; ++k)
          CHECK(values[static_cast<std::size_t>(i * width + k)] ==
                (k < Lists::length_of(index) ? static_cast<float>(k) : -1));
      }
    }
    CHECK(index == 20);
  });
}

TEST_CASE("buckets have batches of similar lengths, and all examples") {
  for (const int ranks : {1, 2}) {
    std::multiset<std::int64_t> seen;
    std::int64_t padding = 0, plain_padding = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      LoaderOptions options{.batch = 8, .shuffle = true, .seed = 4, .rank = rank, .ranks = ranks};
      const auto count = [&](Loader& loader, bool keep) {
        std::int64_t waste = 0;
        for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
          const auto lengths = batch[2].to_vector<std::int64_t>();
          waste += batch[1].size() - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
          if (!keep) continue;
          for (const std::int64_t value : batch[0].to_vector<std::int64_t>()) seen.insert(value);
        }
        return waste;
      };
      Loader plain(Lists(202), options);
      plain_padding += count(plain, false);
      options.bucket_by_length = 100;
      Loader loader(Lists(202), options);
      padding += count(loader, true);
      const auto whole = epoch_of(loader, 3), again = epoch_of(loader, 4);
      CHECK(whole != again);
      CHECK(epoch_of(loader, 3, 2) == std::vector<std::int64_t>(whole.begin() + 16, whole.end()));
    }
    CHECK(seen.size() == 202);
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 202);
    CHECK(padding * 4 < plain_padding);
  }
  CHECK(message_of([] { Loader(numbers(4), {.bucket_by_length = 2}); }) ==
        "Loader: bucket_by_length needs the dataset's length(index), which is -1 for example 0");
}

TEST_CASE("an example that cannot be read is the error of its batch alone") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    Loader loader(Numbers(12, {5, 6}), {.batch = 4});
    CHECK(loader.next()[0].to_vector<std::int64_t>()[2] == 1);
    const std::vector<NDArray> bad = loader.next();
    CHECK(message_of([&] { bad[0].wait(); }) ==
          "Loader: epoch 0, batch 1, example 5: file 'numbers': offset 40: damaged");
    CHECK(message_of([&] { (bad[0] + 1).wait(); }).find("offset 40") != std::string::npos);
    CHECK(loader.next()[0].to_vector<std::int64_t>()[0] == 8);
    Loader skipping(Numbers(12, {5, 6, 11}), {.batch = 4, .skip_bad = true});
    const NDArray all = concat({skipping.next()[0], skipping.next()[0], skipping.next()[0]});
    const auto values = all.to_vector<std::int64_t>();
    std::vector<std::int64_t> firsts;
    for (std::size_t i = 0; i < values.size(); i += 2) firsts.push_back(values[i]);
    CHECK(firsts == std::vector<std::int64_t>{0, 1, 2, 3, 4, 7, 7, 7, 8, 9, 10, 0});
    CHECK(skipping.skipped() == 4);
  });
  std::set<std::int64_t> all;
  for (std::int64_t i = 0; i < 200; ++i) all.insert(i);
  Loader none(Numbers(200, all), {.batch = 1, .ahead = 0, .skip_bad = true});
  CHECK(message_of([&] { none.next()[0].wait(); }).find("example 99: file 'numbers'") != std::string::npos);
}

TEST_CASE("an error in a batch whose sizes vary is thrown by next, which then goes on") {
  class Broken : public Lists {
   public:
    using Lists::Lists;
    Example read(std::int64_t index) const override {
      if (index == 3) throw std::runtime_error("no such list");
      return Lists::read(index);
    }
  };
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    Loader loader(Broken(8), {.batch = 2});
    CHECK(loader.next()[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
    CHECK(message_of([&] { loader.next(); }) == "Loader: epoch 0, batch 1, example 3: no such list");
    CHECK(loader.next()[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5});
  });
}

TEST_CASE("examples unlike the dataset's description are errors") {
  class Wrong : public Numbers {
   public:
    using Numbers::Numbers;
    Example read(std::int64_t) const override { return {ones({3})}; }
  };
  Loader loader(Wrong(2), {.batch = 2});
  CHECK(message_of([&] { loader.next()[0].wait(); }) ==
        "Loader: epoch 0, batch 0, example 0: array 0 is f32 (3,); the dataset says i64 (2,), where -1 is "
        "any size");
}

TEST_CASE("examples may be computed by operators, and arrays changed after batches were asked for") {
  class Computed : public Numbers {
   public:
    using Numbers::Numbers;
    Example read(std::int64_t index) const override { return {Numbers::read(index)[0] * 2 + 1}; }
  };
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    Loader loader(Computed(40), {.batch = 20, .ahead = 2});
    CHECK(rest_of_epoch(loader)[38] == 39);
    const NDArray values = arange(60, DType::u8).reshape({6, 1, 1, 10}).copy();
    Loader changing(ArrayDataset({values}),
                    {.batch = 3, .ahead = 2, .augment = Augmentation{.crop = {1, 10}}});
    const std::vector<NDArray> first = changing.next(), second = changing.next();
    values.fill(7);
    CHECK(first[0].to_vector<std::uint8_t>()[29] == 29);
    CHECK(second[0].to_vector<std::uint8_t>()[0] == 30);
  });
}

TEST_CASE("loaders are left early, and batches outlive them") {
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    std::vector<NDArray> kept;
    std::shared_ptr<const Dataset> dataset = std::make_shared<Numbers>(1000);
    for (int i = 0; i < 20; ++i) {
      Loader loader(dataset, {.batch = 10, .shuffle = true, .ahead = 9});
      for (int k = 0; k < i % 4; ++k) kept.push_back(loader.next()[0]);
      if (i % 3 == 0) loader.start(1, 4);
      if (i % 2 == 0) kept.push_back(loader.next()[0]);
    }
    for (const NDArray& array : kept) CHECK(array.to_vector<std::int64_t>().size() == 20);
    engine.wait_all();
    CHECK(dataset.use_count() == 1);
  });
}

TEST_CASE("no dataset is read behind the end of its loader") {
  class Watched : public Numbers {
   public:
    Watched(std::atomic<bool>* over, std::atomic<int>* late) : Numbers(1000), over_(over), late_(late) {}
    Example read(std::int64_t index) const override {
      Example example = Numbers::read(index);
      if (*over_) ++*late_;
      return example;
    }

   private:
    std::atomic<bool>* over_;
    std::atomic<int>* late_;
  };
  Engine engine({.scheduler = Scheduler::threaded, .workers = 4});
  const EngineScope scope(engine);
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> over{false};
    std::atomic<int> late{0};
    {
      Loader loader(Watched(&over, &late), {.batch = 20, .ahead = 6});
      loader.next()[0].wait();
    }
    over = true;
    engine.wait_all();
    CHECK(late == 0);
  }
}

TEST_CASE("fifty epochs take no more memory than one") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  Loader fixed(ArrayDataset({ones({64, 100}), arange(64)}), {.batch = 8, .shuffle = true});
  Loader varying(Lists(64), {.batch = 8, .shuffle = true, .bucket_by_length = 4});
  std::size_t after_first = 0;
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    for (Loader* loader : {&fixed, &varying}) {
      loader->start(epoch);
      for (auto batch = loader->next(); !batch.empty(); batch = loader->next()) batch[0].wait();
    }
    engine.wait_all();
    if (epoch == 0) after_first = cpu_allocator_stats().in_use;
    CHECK(cpu_allocator_stats().in_use <= after_first);
  }
}

TEST_CASE("a push that fails loses no batch") {
  class Huge : public Numbers {
   public:
    using Numbers::Numbers;
    std::vector<ExampleArray> arrays() const override { return {{DType::i64, {std::int64_t{1} << 61}}}; }
  };
  Loader loader(Huge(8), {.batch = 8});
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS(loader.next());
    CHECK(loader.position() == 0);
  }
  Loader wide(numbers(10), {.batch = std::int64_t{1} << 40, .ranks = 1 << 20});
  CHECK(wide.next()[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0});
  CHECK(wide.next().empty());
  CHECK(Loader(numbers(3), {.batch = std::int64_t{1} << 40}).indices(0, 0).size() == 3);
}

TEST_CASE("next in a capture is refused, and takes no batch") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  Loader fixed(numbers(8), {.batch = 2}), varying(Lists(8), {.batch = 2});
  for (Loader* loader : {&fixed, &varying}) {
    loader->next();
    std::string message;
    engine.capture([&] { message = message_of([&] { loader->next(); }); });
    CHECK(message ==
          "Loader: next() in a capture would give the same batch in each launch; pass the batch to the step");
    CHECK(loader->position() == 1);
    CHECK(rest_of_epoch(*loader) == std::vector<std::int64_t>{2, 3, 4, 5, 6, 7});
  }
}

TEST_CASE("wait takes no batch, and drop loses none") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    Loader loader(Lists(6), {.batch = 2});
    loader.wait();
    CHECK(loader.position() == 0);
    CHECK(loader.next()[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
    loader.drop();
    CHECK(rest_of_epoch(loader) == std::vector<std::int64_t>{2, 3, 4, 5});
    loader.wait();
    CHECK(loader.next().empty());
  });
}

TEST_CASE("skip_bad passes over no error that derives from NeverSkipped") {
  struct Over : Error, NeverSkipped {
    Over() : Error("over") {}
  };
  class Ending : public Numbers {
   public:
    using Numbers::Numbers;
    Example read(std::int64_t index) const override {
      if (index == 1) throw Over();
      return Numbers::read(index);
    }
  };
  Loader loader(Ending(4), {.batch = 4, .skip_bad = true});
  CHECK(message_of([&] { loader.next()[0].wait(); }) == "over");
  CHECK(loader.skipped() == 0);
}

TEST_CASE("bad options are refused") {
  const auto message = [](LoaderOptions options) { return message_of([&] { Loader(numbers(4), options); }); };
  CHECK(message({.batch = 0}) == "Loader: batch is 0; wanted 1 to 1099511627776");
  CHECK(message({.rank = 2, .ranks = 2}) == "Loader: rank is 2; wanted 0 to 1");
  CHECK(message({.ahead = -1}) == "Loader: ahead is -1; wanted 0 to 1024");
  CHECK(message({.batch = 5, .drop_last = true}) ==
        "Loader: no batch: the dataset has 4 examples, for 1 ranks and batches of 5");
  CHECK(message({.pad = {1, 2, 3}}) == "Loader: pad has 3 values; examples have 2 arrays");
  CHECK(message({.pad = {0.5, -1}}) == "no error");  // no sizes vary
  for (const auto& [dtype, pad, shown] :
       std::initializer_list<std::tuple<DType, double, const char*>>{{DType::u8, -1, "-1"},
                                                                     {DType::boolean, 2, "2"},
                                                                     {DType::i64, std::nan(""), "nan"},
                                                                     {DType::i32, 1e30, "1e+30"},
                                                                     {DType::i64, 1.5, "1.5"},
                                                                     {DType::i64, 0x1p63, "9.22337e+18"},
                                                                     {DType::f16, 1e6, "1e+06"}}) {
    CHECK(message_of([&] { Loader(Empty(dtype), {.pad = {pad}}); }) ==
          std::string("Loader: pad value 0 is ") + shown + "; wanted one that " + name_of(dtype) +
              " has, the dtype of array 0");
  }
  for (const auto& [dtype, pad] : std::initializer_list<std::pair<DType, double>>{{DType::u8, 255},
                                                                                  {DType::boolean, 1},
                                                                                  {DType::i64, -0x1p63},
                                                                                  {DType::f32, 0.1},
                                                                                  {DType::f16, std::nan("")},
                                                                                  {DType::bf16, -INFINITY}})
    CHECK(message_of([&] { Loader(Empty(dtype), {.pad = {pad}}); }) == "no error");
  CHECK(message({.augment = Augmentation{}, .augment_array = 2}) ==
        "Loader: augment_array is 2; wanted 0 to 1");
  Loader loader(numbers(4), {.batch = 2});
  CHECK(message_of([&] { loader.start(-1); }) == "Loader: start: epoch is -1; wanted 0 or more");
  CHECK(message_of([&] { loader.start(0, 3); }) == "Loader: start: first is 3; wanted 0 to 2");
  CHECK(rest_of_epoch(loader) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(message_of([] { Loader(std::shared_ptr<Dataset>(), {}); }) == "Loader: dataset is a null pointer");
}

TEST_CASE("Loader: batches on another device, ahead or not, also of sizes that vary") {
  for (const int ahead : {0, 3}) {
    const NDArray x = arange(20).view({10, 2}), y = arange(10);
    Loader loader(ArrayDataset({x, y}), {.batch = 4, .ahead = ahead, .arrays = {1, 0, 1}, .device = cpu(1)});
    std::int64_t row = 0;
    for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
      for (const NDArray& one : batch) CHECK(one.device() == cpu(1));
      CHECK(batch[0].storage() == batch[2].storage());
      const std::int64_t end = row + batch[0].size();
      CHECK(batch[0].to_vector<float>() == y.slice(0, {row, end}).to_vector<float>());
      CHECK(batch[1].to_vector<float>() == x.slice(0, {row, end}).to_vector<float>());
      row = end;
    }
    CHECK(row == 10);
    Loader lists(Lists(9), {.batch = 4, .ahead = ahead, .device = cpu(1)}), here(Lists(9), {.batch = 4});
    for (auto batch = lists.next(); !batch.empty(); batch = lists.next()) {
      const auto wanted = here.next();
      REQUIRE(batch.size() == 3);
      for (const NDArray& one : batch) CHECK(one.device() == cpu(1));
      CHECK(batch[1].to_vector<float>() == wanted[1].to_vector<float>());
      CHECK(batch[2].to_vector<std::int64_t>() == wanted[2].to_vector<std::int64_t>());
    }
  }
  CHECK(message_of<InvalidArgument>([] {
          Loader loader(ArrayDataset({ones({4})}), {.device = gpu(77)});
        }).starts_with("Loader: device is gpu(77): "));
}
