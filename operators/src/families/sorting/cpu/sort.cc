// Kernels that sort lines, and that select the elements of some ranks.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/kernel_table.h"
#include "cpu/scratch.h"
#include "families/sorting/cpu/items.h"
#include "families/sorting/kernels.h"

namespace heddle::cpu_kernels {

namespace {

template <class Item> std::size_t bytes_of(std::int64_t n) {
  return static_cast<std::size_t>(n) * sizeof(Item);
}

// Calls body(begin, end) for ranges that cover n elements: in parallel for several ranges, or once for all
// elements.
template <class F> void run(std::int64_t n, bool parallel, const F& body) {
  if (parallel) return parallel_chunks(n, kElementGrain, body);
  body(std::int64_t{0}, n);
}

// Zeros of both signs are equal, so writes them to y in their order in x. `sorted` are exact keys.
template <class T, class Item>
void restore_zeros(const T* x, T* y, std::int64_t n, const Item* sorted, bool descending) {
  const auto negative = exact_key(static_cast<T>(-0.0f)), positive = exact_key(static_cast<T>(0.0f));
  const Item* begin = std::lower_bound(sorted, sorted + n, Item{negative});
  const Item* end = std::upper_bound(begin, sorted + n, Item{positive});
  if (begin == end || *begin != negative || end[-1] != positive) return;
  T* to = y + (descending ? sorted + n - end : begin - sorted);
  for (std::int64_t i = 0; i < n; ++i)
    if (const auto key = exact_key(x[i]); key == negative || key == positive) *to++ = x[i];
}

template <class T> void sort_values(const T* x, T* y, std::int64_t n, bool descending, bool parallel) {
  using Item = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const Scratch memory(bytes_of<Item>(2 * n));
  Item* items = memory.as<Item>();
  run(n, parallel, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) items[i] = exact_key(x[i]);
  });
  const Item* sorted = sort_items(items, items + n, n, 0, 8 * static_cast<int>(sizeof(T)), parallel);
  run(n, parallel, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y[descending ? n - 1 - i : i] = value_of_key<T>(static_cast<BitsOf<T>>(sorted[i]));
  });
  if constexpr (kHasNaN<T>) restore_zeros(x, y, n, sorted, descending);
}

// Writes the indices of the items, and their elements in x unless `values` is null.
template <class T>
void write_chosen(const IndexedItem<T>* items, std::int64_t n, const T* x, T* values, std::int64_t* indices,
                  bool parallel) {
  run(n, parallel, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      indices[i] = index_in(items[i]);
      if (values) values[i] = x[indices[i]];
    }
  });
}

template <class T>
void sort_indices(const T* x, T* values, std::int64_t* indices, std::int64_t n, bool descending,
                  bool parallel) {
  const Scratch memory(bytes_of<IndexedItem<T>>(2 * n));
  auto* items = memory.as<IndexedItem<T>>();
  fill_indexed(x, n, descending, items, parallel);
  write_chosen(sort_indexed<T>(items, n, parallel), n, x, values, indices, parallel);
}

std::int64_t line_of(const NDArray& x) { return x.shape()[x.ndim() - 1]; }

void sort_kernel(const KernelContext&, const NDArray& x, const NDArray& values, const NDArray& indices,
                 bool descending) {
  if (x.size() == 0) return;
  const std::int64_t n = line_of(x);
  visit_dtype(x.dtype(), [&]<class T> {
    const T* from = x.data<const T>();
    T* to = values.defined() ? values.data<T>() : nullptr;
    std::int64_t* places = indices.defined() ? indices.data<std::int64_t>() : nullptr;
    for_each_line(x.size() / n, n, [=](std::int64_t line, bool parallel) {
      const std::int64_t at = line * n;
      if (places)
        sort_indices(from + at, to ? to + at : nullptr, places + at, n, descending, parallel);
      else
        sort_values(from + at, to + at, n, descending, parallel);
    });
  });
}

// Up to kFewChosen lowest items of a line are selected in one pass over its elements. A block of kBlock
// elements is skipped if none is lower than the highest item selected so far, which one vector comparison
// finds out.
constexpr std::int64_t kFewChosen = 32, kBlock = 64;

