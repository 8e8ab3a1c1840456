#include "allreduce_store.h"

#include <algorithm>

namespace heddle {
namespace {

// Large enough that the bytes cost more than the call, small enough that the last one, which no computation hides, does
// not take long.
constexpr std::size_t kBucketBytes = std::size_t{1} << 20;

}  // namespace

void AllReduceStore::init(Key key, const NDArray& value) {
  finish_all();
  local_.init(key, value);
  const NDArray& stored = local_.at(key);
  if (stored.device().kind != DeviceKind::cpu)
    throw InvalidArgument("KVStore::init, key " + std::to_string(key) + ": the value is on " +
                          stored.device().to_string() + "; an allreduce store keeps values on a cpu(i)");
  ranks_->broadcast(stored, 0);
}

// A view into the current bucket, as large as value; the next bucket's, if it does not fit.
NDArray AllReduceStore::room_for(const NDArray& value) {
  const auto fits = [&](const Bucket& bucket) {
    return bucket.data.defined() && bucket.data.dtype() == value.dtype() &&
           bucket.used + value.size() <= bucket.data.size();
  };
  if (current_ < buckets_.size() && !buckets_[current_].entries.empty() && !fits(buckets_[current_]))
    reduce();
  if (current_ == buckets_.size()) buckets_.emplace_back();
  Bucket& bucket = buckets_[current_];
  if (!fits(bucket)) {
    const auto usual = static_cast<std::int64_t>(kBucketBytes / size_of(value.dtype()));
    bucket.data = ranks_->shared_array({std::max(usual, value.size())}, value.dtype());
  }
  return bucket.data.slice(0, {bucket.used, bucket.used + value.size()});
}

void AllReduceStore::push(Key key, std::span<const NDArray> values, const UpdateOptions& options) {
  const NDArray& value = local_.checked("push", key, values);
  const NDArray sum = push_sum(values, value.device()), room = room_for(value);
  room.assign(sum.contiguous().view_as({sum.size()}));
  Bucket& bucket = buckets_[current_];
  bucket.entries.push_back({key, value.shape(), bucket.used, options});
  bucket.used += value.size();
  if (static_cast<std::size_t>(bucket.used) * size_of(value.dtype()) >= kBucketBytes) reduce();
}

void AllReduceStore::reduce() {
  Bucket& bucket = buckets_[current_++];
  ranks_->all_reduce(bucket.data.slice(0, {0, bucket.used}));
  for (const Entry& entry : bucket.entries) {
    const NDArray sum = bucket.data.slice(0, {entry.offset, entry.offset + element_count(entry.shape)});
    local_.push(entry.key, sum.view_as(entry.shape), entry.options);
  }
  bucket.entries.clear();
  bucket.used = 0;
}

void AllReduceStore::finish_all() {
  if (current_ < buckets_.size() && !buckets_[current_].entries.empty()) reduce();
  current_ = 0;
}

void AllReduceStore::pull(Key key, std::span<const NDArray> out) {
  finish_all();
  local_.pull(key, out);
}

void AllReduceStore::assign(Key key, const NDArray& value) {
  finish_all();
  local_.assign(key, value);
}

void AllReduceStore::set_optimizer(const std::string& name, const OptimizerParams& params) {
  finish_all();
  local_.set_optimizer(name, params);
}

void AllReduceStore::set_optimizer_state(const std::map<std::string, NDArray>& state) {
  finish_all();
  local_.set_optimizer_state(state);
}

void AllReduceStore::clear_errors() {
  finish_all();
  for (const Bucket& bucket : buckets_) bucket.data.engine().clear_error(bucket.data.var());
  local_.clear_errors();
}

void AllReduceStore::barrier() {
  finish_all();
  ranks_->barrier();
}

}  // namespace heddle
