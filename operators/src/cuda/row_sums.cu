#include "cuda/compact.h"
#include "cuda/indices.h"
#include "cuda/row_keys.h"
#include "cuda/row_sums.h"

namespace heddle::cuda_kernels {
namespace {

struct Space {
  SortJob sort;
  const void** rows;
  long long *numbers, *counts,
      *total;  // of each sorted entry, that is the first of its index: its row in the result
  std::size_t bytes;
};

Space space_of(const RowEntries& entries) {
  Space space{};
  space.sort = {1, entries.count, 4, 1, entries.space};
  while (space.sort.bits < 63 && entries.bound >> space.sort.bits) ++space.sort.bits;
  if (space.sort.bits > 32) space.sort.key_bytes = 8;
  const auto count = static_cast<std::size_t>(entries.count);
  std::byte* at = entries.space + sort_bytes(1, entries.count, space.sort.key_bytes);
  space.rows = reinterpret_cast<const void**>(at);
  space.numbers = reinterpret_cast<long long*>(at + count * sizeof(void*));
  space.total = space.numbers + count;
  space.counts = space.total + 1;
  space.bytes = sort_bytes(1, entries.count, space.sort.key_bytes) +
                (2 * count + 1 + static_cast<std::size_t>(compact_space(entries.count))) * sizeof(long long);
  return space;
}

// Sorted entries.
struct Sorted {
  const void* keys;
  const unsigned* order;
  const void** rows;
  long long count, bound;
  int key_bytes;

  HEDDLE_DEVICE long long key(long long i) const { return load_key(keys, key_bytes, i); }
  // Whether the entry is the first one of its index, and has a row.
  HEDDLE_DEVICE bool first(long long i) const {
    const long long own = key(i);
    return own < bound && (i == 0 || key(i - 1) != own) && rows[order[i]] != nullptr;
  }
};

struct IsFirst {
  Sorted sorted;
  HEDDLE_DEVICE bool operator()(long long i) const { return sorted.first(i); }
};
struct NumberRows {
  Sorted sorted;
  long long *numbers, *rows;
  long long capacity;
  HEDDLE_DEVICE void operator()(long long i, bool flag, long long number) const {
    numbers[i] = number;
    if (flag && number < capacity) rows[number] = sorted.key(i);
  }
};
struct EndRows {
  const long long* total;
  long long *rows, *count;
  long long capacity, bound;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    if (thread.global_index() == 0) *count = *total;
    for (long long i = *total + thread.global_index(); i < capacity; i += thread.global_size())
      rows[i] = bound;
  }
};

// A thread has one element of a sorted entry, and works if the entry is the first of its index. It loads several elements before it
// adds them in their order: of an index that many entries have, the loads would follow each other else.
template <class T> struct SumRows {
  Sorted sorted;
  RowEntries entries;
  const long long* numbers;  // null: the result is dense, and sums begin with what is there
  T* to;
  static constexpr int kAtOnce = 8;

  HEDDLE_DEVICE T given(long long i, long long column) const {
    const unsigned entry = sorted.order[i];
    T value = static_cast<const T*>(sorted.rows[entry])[column];
    if (entries.parts) value /= static_cast<T>(entries.parts[entries.part_of[entry]]);
    if (entries.factors) value *= static_cast<const T*>(entries.factors)[entry];
    return value;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long total = sorted.count * entries.width;
    for (long long at = thread.global_index(); at < total; at += thread.global_size()) {
      const Split place = split(at, entries.width);
      long long i = place.quotient;
      if (!sorted.first(i)) continue;
      const long long key = sorted.key(i);
      T* const sum = to + (numbers ? numbers[i] : key) * entries.width + place.rest;
      T value = numbers ? T{0} : *sum;
      const long long end = run_end(i, sorted.count, [&](long long k) { return sorted.key(k); });
      for (; i + kAtOnce <= end; i += kAtOnce) {
        T values[kAtOnce];
        HEDDLE_UNROLL
        for (int k = 0; k < kAtOnce; ++k) values[k] = given(i + k, place.rest);
        HEDDLE_UNROLL
        for (int k = 0; k < kAtOnce; ++k) value += values[k];
      }
      for (; i < end; ++i) value += given(i, place.rest);
      *sum = value;
    }
  }
};

template <class Unit> struct CopyRows {
  Sorted sorted;
  long long units;  // of a row
  const long long* numbers;
  Unit* to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long total = sorted.count * units;
    for (long long at = thread.global_index(); at < total; at += thread.global_size()) {
      const Split place = split(at, units);
      if (!sorted.first(place.quotient)) continue;
      const auto* const from = static_cast<const Unit*>(sorted.rows[sorted.order[place.quotient]]);
      to[numbers[place.quotient] * units + place.rest] = from[place.rest];
    }
  }
};

