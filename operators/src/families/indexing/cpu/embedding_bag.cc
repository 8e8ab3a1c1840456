// Kernels of embedding_bag. Each bag is computed by one worker, in the order of its indices.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/bag_ranges.h"
#include "cpu/checked_indices.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/present_rows.h"
#include "cpu/row_entries.h"
#include "cpu/scratch.h"
#include "families/indexing/bag_kernels.h"

namespace heddle::cpu_kernels {

namespace {

// The type in which rows of T are added up.
template <class T> using BagSum = std::conditional_t<std::is_same_v<T, double>, double, float>;

std::int64_t bag_grain(std::int64_t bags, std::int64_t total, std::int64_t width) {
  const std::int64_t work = (total / std::max<std::int64_t>(1, bags) + 1) * std::max<std::int64_t>(1, width);
  return std::max<std::int64_t>(1, kElementGrain / work);
}

template <class T> struct BagForward {
  using Sum = BagSum<T>;
  static constexpr std::int64_t kTile = 32;
  const BagProblem& problem;
  const BagRanges& ranges;
  const CheckedIndices& at;
  std::int64_t width;
  const T* table;
  const T* factors;  // null: 1
  T* y;
  std::int64_t* places;  // null: not wanted

  // Rows lie anywhere in a table that no cache holds: those of the next indices are fetched in advance.
  void fetch(std::int64_t position) const {
    constexpr std::int64_t kAhead = 16, kLine = 64 / sizeof(T);
    if (position + kAhead >= at.size()) return;
    const T* const row = table + at[position + kAhead] * width;
    for (std::int64_t j = 0; j < std::min<std::int64_t>(width, 4 * kLine); j += kLine)
      __builtin_prefetch(row + j);
  }
  // Sums of kTile columns stay in registers. Returns the number of rows.
  std::int64_t sum_tile(std::int64_t bag, std::int64_t column, Sum* to) const {
    Sum sums[kTile] = {};
    std::int64_t count = 0;
    for (std::int64_t i = ranges.begin(bag); i < ranges.end(bag); ++i) {
      if (column == 0) fetch(i);
      const std::int64_t index = at[i];
      if (index == problem.padding) continue;
      ++count;
      const T* const row = table + index * width + column;
      const Sum factor = factors ? static_cast<Sum>(factors[i]) : Sum(1);
      for (std::int64_t j = 0; j < kTile; ++j) sums[j] += static_cast<Sum>(row[j]) * factor;
    }
    std::copy_n(sums, kTile, to + column);
    return count;
  }
  std::int64_t sum_rest(std::int64_t bag, std::int64_t column, Sum* __restrict to) const {
    std::fill(to + column, to + width, Sum(0));
    std::int64_t count = 0;
    for (std::int64_t i = ranges.begin(bag); i < ranges.end(bag); ++i) {
      if (column == 0) fetch(i);
      const std::int64_t index = at[i];
      if (index == problem.padding) continue;
      ++count;
      const T* const row = table + index * width;
      const Sum factor = factors ? static_cast<Sum>(factors[i]) : Sum(1);
      for (std::int64_t j = column; j < width; ++j) to[j] += static_cast<Sum>(row[j]) * factor;
    }
    return count;
  }
  void sum_bag(std::int64_t bag, Sum* to) const {
    std::int64_t count = 0, column = 0;
    for (; column + kTile <= width; column += kTile) count = sum_tile(bag, column, to);
    if (column < width) count = sum_rest(bag, column, to);
    if (problem.mode != BagMode::mean || count < 2) return;
    const Sum number = static_cast<Sum>(count);
    for (std::int64_t j = 0; j < width; ++j) to[j] /= number;
  }
  void max_bag(std::int64_t bag, Sum* to) const {
    std::int64_t* const from = places ? places + bag * width : nullptr;
    std::fill_n(to, width, Sum(0));
    if (from) std::fill_n(from, width, std::int64_t{-1});
    bool first = true;
    for (std::int64_t i = ranges.begin(bag); i < ranges.end(bag); ++i) {
      fetch(i);
      const std::int64_t index = at[i];
      if (index == problem.padding) continue;
      const T* const row = table + index * width;
      for (std::int64_t j = 0; j < width; ++j) {
        const Sum value = static_cast<Sum>(row[j]);
        if (!first && !(value > to[j] || (std::isnan(value) && !std::isnan(to[j])))) continue;
        to[j] = value;
        if (from) from[j] = index;
      }
      first = false;
    }
  }
  void run() const {
    parallel_chunks(
        problem.bags, bag_grain(problem.bags, at.size(), width), [&](std::int64_t begin, std::int64_t end) {
          std::vector<Sum> sums(std::is_same_v<T, Sum> ? 0 : static_cast<std::size_t>(width));
          for (std::int64_t bag = begin; bag < end; ++bag) {
            T* const to = y + bag * width;
            if constexpr (std::is_same_v<T, Sum>) {
              problem.mode == BagMode::max ? max_bag(bag, to) : sum_bag(bag, to);
            } else {
              problem.mode == BagMode::max ? max_bag(bag, sums.data()) : sum_bag(bag, sums.data());
              for (std::int64_t j = 0; j < width; ++j) to[j] = T(sums[static_cast<std::size_t>(j)]);
            }
          }
        });
  }
};

template <class T> const T* read_bag_array(const NDArray& array) {
  return array.defined() ? array.data<const T>() : nullptr;
}

void embedding_bag_kernel(const KernelContext&, const BagProblem& problem, const NDArray& weight,
                          const NDArray& indices, const NDArray& sample_weights, const NDArray& y,
                          const NDArray& places) {
  const CheckedIndices at(problem.op, indices, weight.shape()[0], false, y);
  at.check_all();
  const BagRanges ranges(problem.op, problem.offsets, problem.length, at.size());
  if (y.size() == 0) return;
  const auto run = [&]<class T>() {
    BagForward<T>{problem,
                  ranges,
                  at,
                  row_width(weight.shape()),
                  weight.data<const T>(),
                  read_bag_array<T>(sample_weights),
                  y.data<T>(),
                  places.defined() ? places.data<std::int64_t>() : nullptr}
        .run();
  };
  if (y.dtype() == DType::f16) return run.template operator()<Float16>();
  if (y.dtype() == DType::bf16) return run.template operator()<BFloat16>();
  visit_floating(y.dtype(), run);
}

// The rows of a gradient by bags, for mean divided by the number of a bag's indices.
template <class T> class BagGradientRows {
 public:
  BagGradientRows(const BagProblem& problem, const BagRanges& ranges, const CheckedIndices& at,
                  const T* gradient, std::int64_t width)
      : rows_(gradient), width_(width) {
    if (problem.mode != BagMode::mean || problem.bags * width == 0) return;
    scaled_.emplace(static_cast<std::size_t>(problem.bags * width) * sizeof(T));
    T* const to = scaled_->as<T>();
    parallel_chunks(problem.bags, bag_grain(problem.bags, at.size(), width),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t bag = begin; bag < end; ++bag) {
                        std::int64_t count = 0;
                        for (std::int64_t i = ranges.begin(bag); i < ranges.end(bag); ++i)
                          count += at[i] != problem.padding;
                        const T number = static_cast<T>(std::max<std::int64_t>(1, count));
                        for (std::int64_t j = bag * width; j < (bag + 1) * width; ++j)
                          to[j] = gradient[j] / number;
                      }
                    });
    rows_ = to;
  }
  const T* of(std::int64_t bag) const { return rows_ + bag * width_; }

