// Residuals of compression as named arrays, for a checkpoint. "bucket0.2.weight" is the residual of the
// gradient of key `weight`, which is the third key in the first bucket. "bucket0.sum" is the residual of this
// rank's part of the sum of the first bucket.
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <heddle/ops.h>

#include "stores/agreement.h"
#include "stores/allreduce_store.h"

namespace heddle {
namespace {

constexpr std::string kBucket = "bucket", kSum = "sum";
constexpr std::uint32_t kMostBuckets = 65'536;

[[noreturn]] void refuse(const std::string& why) { throw InvalidArgument("KVStore::set_residuals: " + why); }

// Takes a number and a dot from the front of `text`: for "12.rest" returns 12 and leaves "rest". Returns
// nothing if `text` does not begin so.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<std::size_t>(stopped - text.data());
  if (error != std::errc() || digits >= text.size() || text[digits] != '.') return {};
  text.remove_prefix(digits + 1);
  return number;
}

struct SavedBucket {
  // Residuals of keys, by their index in the bucket.
  std::map<std::uint32_t, std::pair<Key, NDArray>> parts{};
  NDArray sum{};
};

std::map<std::size_t, SavedBucket> sorted(const std::map<std::string, NDArray>& residuals) {
  std::map<std::size_t, SavedBucket> buckets;
  for (const auto& [name, value] : residuals) {
    if (!value.defined() || value.dtype() != DType::f32)
      refuse("'" + name + "' is " + describe(value) + ", want f32");
    std::string_view rest(name);
    const bool is_bucket = rest.starts_with(kBucket);
    if (is_bucket) rest.remove_prefix(kBucket.size());
    const auto number = is_bucket ? take_number(rest) : std::nullopt;
    if (!number || *number >= kMostBuckets) refuse("what is '" + name + "'?");
    SavedBucket& bucket = buckets[*number];
    if (rest == kSum) {
      bucket.sum = value;
      continue;
    }
    const auto place = take_number(rest);
    if (!place || rest.empty()) refuse("what is '" + name + "'?");
    if (!bucket.parts.try_emplace(*place, Key(rest), value).second)
      refuse("'" + name + "' is at the place of another key");
  }
  return buckets;
}

}  // namespace

std::map<std::string, NDArray> AllReduceStore::do_residuals() const {
  const EngineScope scope(ranks_->engine());
  std::map<std::string, NDArray> all;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (!bucket.compressed) continue;
    const std::string prefix = kBucket + std::to_string(i) + ".";
    const std::vector<float> own = bucket.compressed->residual(), sum = bucket.compressed->sum_residual();
    all[prefix + kSum] = array(sum, {static_cast<std::int64_t>(sum.size())});
    for (std::size_t place = 0; place < bucket.layout.size(); ++place) {
      const auto& [key, offset] = bucket.layout[place];
      const NDArray& value = local_.at("residuals", key);
      const auto begin = own.begin() + offset;
      all[prefix + std::to_string(place) + "." + key.text()] =
          array(std::vector<float>(begin, begin + value.size()), value.shape());
    }
  }
  return all;
}

// Makes buckets with these residuals, which have no memory for gradients yet. Throws InvalidArgument if
// residuals do not fit the store. Sets Bucket::layout, so that reduce_data() can tell whether the residuals
// are still valid.
AllReduceStore::Buckets AllReduceStore::buckets_with(const std::map<std::string, NDArray>& residuals) const {
  const EngineScope scope(ranks_->engine());
  if (!codec_ && !residuals.empty())
    refuse("got '" + residuals.begin()->first + "', but this store does not compress");
  Buckets result;
  for (const auto& [number, saved] : sorted(residuals)) {
    const std::string name = kBucket + std::to_string(number);
    Bucket& bucket = result[number];
    std::int64_t count = 0;
    std::vector<NDArray> flat;
    for (const auto& [place, part] : saved.parts) {
      const auto& [key, value] = part;
      const NDArray& stored = local_.at("set_residuals", key);
      if (value.shape() != stored.shape() || stored.dtype() != DType::f32)
        refuse("key " + key.text() + " is " + describe(value) + ", stored is " + describe(stored));
      if (place != flat.size())
        refuse("number " + std::to_string(flat.size()) + " of " + name + " is missing, before key " +
               key.text());
      bucket.layout.emplace_back(key, count);
      flat.push_back(value.detach().contiguous().view_as({value.size()}));
      count += value.size();
    }
    if (flat.empty() || !saved.sum.defined())
      refuse("of " + name + (flat.empty() ? " there is no key" : " '" + name + "." + kSum + "' is missing"));
    bucket.compressed = std::make_unique<CompressedReduce>(ranks_, codec_, count);
    try {
      bucket.compressed->set_residuals(concat(flat), saved.sum);
    } catch (const InvalidArgument& error) {
      refuse(name + ", of which rank " + std::to_string(rank()) + " of " + std::to_string(workers()) +
             " adds a part: " + error.message());
    }
  }
  return result;
}

std::map<std::string, NDArray> AllReduceStore::do_set_residuals(const ReadResiduals& read, bool only_check) {
  finish_all();
  std::map<std::string, NDArray> residuals;
  Buckets made;
  agree(*ranks_, "KVStore::set_residuals", "checkpoint", [&] {
    residuals = read();
    made = buckets_with(residuals);
    return made.empty() ? "no residuals" : "residuals of " + std::to_string(made.size()) + " buckets";
  });
  if (only_check) return residuals;
  for (Bucket& bucket : buckets_) {
    bucket.compressed.reset();
    bucket.layout.clear();
  }
  if (!made.empty() && buckets_.size() <= made.rbegin()->first) buckets_.resize(made.rbegin()->first + 1);
  for (auto& [number, bucket] : made) {
    buckets_[number].compressed = std::move(bucket.compressed);
    buckets_[number].layout = std::move(bucket.layout);
  }
  return residuals;
}

}  // namespace heddle