// The row of an entry becomes that of its index in `present`, null if it is not there.
struct FindRows {
  Sorted sorted;
  SparseRows present;
  long long row_bytes;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long given = *present.count;
    const long long count = given < 0 || given > present.capacity ? 0 : given;
    for (long long i = thread.global_index(); i < sorted.count; i += thread.global_size()) {
      const long long key = sorted.key(i), at = count_below(present.rows, count, key, false);
      const bool found = at < count && present.rows[at] == key;
      sorted.rows[sorted.order[i]] =
          found ? static_cast<const unsigned char*>(present.values) + at * row_bytes : nullptr;
    }
  }
};

const char* sort_entries(cudaStream_t stream, const RowEntries& entries, const Space& space, Sorted& sorted) {
  SortedKeys keys{};
  const char* const problem = sort_keys(stream, space.sort, keys);
  sorted = {keys.keys, keys.order, space.rows, entries.count, entries.bound, space.sort.key_bytes};
  return problem;
}

const char* number_rows(cudaStream_t stream, const Space& space, const Sorted& sorted, const SparseRows& y) {
  const NumberRows sink{sorted, space.numbers, y.rows, y.capacity};
  if (const char* problem =
          number_flags(stream, sorted.count, IsFirst{sorted}, sink, space.counts, space.total))
    return problem;
  return on_gpu::launch_over(stream, y.capacity,
                             EndRows{space.total, y.rows, y.count, y.capacity, sorted.bound});
}

const char* sum_rows(cudaStream_t stream, const RowEntries& entries, const Sorted& sorted,
                     const long long* numbers, void* to) {
  const long long total = entries.count * entries.width;
  if (total == 0) return nullptr;
  if (entries.element_bytes == 8)
    return on_gpu::launch_over(stream, total,
                               SumRows<double>{sorted, entries, numbers, static_cast<double*>(to)});
  return on_gpu::launch_over(stream, total,
                             SumRows<float>{sorted, entries, numbers, static_cast<float*>(to)});
}

template <class Unit>
const char* copy_rows(cudaStream_t stream, const RowEntries& entries, const Sorted& sorted,
                      const long long* numbers, void* to) {
  const long long units = entries.width * entries.element_bytes / static_cast<long long>(sizeof(Unit));
  if (entries.count * units == 0) return nullptr;
  return on_gpu::launch_over(stream, entries.count * units,
                             CopyRows<Unit>{sorted, units, numbers, static_cast<Unit*>(to)});
}

}  // namespace

std::size_t entries_bytes(const RowEntries& entries) { return space_of(entries).bytes; }

EntryLists lists_of(const RowEntries& entries) {
  const Space space = space_of(entries);
  return {keys_to_sort(space.sort), space.rows, space.sort.key_bytes};
}

const char* add_entries(void* on, const RowEntries& entries, void* whole) {
  const auto stream = static_cast<cudaStream_t>(on);
  Sorted sorted{};
  if (const char* problem = sort_entries(stream, entries, space_of(entries), sorted)) return problem;
  return sum_rows(stream, entries, sorted, nullptr, whole);
}

const char* sum_entries(void* on, const RowEntries& entries, const SparseRows& y) {
  const auto stream = static_cast<cudaStream_t>(on);
  const Space space = space_of(entries);
  Sorted sorted{};
  if (const char* problem = sort_entries(stream, entries, space, sorted)) return problem;
  if (const char* problem = number_rows(stream, space, sorted, y)) return problem;
  return sum_rows(stream, entries, sorted, space.numbers, y.values);
}

const char* copy_entries(void* on, const RowEntries& entries, const void* values, const SparseRows* present,
                         const SparseRows& y) {
  const auto stream = static_cast<cudaStream_t>(on);
  const Space space = space_of(entries);
  Sorted sorted{};
  if (const char* problem = sort_entries(stream, entries, space, sorted)) return problem;
  if (present && entries.count > 0) {
    FindRows find{sorted, *present, entries.width * entries.element_bytes};
    if (!find.present.values) find.present.values = entries.space;  // not null, of rows without elements
    if (const char* problem = on_gpu::launch_over(stream, entries.count, find)) return problem;
  }
  if (const char* problem = number_rows(stream, space, sorted, y)) return problem;
  const auto together = static_cast<unsigned long long>(entries.width * entries.element_bytes) |
                        reinterpret_cast<unsigned long long>(values) |
                        reinterpret_cast<unsigned long long>(y.values);
  if (together % 8 == 0) return copy_rows<std::uint64_t>(stream, entries, sorted, space.numbers, y.values);
  if (together % 4 == 0) return copy_rows<std::uint32_t>(stream, entries, sorted, space.numbers, y.values);
  return copy_rows<std::uint16_t>(stream, entries, sorted, space.numbers, y.values);
}

}  // namespace heddle::cuda_kernels