 private:
  const T* rows_;
  std::int64_t width_;
  std::optional<Scratch> scaled_;
};

// Each chunk owns some columns, so that no two of them add to one element.
template <class F> void for_columns(std::int64_t width, std::int64_t work, F&& body) {
  constexpr std::int64_t kColumns = 64;
  const std::int64_t tiles = (width + kColumns - 1) / kColumns;
  const std::int64_t each = std::max<std::int64_t>(1, work * std::min(width, kColumns));
  parallel_chunks(
      tiles, std::max<std::int64_t>(1, kElementGrain / each),
      [&](std::int64_t begin, std::int64_t end) { body(begin * kColumns, std::min(width, end * kColumns)); });
}

template <class T>
void add_bags(const BagProblem& problem, const BagRanges& ranges, const CheckedIndices& at, const T* gradient,
              const T* factors, std::int64_t width, T* whole) {
  const BagGradientRows<T> rows(problem, ranges, at, gradient, width);
  for_columns(width, at.size(), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t bag = 0; bag < problem.bags; ++bag) {
      const T* const from = rows.of(bag);
      for (std::int64_t i = ranges.begin(bag); i < ranges.end(bag); ++i) {
        const std::int64_t index = at[i];
        if (index == problem.padding) continue;
        T* const to = whole + index * width;
        const T factor = factors ? factors[i] : T(1);
        for (std::int64_t j = first; j < last; ++j) to[j] += from[j] * factor;
      }
    }
  });
}

