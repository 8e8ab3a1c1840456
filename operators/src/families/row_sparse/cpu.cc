#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/data_error.h"
#include "core/kernel_table.h"
#include "cpu/checked_indices.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/present_rows.h"
#include "cpu/row_entries.h"
#include "families/row_sparse/kernels.h"

namespace heddle::cpu_kernels {

namespace {

using Entry = RowEntry;

// The bits of a digit of the radix sort. sort_by_digit() is one stable pass, by the digit of `row` at bit
// `shift`.
constexpr int kDigitBits = 11;
void sort_by_digit(const std::vector<Entry>& from, std::vector<Entry>& to, int shift) {
  std::array<std::size_t, std::size_t{1} << kDigitBits> next{};
  const auto digit = [&](const Entry& entry) {
    return static_cast<std::size_t>(entry.row >> shift) & (next.size() - 1);
  };
  for (const Entry& entry : from) ++next[digit(entry)];
  std::size_t begin = 0;
  for (std::size_t& count : next) begin += std::exchange(count, begin);
  for (const Entry& entry : from) to[next[digit(entry)]++] = entry;
}

// Sorts by ascending row, stably. Rows are in [0, bound).
void sort_by_row(std::vector<Entry>& entries, std::int64_t bound) {
  constexpr std::size_t kFew = 256;  // up to so many entries the counters of a radix sort cost too much
  const auto before = [](const Entry& a, const Entry& b) { return a.row < b.row; };
  if (std::is_sorted(entries.begin(), entries.end(), before)) return;
  if (entries.size() <= kFew) return std::stable_sort(entries.begin(), entries.end(), before);
  std::vector<Entry> other(entries.size());
  const int bits = std::bit_width(static_cast<std::uint64_t>(bound - 1));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    sort_by_digit(entries, other, shift);
    entries.swap(other);
  }
}

std::size_t row_bytes(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(row_width(shape)) * size_of(dtype);
}

// The index of the first entry of each distinct row in `entries`, which are sorted by row, then the number of
// entries.
std::vector<std::size_t> groups_of(const std::vector<Entry>& entries) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i].row != entries[i - 1].row) begins.push_back(i);
  }
  begins.push_back(entries.size());
  return begins;
}

void write_rows(const std::vector<Entry>& entries, const std::vector<std::size_t>& groups,
                const RowSparse& y) {
  auto* rows = y.rows().data<std::int64_t>();
  const std::size_t count = groups.size() - 1;
  for (std::size_t i = 0; i < count; ++i) rows[i] = entries[groups[i]].row;
  std::fill(rows + count, rows + y.capacity(), y.shape()[0]);
  *y.count().data<std::int64_t>() = static_cast<std::int64_t>(count);
}

// Writes the sum of the entries of each row to y. Each chunk has some columns of some rows, so that a
// frequent row is shared by several workers. A sum begins with 0, as in a dense gradient, so that sparse and
// dense gradients have the same bits.
template <class T> void write_sums(std::vector<Entry> entries, const RowSparse& y) {
  constexpr std::int64_t kColumns = 64;
  sort_by_row(entries, y.shape()[0]);
  const std::vector<std::size_t> groups = groups_of(entries);
  write_rows(entries, groups, y);
  const std::int64_t count = static_cast<std::int64_t>(groups.size()) - 1, width = row_width(y.shape());
  if (count == 0 || width == 0) return;
  const std::int64_t tiles = (width + kColumns - 1) / kColumns;
  const std::int64_t mean = static_cast<std::int64_t>(entries.size()) / count * std::min(width, kColumns);
  T* values = y.values().data<T>();
  parallel_chunks(count * tiles, std::max<std::int64_t>(1, kElementGrain / mean),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t unit = begin; unit < end; ++unit) {
                      const std::int64_t row = unit / tiles, column = unit % tiles * kColumns;
                      const std::int64_t n = std::min(kColumns, width - column);
                      T* to = values + row * width + column;
                      std::fill_n(to, n, T{0});
                      const auto group = static_cast<std::size_t>(row);
                      for (std::size_t i = groups[group]; i < groups[group + 1]; ++i) {
                        const T* from = reinterpret_cast<const T*>(entries[i].values) + column;
                        for (std::int64_t j = 0; j < n; ++j) to[j] += from[j];
                      }
                    }
                  });
}

// Writes the entries, whose rows are ascending and distinct, to y.
void write_copies(const std::vector<Entry>& entries, const RowSparse& y) {
  write_rows(entries, groups_of(entries), y);
  const std::int64_t width = row_width(y.shape());
  const std::size_t bytes = row_bytes(y.shape(), y.dtype());
  if (bytes == 0) return;
  auto* to = y.values().data<std::byte>();
  parallel_chunks(static_cast<std::int64_t>(entries.size()), std::max<std::int64_t>(1, kElementGrain / width),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
                      std::memcpy(to + i * bytes, entries[i].values, bytes);
                  });
}

