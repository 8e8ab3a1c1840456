#include "data/epoch_order.h"

#include <algorithm>
#include <numeric>

#include <heddle/random.h>

#include "data/scaled.h"

namespace heddle::data_detail {
namespace {

// What random numbers are for: part of Philox's counter, so that no two purposes share numbers.
enum class Purpose : std::uint32_t { order = 1, batches = 2 };

// A number in 0 .. below - 1 for each number `at`.
std::int64_t random_below(const LoaderOptions& options, Purpose purpose, std::int64_t epoch, std::int64_t at,
                          std::int64_t below) {
  const auto wide_at = static_cast<std::uint64_t>(at), wide_epoch = static_cast<std::uint64_t>(epoch);
  const std::array<std::uint32_t, 4> words =
      philox({static_cast<std::uint32_t>(wide_at),
              static_cast<std::uint32_t>(wide_at >> 32) | static_cast<std::uint32_t>(purpose) << 24,
              static_cast<std::uint32_t>(wide_epoch), static_cast<std::uint32_t>(wide_epoch >> 32)},
             {static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)});
  const std::uint64_t bits = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
  return scaled(bits, below);
}

// Fisher and Yates' shuffle.
void shuffle_order(const LoaderOptions& options, Purpose purpose, std::int64_t epoch, std::int64_t* begin,
                   std::int64_t count) {
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(begin[i], begin[random_below(options, purpose, epoch, i, i + 1)]);
}

}  // namespace

std::int64_t examples_of_rank(std::int64_t size, const LoaderOptions& options) {
  return options.remainder == Remainder::drop ? size / options.ranks
                                              : (size + options.ranks - 1) / options.ranks;
}

std::int64_t batches_of_epoch(std::int64_t size, const LoaderOptions& options) {
  const std::int64_t examples = examples_of_rank(size, options);
  return options.drop_last ? examples / options.batch : (examples + options.batch - 1) / options.batch;
}

EpochOrder::EpochOrder(std::int64_t size, std::span<const std::int64_t> lengths, const LoaderOptions& options,
                       std::int64_t epoch)
    : batch_(options.batch), rank_(options.rank), ranks_(options.ranks) {
  const std::int64_t used = examples_of_rank(size, options) * ranks_;
  order_.resize(static_cast<std::size_t>(std::max(size, used)));
  std::iota(order_.begin(), order_.begin() + size, 0);
  if (options.shuffle) shuffle_order(options, Purpose::order, epoch, order_.data(), size);
  for (std::int64_t i = size; i < used; ++i)
    order_[static_cast<std::size_t>(i)] = order_[static_cast<std::size_t>(i - size)];
  order_.resize(static_cast<std::size_t>(used));
  batches_.resize(static_cast<std::size_t>(batches_of_epoch(size, options)));
  for (std::size_t i = 0; i < batches_.size(); ++i)
    batches_[i] = static_cast<std::int64_t>(i) * batch_ * ranks_;
  if (options.bucket_by_length > 0) sort_by_length(lengths, options, epoch);
}

// Each piece is sorted by length, longest first, so that a batch that is too large for memory is found early.
void EpochOrder::sort_by_length(std::span<const std::int64_t> lengths, const LoaderOptions& options,
                                std::int64_t epoch) {
  const std::int64_t wide = batch_ * ranks_, used = static_cast<std::int64_t>(order_.size());
  const std::int64_t batches = (used + wide - 1) / wide, piece = std::min(options.bucket_by_length, batches);
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted;
  for (std::int64_t first = 0; first < used; first += piece * wide) {
    const std::int64_t end = std::min(used, first + piece * wide);
    sorted.clear();
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t index = order_[static_cast<std::size_t>(i)];
      sorted.emplace_back(-lengths[static_cast<std::size_t>(index)], index);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (std::int64_t i = first; i < end; ++i)
      order_[static_cast<std::size_t>(i)] = sorted[static_cast<std::size_t>(i - first)].second;
  }
  // The last batch, which may be smaller, stays the last one.
  const std::int64_t whole = std::min(used / wide, static_cast<std::int64_t>(batches_.size()));
  if (options.shuffle) shuffle_order(options, Purpose::batches, epoch, batches_.data(), whole);
}

std::vector<std::int64_t> EpochOrder::indices(std::int64_t batch) const {
  const std::int64_t begin = batches_[static_cast<std::size_t>(batch)];
  const std::int64_t end =
      begin + std::min(batch_ * ranks_, static_cast<std::int64_t>(order_.size()) - begin);
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>((end - begin + ranks_ - 1) / ranks_));
  for (std::int64_t i = begin + rank_; i < end; i += ranks_)
    result.push_back(order_[static_cast<std::size_t>(i)]);
  return result;
}

}  // namespace heddle::data_detail