template <class T>
void add_maxima(std::int64_t bags, std::int64_t rows, const T* gradient, const std::int64_t* places,
                std::int64_t width, T* whole) {
  for_columns(width, bags, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      for (std::int64_t j = first; j < last; ++j) {
        const std::int64_t place = places[bag * width + j];
        if (place >= 0 && place < rows) whole[place * width + j] += gradient[bag * width + j];
      }
    }
  });
}

void embedding_bag_gradient_kernel(const KernelContext&, const BagProblem& problem, const NDArray& gradient,
                                   const NDArray& indices, const NDArray& sample_weights,
                                   const NDArray& places, const NDArray& whole) {
  const std::int64_t rows = whole.shape()[0], width = row_width(whole.shape());
  if (whole.size() == 0) return;
  if (problem.mode == BagMode::max) {
    return visit_floating(whole.dtype(), [&]<class T>() {
      add_maxima(problem.bags, rows, gradient.data<const T>(), places.data<const std::int64_t>(), width,
                 whole.data<T>());
    });
  }
  const CheckedIndices at(problem.op, indices, rows, false, whole);
  at.check_all();
  const BagRanges ranges(problem.op, problem.offsets, problem.length, at.size());
  visit_floating(whole.dtype(), [&]<class T>() {
    add_bags(problem, ranges, at, gradient.data<const T>(), read_bag_array<T>(sample_weights), width,
             whole.data<T>());
  });
}

template <class T>
void sum_bag_rows(const BagProblem& problem, const BagRanges& ranges, const CheckedIndices& at,
                  const T* gradient, const T* factors, std::int64_t width, const RowSparse& y) {
  const BagGradientRows<T> rows(problem, ranges, at, gradient, width);
  // With factors every index has a row of its own.
  std::vector<T> products(factors ? static_cast<std::size_t>(at.size() * width) : 0);
  std::vector<RowEntry> entries;
  entries.reserve(static_cast<std::size_t>(at.size()));
  for (std::int64_t bag = 0; bag < problem.bags; ++bag) {
    for (std::int64_t i = ranges.begin(bag); i < ranges.end(bag); ++i) {
      const std::int64_t index = at[i];
      if (index == problem.padding) continue;
      const T* from = rows.of(bag);
      if (factors) {
        T* const product = products.data() + i * width;
        for (std::int64_t j = 0; j < width; ++j) product[j] = from[j] * factors[i];
        from = product;
      }
      entries.push_back({index, reinterpret_cast<const std::byte*>(from)});
    }
  }
  sum_entries(std::move(entries), y);
}

void embedding_bag_rows_kernel(const KernelContext&, const BagProblem& problem, const NDArray& gradient,
                               const NDArray& indices, const NDArray& sample_weights, const RowSparse& y) {
  const CheckedIndices at(problem.op, indices, y.shape()[0], false, y.values());
  at.check_all();
  const BagRanges ranges(problem.op, problem.offsets, problem.length, at.size());
  visit_floating(y.dtype(), [&]<class T>() {
    sum_bag_rows(problem, ranges, at, gradient.data<const T>(), read_bag_array<T>(sample_weights),
                 row_width(y.shape()), y);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(embedding_bag) {
  table.add<EmbeddingBagKernel>("embedding_bag", DeviceKind::cpu, embedding_bag_kernel);
  table.add<EmbeddingBagGradientKernel>("embedding_bag_gradient", DeviceKind::cpu,
                                        embedding_bag_gradient_kernel);
  table.add<EmbeddingBagRowsKernel>("embedding_bag_rows", DeviceKind::cpu, embedding_bag_rows_kernel);
}

}  // namespace heddle::cpu_kernels
