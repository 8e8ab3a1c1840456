// The kernels of embedding_bag for GPUs, in plain types. Functions enqueue work on a cudaStream_t and return why they could not; null
// if they could.
#pragma once

#include <cstddef>

#include "cuda/row_sums.h"
#include "cuda/strided.h"

namespace heddle::cuda_kernels {

enum BagFault : int { kBadIndex, kBadOffset, kBadFirst, kFalling };
constexpr long long kBagFault = 1ll << 60;  // a report's place is the position, plus so much times its kind

struct Bags {
  Indices indices;
  bool has_offsets;
  Strided offsets;                 // integers (bags)
  long long count, length, total;  // bags; indices of each bag without offsets; of all
  long long padding;               // the index that counts for nothing; -1: none
  unsigned char mode;              // BagMode
};

// What launch_bags() makes of the arguments.
struct BagLists {
  long long* rows;    // of each position: the index; -1 for one that counts for nothing, or is out of range
  long long* begins;  // of each bag, and the end of the last
  long long* counts;  // how many indices of a bag count, 1 at least
};
std::size_t lists_bytes(const Bags& bags);
BagLists bag_lists(const Bags& bags, std::byte* space);
// Checks indices and offsets. `counts` are made if wanted.
const char* launch_bags(void* stream, const Bags& bags, const BagLists& lists, bool counts);

struct BagSums {
  const void *weight, *factors;  // factors: null or one for each position
  void* y;
  long long* places;  // null, or of max the row of each element of y
  long long width;
  unsigned char type;
};
const char* launch_bag_sums(void* stream, const Bags& bags, const BagLists& lists, const BagSums& sums);

// Fills the entries of a gradient (bags, width): one for each position. part_of gets the bag of each.
const char* launch_bag_entries(void* stream, const Bags& bags, const BagLists& lists, const void* gradient,
                               const RowEntries& entries, long long* part_of);

}  // namespace heddle::cuda_kernels
