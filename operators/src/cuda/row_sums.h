// Sums of rows by their index on a GPU, in plain types: for gradients of tables and for row-sparse arrays. The rows of one index are
// added up in the order of the entries, as on the CPU. Functions enqueue work on a cudaStream_t and return why they could not; null if
// they could.
#pragma once

#include <cstddef>

#include "cuda/radix_sort.h"

namespace heddle::cuda_kernels {

// Entries: each is a row of values, and the index that it has in the result.
struct RowEntries {
  long long count, bound, width;  // entries; rows of the result; elements of a row
  int element_bytes;
  std::byte* space;  // entries_bytes()
  // For sums, of f32 or f64 rows:
  const void* factors = nullptr;       // one for each entry, of the dtype of the rows; null: 1
  const long long* parts = nullptr;    // what rows are divided by before; null: 1
  const long long* part_of = nullptr;  // which of the parts is that of an entry
};

std::size_t entries_bytes(const RowEntries& entries);

// What the caller's kernel fills: for each entry a key, its index or for none the bound, and the address of its row.
struct EntryLists {
  void* keys;
  const void** rows;
  int key_bytes;
};
EntryLists lists_of(const RowEntries& entries);

// Adds the entries to `whole` (bound, width).
const char* add_entries(void* stream, const RowEntries& entries, void* whole);

// A row-sparse array.
struct SparseRows {
  long long* rows;
  void* values;
  long long* count;
  long long capacity;
};
// y = the sums of the entries, which begin with 0.
const char* sum_entries(void* stream, const RowEntries& entries, const SparseRows& y);
// y has the row of one entry for each index. Rows of other entries of that index are the same. Rows lie one behind the other in
// `values`. With `present`, of the keys in ascending order those count that are in it too, and entry rows are looked up there.
const char* copy_entries(void* stream, const RowEntries& entries, const void* values,
                         const SparseRows* present, const SparseRows& y);

}  // namespace heddle::cuda_kernels