template <bool descending, class T> bool any_below(const T* x, BitsOf<T> highest) {
  BitsOf<T> any = 0;
  for (std::int64_t k = 0; k < kBlock; ++k) {
    const BitsOf<T> key = key_of(x[k]), used = static_cast<BitsOf<T>>(descending ? ~key : key);
    any |= used < highest;
  }
  return any != 0;
}

// Writes the `count` lowest items of x[begin .. end) to `chosen`, in order; with `descending` the highest.
// The range has at least `count` items.
template <bool descending, class T>
void choose_lowest(const T* x, std::int64_t begin, std::int64_t end, std::int64_t count,
                   IndexedItem<T>* chosen) {
  for (std::int64_t i = 0; i < count; ++i) chosen[i] = indexed_item(x[begin + i], begin + i, descending);
  std::sort(chosen, chosen + count);
  for (std::int64_t i = begin + count; i < end; i += kBlock) {
    const std::int64_t last = std::min(end, i + kBlock);
    const auto highest = static_cast<BitsOf<T>>(key_in(chosen[count - 1]));
    if (last == i + kBlock && !any_below<descending>(x + i, highest)) continue;
    for (std::int64_t k = i; k < last; ++k) {
      const IndexedItem<T> item = indexed_item(x[k], k, descending);
      if (item > chosen[count - 1]) continue;
      std::int64_t place = count - 1;
      for (; place > 0 && item < chosen[place - 1]; --place) chosen[place] = chosen[place - 1];
      chosen[place] = item;
    }
  }
}

// Splits a long line among workers; the lowest items of all parts are then merged.
template <bool descending, class T>
void choose_in_line(const T* x, std::int64_t n, std::int64_t count, IndexedItem<T>* chosen) {
  constexpr std::int64_t kMostParts = 64;
  const std::int64_t size = std::max(kElementGrain, (n + kMostParts - 1) / kMostParts);
  const std::int64_t parts = n / size;
  if (parts < 2) return choose_lowest<descending>(x, 0, n, count, chosen);
  const Scratch memory(bytes_of<IndexedItem<T>>(parts * count));
  auto* all = memory.as<IndexedItem<T>>();
  parallel_chunks(parts, 1, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part)
      choose_lowest<descending>(x, part * size, part + 1 == parts ? n : (part + 1) * size, count,
                                all + part * count);
  });
  std::partial_sort_copy(all, all + parts * count, chosen, chosen + count);
}

template <class T>
void choose_few(const T* x, std::int64_t n, std::int64_t count, bool descending, IndexedItem<T>* chosen) {
  if (descending) return choose_in_line<true>(x, n, count, chosen);
  choose_in_line<false>(x, n, count, chosen);
}

// Moves the items of ranks first to last - 1 to positions first to last - 1, sorted.
template <class Item> void select(Item* items, std::int64_t n, std::int64_t first, std::int64_t last) {
  if (first > 0) std::nth_element(items, items + first, items + n);
  if (last < n) std::nth_element(items + first, items + last, items + n);
  std::sort(items + first, items + last);
}

void select_kernel(const KernelContext&, const NDArray& x, const NDArray& values, const NDArray& indices,
                   std::int64_t first, bool descending) {
  const std::int64_t n = line_of(x), count = line_of(values);
  if (values.size() == 0) return;
  visit_dtype(x.dtype(), [&]<class T> {
    const T* from = x.data<const T>();
    T* to = values.data<T>();
    auto* places = indices.data<std::int64_t>();
    for_each_line(x.size() / n, n, [=](std::int64_t line, bool parallel) {
      const bool few = first + count <= kFewChosen;
      const Scratch memory(bytes_of<IndexedItem<T>>(few ? kFewChosen : n));
      auto* items = memory.as<IndexedItem<T>>();
      if (few) {
        choose_few(from + line * n, n, first + count, descending, items);
      } else {
        fill_indexed(from + line * n, n, descending, items, parallel);
        select(items, n, first, first + count);
      }
      write_chosen(items + first, count, from + line * n, to + line * count, places + line * count, false);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(sort) {
  table.add<SortKernel>("sort", DeviceKind::cpu, sort_kernel);
  table.add<SelectKernel>("select", DeviceKind::cpu, select_kernel);
}

}  // namespace heddle::cpu_kernels
