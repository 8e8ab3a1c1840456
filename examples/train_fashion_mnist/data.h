// Fashion-MNIST: 28 x 28 pictures of clothes in ten classes (Xiao, Rasul, Vollgraf, arXiv:1708.07747).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <heddle/heddle.h>

// A file that is missing or broken: says which one and what is wrong with it.
class DataError : public heddle::Error {
 public:
  using Error::Error;
};

struct Dataset {
  heddle::NDArray images;  // u8 (n, 28, 28)
  heddle::NDArray labels;  // u8 (n), 0 .. 9
  std::int64_t size() const { return labels.size(); }
  void wait() const;  // until both are there; throws DataError
};

// Reads the headers of DIRECTORY/PART-images-idx3-ubyte[.gz] and its labels at once; one op a file decompresses and
// checks the rest. PART is "train" or "t10k". Keeps the first `limit` pictures; 0: all. Throws DataError.
Dataset load_dataset(const std::string& directory, const std::string& part, std::int64_t limit);

// Which of the processes that share every batch this is.
struct Share {
  int rank = 0, ranks = 1;
};

// This rank's part of a batch. Where a batch has fewer pictures than there are ranks, some rank gets one that does not
// count: what it computes is to be weighed with zero.
struct Batch {
  heddle::NDArray images;  // f32 (n, 1, 28, 28), mean 0 and deviation 1 over the training set
  heddle::NDArray labels;  // u8 (n)
  std::int64_t first = 0;  // the place of its first picture in the whole batch
  std::int64_t count = 0;  // how many of its pictures count: all or none
  std::int64_t of = 0;     // the whole batch
};

// Gathers batches in ops of their own, a few batches ahead of the one asked for.
class BatchLoader {
 public:
  // Of each batch the pictures of this rank, which lie next to each other.
  BatchLoader(Dataset data, std::int64_t batch_size, Share share = {}, std::size_t ahead = 4);
  std::int64_t batches() const;  // an epoch; the last one may be smaller

  // The order of this epoch (i64 (n), undefined: that of the files), and the batch to begin with.
  void start(heddle::NDArray order, std::int64_t first_batch = 0);
  Batch next();

 private:
  void push_gather();
  Dataset data_;
  std::int64_t batch_size_;
  Share share_;
  std::size_t ahead_;
  heddle::NDArray order_;
  std::int64_t gathered_ = 0;  // batches pushed so far in this epoch
  std::deque<Batch> ready_;
};
