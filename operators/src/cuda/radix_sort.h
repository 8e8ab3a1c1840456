// A stable sort of keys on a GPU, in plain types. Other orders become one of unsigned keys: see sort_key.h.
#pragma once

#include <cstddef>

namespace heddle::cuda_kernels {

constexpr long long kLongestSort = 1ll << 32;  // elements of a line: positions have 32 bits

// Lines of `length` keys each, one behind the other, which are sorted each for itself by their low `bits` bits.
struct SortJob {
  long long lines, length;
  int key_bytes;     // 4 or 8
  int bits;          // all higher bits are 0
  std::byte* space;  // sort_bytes()
};

std::size_t sort_bytes(long long lines, long long length, int key_bytes);
void* keys_to_sort(const SortJob& job);  // where the caller's kernel writes the keys first

struct SortedKeys {
  const void* keys;
  const unsigned* order;  // the positions in their line that the keys had
};

// Enqueues the sort on a cudaStream_t. Returns why it could not; null if it could.
const char* sort_keys(void* stream, const SortJob& job, SortedKeys& sorted);

}  // namespace heddle::cuda_kernels
