// Loader: batches of a dataset, read by ops of the engine while the program computes.
//
//   Loader loader(ArrayDataset({images, labels}), {.batch = 64, .shuffle = true, .seed = 1});
//   for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
//     loader.start(epoch);
//     for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) train(batch[0], batch[1]);
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <heddle/batches.h>
#include <heddle/data/augmentation.h>
#include <heddle/data/dataset.h>

namespace heddle {

// What ranks do with the examples that are left if their number does not divide by `ranks`.
enum class Remainder {
  wrap,  // some examples of the epoch's beginning come again, as with PyTorch's DistributedSampler
  drop,  // those are left out of this epoch; others in the next, with shuffle
};

struct LoaderOptions {
  std::int64_t batch = 32;  // examples of a batch, on each rank
  bool shuffle =
      false;  // a new order in each epoch, which follows from the seed and the epoch's number alone
  std::uint64_t seed = 0;   // of the order and of augmentations; the same on all ranks
  int rank = 0, ranks = 1;  // this loader gives every `ranks`-th example of the epoch's order, from `rank` on
  Remainder remainder = Remainder::wrap;
  bool drop_last = false;  // leaves out the last batch where it is smaller
  int ahead = 4;           // batches that are read before next() asks for them; 0 to 1024
  // Batches of similar lengths (Dataset::length): the order is cut into pieces of so many batches, each is sorted by
  // length, and its batches are shuffled. 0: off.
  std::int64_t bucket_by_length = 0;
  // Arrays with sizes that are kInferred are padded at the end to the batch's largest, with pad[i] in array i (0 where the
  // list is shorter); sizes are rounded up to a multiple of pad_multiple. Behind the arrays a batch then has the
  // lengths of each such array: i64 (batch), or (batch, k) if k of its sizes vary.
  std::vector<double> pad = {};
  std::int64_t pad_multiple = 1;
  // Which arrays a batch has, in this order, by their numbers among the dataset's and the lengths behind them; one that comes
  // several times is one array, no copies. For fit(), which wants labels last: {0, 2, 1} of (tokens, labels, lengths). Empty: all.
  std::vector<int> arrays = {};
  // Changes array `augment_array`, an image (C, H, W).
  std::optional<Augmentation> augment = {};
  int augment_array = 0;
  // An example that cannot be read is replaced by the one behind it in the dataset, and counted; a hundred in a row are
  // an error. OutOfMemory and errors that derive from NeverSkipped stay errors.
  bool skip_bad = false;
  // Where next() gives the arrays. For a GPU they are read into page-locked memory, and copied while earlier batches are computed;
  // where sizes vary, the copy begins in next().
  Device device = cpu();
};

namespace data_detail {
struct LoaderState;
struct PendingBatch;
}  // namespace data_detail

// The batches of a dataset. Each is made by one op, which uses all idle workers; a loader has no threads of its own. What a
// batch holds does not depend on workers, `ahead`, or on what was read before.
//
// Where all sizes are known, next() returns at once. An error of read() is that of the batch's arrays. Where sizes
// vary, next() waits for its batch, and throws that error; the next call gives the batch behind it.
class Loader : public Batches {
 public:
  // Throws InvalidArgument for bad options, and without batches of at least one example.
  explicit Loader(AnyDataset dataset, LoaderOptions options = {}, Where where = Where::current());
  // Batches that nobody has asked for are dropped. What a dataset refers to, but does not own, lives until the
  // batches that next() gave are computed.
  ~Loader() override;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::int64_t size() const override;  // the same on all ranks
  // Drops what was read ahead. Throws InvalidArgument for an epoch below 0, or `first` outside of 0 .. size().
  void start(std::int64_t epoch, std::int64_t first = 0) override;
  // Before the first start(): batches of epoch 0. After the last batch: no arrays, until the next start().
  // If a batch that is read ahead cannot be begun, as without memory, that is thrown, and the next call tries again. In a
  // capture: Error.
  std::vector<NDArray> next() override;
  void drop();  // drops what was read ahead; next() reads it again
  // Blocks until next() would return at once. An error is that of next().
  void wait();

  std::int64_t epoch() const;     // of start()
  std::int64_t position() const;  // number of the batch that next() gives: for start() in a later run
  // The dataset's examples in a batch, replacements of skip_bad aside.
  std::vector<std::int64_t> indices(std::int64_t epoch, std::int64_t batch) const;
  std::vector<ExampleArray> arrays() const;  // those of a batch, without axis 0
  std::int64_t skipped() const;  // examples that were bad, in all batches so far; may count some read ahead
  const LoaderOptions& options() const;
  bool is_idle() const;  // whether no op that reads the dataset is under way

 private:
  void push(std::int64_t batch);
  bool read_ahead(std::size_t count);  // whether there is a next batch
  std::shared_ptr<data_detail::LoaderState> state_;
};

}  // namespace heddle
