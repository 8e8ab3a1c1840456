// Fashion-MNIST: 28 x 28 pictures of clothes in ten classes (Xiao, Rasul, Vollgraf, arXiv:1708.07747).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <heddle/heddle.h>

// Thrown if a data file is missing or broken; the text names the file and the problem.
class DataError : public heddle::Error {
 public:
  using Error::Error;
};

struct Dataset {
  heddle::NDArray images;  // pictures: u8 (n, 28, 28)
  heddle::NDArray labels;  // classes: u8 (n), 0 .. 9
  std::int64_t size() const { return labels.size(); }
  void wait() const;  // waits until images and labels are loaded; throws DataError
};

// Loads DIRECTORY/PART-images-idx3-ubyte[.gz] and the file of labels. PART is "train" or "t10k". The call
// reads the headers; for each file an op decompresses and checks the rest. Keeps the first `limit` pictures;
// 0: all. Throws DataError.
Dataset load_dataset(const std::string& directory, const std::string& part, std::int64_t limit);

// This process's rank among the processes that share every batch, and their number.
struct Share {
  int rank = 0, ranks = 1;
};

// This rank's part of a batch. If a batch has fewer pictures than there are ranks, some ranks get one picture
// that does not count: its loss must be weighted with zero.
struct Batch {
  heddle::NDArray images;  // pictures: f32 (n, 1, 28, 28), mean 0 and deviation 1 over the training set
  heddle::NDArray labels;  // classes: u8 (n)
  std::int64_t first = 0;  // index of this part's first picture in the whole batch
  std::int64_t count = 0;  // number of this part's pictures; 0 if they do not count
  std::int64_t of = 0;     // number of pictures of the whole batch
};

// Gathers batches by ops, which are pushed a few batches before next() returns the batch.
class BatchLoader {
 public:
  // Gathers only this rank's part of each batch, which is a contiguous range of the batch.
  BatchLoader(Dataset data, std::int64_t batch_size, Share share = {}, std::size_t ahead = 4);
  std::int64_t batches() const;  // number of batches per epoch; the last one may be smaller

  // Begins an epoch at batch `first_batch`. `order` (i64, n) is the order of the pictures in this epoch; an
  // undefined array: the order of the files.
  void start(heddle::NDArray order, std::int64_t first_batch = 0);
  Batch next();

 private:
  void push_gather();
  Dataset data_;
  std::int64_t batch_size_;
  Share share_;
  std::size_t ahead_;
  heddle::NDArray order_;
  std::int64_t gathered_ = 0;  // number of batches of this epoch whose ops are pushed
  std::deque<Batch> ready_;
};