// The distinct values of `rows`, ascending, with null as the entries' values.
std::vector<Entry> distinct_rows(const char* op, const NDArray& rows, std::int64_t bound) {
  std::vector<Entry> entries;
  for (const std::int64_t row : checked_indices(op, rows, bound, false)) entries.push_back({row, nullptr});
  sort_by_row(entries, bound);
  const auto same = [](const Entry& a, const Entry& b) { return a.row == b.row; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  return entries;
}

void row_sparse_kernel(const KernelContext&, const char* op, const NDArray& rows, const NDArray& values,
                       const RowSparse& y) {
  const std::vector<std::int64_t> at = checked_indices(op, rows, y.shape()[0], false);
  const std::size_t bytes = row_bytes(y.shape(), y.dtype());
  const auto* from = values.data<const std::byte>();
  std::vector<Entry> entries(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) entries[i] = {at[i], from + i * bytes};
  sum_entries(std::move(entries), y);
}

void retain_kernel(const KernelContext&, const NDArray& x, const NDArray& rows, const RowSparse& y) {
  std::vector<Entry> entries = distinct_rows("retain", rows, x.shape()[0]);
  const std::size_t bytes = row_bytes(x.shape(), x.dtype());
  const auto* from = x.data<const std::byte>();
  for (Entry& entry : entries) entry.values = from + static_cast<std::size_t>(entry.row) * bytes;
  write_copies(entries, y);
}

void retain_rows_kernel(const KernelContext&, const RowSparse& x, const NDArray& rows, const RowSparse& y) {
  const std::span<const std::int64_t> present = present_rows("retain", x);
  const std::size_t bytes = row_bytes(x.shape(), x.dtype());
  const auto* from = x.values().data<const std::byte>();
  std::vector<Entry> entries;
  auto at = present.begin();
  for (const Entry& wanted : distinct_rows("retain", rows, x.shape()[0])) {
    at = std::lower_bound(at, present.end(), wanted.row);
    if (at == present.end()) break;
    if (*at == wanted.row)
      entries.push_back({wanted.row, from + static_cast<std::size_t>(at - present.begin()) * bytes});
  }
  write_copies(entries, y);
}

void sum_rows_kernel(const KernelContext&, std::span<const RowSparse> arrays, const RowSparse& y) {
  std::vector<Entry> entries;
  for (const RowSparse& x : arrays) {
    const std::size_t bytes = row_bytes(x.shape(), x.dtype());
    const auto* from = x.values().data<const std::byte>();
    for (const std::int64_t row : present_rows("sum", x)) {
      entries.push_back({row, from});
      from += bytes;
    }
  }
  sum_entries(std::move(entries), y);
}

template <class T> T sum_of(T a, T b) {
  if constexpr (is_half_type<T>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else {
    return a + b;
  }
}

template <class T>
void add_to(T* dense, std::span<const std::int64_t> rows, const T* values, std::int64_t width) {
  if (width == 0) return;
  parallel_chunks(static_cast<std::int64_t>(rows.size()), std::max<std::int64_t>(1, kElementGrain / width),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      T* to = dense + rows[static_cast<std::size_t>(i)] * width;
                      const T* from = values + i * width;
                      for (std::int64_t j = 0; j < width; ++j) to[j] = sum_of(to[j], from[j]);
                    }
                  });
}

void add_rows_kernel(const KernelContext&, const NDArray& dense, const RowSparse& x) {
  const std::span<const std::int64_t> rows = present_rows("add_rows", x);
  const std::int64_t width = row_width(x.shape());
  const auto add = [&]<class T>() { add_to(dense.data<T>(), rows, x.values().data<const T>(), width); };
  if (x.dtype() == DType::f16) return add.template operator()<Float16>();
  if (x.dtype() == DType::bf16) return add.template operator()<BFloat16>();
  visit_floating(x.dtype(), add);
}

}  // namespace

void sum_entries(std::vector<RowEntry> entries, const RowSparse& y) {
  visit_floating(y.dtype(), [&]<class T>() { write_sums<T>(std::move(entries), y); });
}

std::int64_t row_width(const Shape& shape) {
  std::int64_t width = 1;
  for (int d = 1; d < shape.size(); ++d) width *= shape[d];
  return width;
}

std::span<const std::int64_t> present_rows(const char* op, const RowSparse& x) {
  const std::int64_t count = *x.count().data<const std::int64_t>(), bound = x.shape()[0];
  if (count < 0 || count > x.capacity()) refuse_row_count(op, count, x.capacity());
  const std::span<const std::int64_t> rows(x.rows().data<const std::int64_t>(),
                                           static_cast<std::size_t>(count));
  std::int64_t previous = -1;
  for (const std::int64_t row : rows) {
    if (row <= previous || row >= bound) refuse_row(op, bound, row, previous);
    previous = row;
  }
  return rows;
}

HEDDLE_CPU_KERNELS(row_sparse) {
  table.add<RowSparseKernel>("row_sparse", DeviceKind::cpu, row_sparse_kernel);
  table.add<RetainKernel>("retain", DeviceKind::cpu, retain_kernel);
  table.add<RetainRowsKernel>("retain_rows", DeviceKind::cpu, retain_rows_kernel);
  table.add<SumRowsKernel>("sum_rows", DeviceKind::cpu, sum_rows_kernel);
  table.add<AddRowsKernel>("add_rows", DeviceKind::cpu, add_rows_kernel);
}

}  // namespace heddle::cpu_kernels
