// ArrayBatches: batches of arrays that are in memory.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/batches.h>
#include <heddle/call_site.h>

namespace heddle {

struct ArrayBatchesOptions {
  std::int64_t batch = 32;  // rows of a batch, of all ranks together
  bool shuffle = false;     // a new order in each epoch, which `seed` and the epoch's number alone decide
  std::uint64_t seed = 0;
  bool drop_last = false;  // leaves out the last batch of an epoch if it has fewer rows
  // The rows `rank`, `rank` + `ranks` ... of each batch. All ranks get as many rows: the last batch of an epoch is cut to a
  // multiple of `ranks`, unless it is `uneven`.
  int rank = 0, ranks = 1;
  bool uneven =
      false;  // no row is left out, and a rank may have a row, or a batch, more than another: to evaluate
};

// Rows of `arrays` along axis 0, of which all have as many, each on its array's device. Without a shuffle, batches are views.
class ArrayBatches : public Batches {
 public:
  // Throws InvalidArgument for arrays of different lengths, for none, and for options out of range.
  explicit ArrayBatches(std::vector<NDArray> arrays, ArrayBatchesOptions options = {},
                        Where where = Where::current());
  std::int64_t size() const override;
  void start(std::int64_t epoch, std::int64_t first = 0) override;
  std::vector<NDArray> next() override;

 private:
  std::vector<NDArray> arrays_;
  ArrayBatchesOptions options_;
  std::vector<NDArray>
      orders_{};  // of the rows in this epoch, on the device of each array; none: as they are
  std::int64_t rows_ = 0, next_ = 0;
};

}  // namespace heddle
