#include "allreduce_store.h"

#include <algorithm>

namespace heddle {
namespace {

// Large enough that the bytes cost more than the call, small enough that the last one, which no computation hides, does
// not take long.
constexpr std::size_t kBucketBytes = std::size_t{1} << 20;

// From here on a copy costs more than a call.
constexpr std::size_t kAloneBytes = kBucketBytes / 4;

// A text as the ranks exchange it.
constexpr std::int64_t kTextBytes = 64;

NDArray bytes_of(std::string text) {
  text.resize(kTextBytes);
  return array(std::vector<std::uint8_t>(text.begin(), text.end()), {kTextBytes});
}

std::string text_of(const std::vector<std::uint8_t>& bytes, int rank) {
  const auto begin = bytes.begin() + rank * kTextBytes;
  return {begin, std::find(begin, begin + kTextBytes, 0)};
}

}  // namespace

AllReduceStore::AllReduceStore(std::shared_ptr<Communicator> ranks, const KVStoreOptions& options)
    : ranks_(std::move(ranks)), codec_(make_codec(compression_setting(options.compression))) {
  check_agreement();
}

// Ranks that compress differently would wait for different calls, or read bytes as what they are not.
void AllReduceStore::check_agreement() const {
  const EngineScope scope(ranks_->engine());
  const NDArray all({ranks_->size() * kTextBytes}, DType::u8);
  ranks_->all_gather(bytes_of(codec_ ? codec_->name() : "none"), all);
  const std::vector<std::uint8_t> bytes = all.to_vector<std::uint8_t>();
  const std::string first = text_of(bytes, 0);
  for (int rank = 1; rank < ranks_->size(); ++rank) {
    const std::string other = text_of(bytes, rank);
    if (other == first) continue;
    throw InvalidArgument("KVStore::create: rank 0 has compression " + first + ", rank " +
                          std::to_string(rank) + " has " + other + "; all ranks must have the same");
  }
}

void AllReduceStore::do_init(Key key, const NDArray& value) {
  finish_all();
  local_.init(key, value);
  const NDArray& stored = local_.at("init", key);
  if (stored.device().kind != DeviceKind::cpu)
    throw InvalidArgument("KVStore::init, key " + std::to_string(key) + ": the value is on " +
                          stored.device().to_string() + "; an allreduce store keeps values on a cpu(i)");
  ranks_->broadcast(stored, 0);
}

// The same on all ranks: they have to make the same calls. What compression has left over stays with a bucket.
bool AllReduceStore::goes_alone(const NDArray& value) const {
  return !codec_ && static_cast<std::size_t>(value.size()) * size_of(value.dtype()) >= kAloneBytes;
}

const NDArray& AllReduceStore::memory_of(std::map<Key, NDArray>& all, Key key, const NDArray& value) const {
  NDArray& memory = all[key];
  if (!memory.defined()) memory = ranks_->shared_array(value.shape(), value.dtype());
  return memory;
}

NDArray AllReduceStore::gradient_memory(Key key) {
  const NDArray& value = local_.at("gradient_memory", key);
  return goes_alone(value) && value.device() == cpu() ? memory_of(lent_, key, value) : NDArray();
}

// Nothing is copied to memory that was lent: a gradient may wait there for its own push.
void AllReduceStore::push_alone(Key key, const NDArray& sum, const UpdateOptions& options) {
  const auto lent = lent_.find(key);
  const bool there = lent != lent_.end() && sum.storage() == lent->second.storage() && sum.is_contiguous();
  const NDArray& memory = there ? lent->second : memory_of(copies_, key, sum);
  if (!there) memory.assign(sum.contiguous());
  ranks_->all_reduce(memory);
  local_.push(key, {&memory, 1}, options);
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

void AllReduceStore::do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) {
  const NDArray& value = local_.checked("push", key, values);
  const NDArray sum = push_sum(values, value.device());
  if (goes_alone(value)) return push_alone(key, sum, options);
  const NDArray room = room_for(value);
  room.assign(sum.contiguous().view_as({sum.size()}));
  Bucket& bucket = buckets_[current_];
  bucket.entries.push_back({key, value.shape(), bucket.used, options, CallSite::current()});
  bucket.used += value.size();
  if (static_cast<std::size_t>(bucket.used) * size_of(value.dtype()) >= kBucketBytes) reduce();
}

// What one gradient has left over is of no use to another one: if other keys are in the bucket than the last time, there
// is nothing left over.
void AllReduceStore::reduce_data(Bucket& bucket) const {
  const NDArray data = bucket.data.slice(0, {0, bucket.used});
  if (!codec_ || data.dtype() != DType::f32) return ranks_->all_reduce(data);
  Layout layout;
  for (const Entry& entry : bucket.entries) layout.emplace_back(entry.key, entry.offset);
  if (!bucket.compressed || layout != bucket.layout) {
    bucket.compressed = std::make_unique<CompressedReduce>(ranks_, codec_, bucket.used);
    bucket.layout = std::move(layout);
  }
  bucket.compressed->reduce(data);
}

void AllReduceStore::reduce() {
  Bucket& bucket = buckets_[current_++];
  reduce_data(bucket);
  for (const Entry& entry : bucket.entries) {
    const NDArray sum = bucket.data.slice(0, {entry.offset, entry.offset + element_count(entry.shape)});
    const CallSite site = CallSite::on_behalf_of(entry.where);
    local_.push(entry.key, sum.view_as(entry.shape), entry.options);
  }
  bucket.entries.clear();
  bucket.used = 0;
}

void AllReduceStore::finish_all() {
  if (current_ < buckets_.size() && !buckets_[current_].entries.empty()) reduce();
  current_ = 0;
}

void AllReduceStore::do_pull(Key key, std::span<const NDArray> out) {
  finish_all();
  local_.pull(key, out);
}

void AllReduceStore::do_assign(Key key, const NDArray& value) {
  finish_all();
  local_.assign(key, value);
}

void AllReduceStore::do_set_optimizer(const std::string& name, const OptimizerParams& params) {
  finish_all();
  local_.set_optimizer(name, params);
}

void AllReduceStore::do_set_optimizer_state(const std::map<std::string, NDArray>& state) {
  finish_all();
  local_.set_optimizer_state(state);
}

void AllReduceStore::do_clear_errors() {
  finish_all();
  for (const auto* all : {&lent_, &copies_}) {
    for (const auto& [key, memory] : *all) memory.engine().clear_error(memory.var(), CallSite::current());
  }
  for (const Bucket& bucket : buckets_) {
    bucket.data.engine().clear_error(bucket.data.var(), CallSite::current());
    if (bucket.compressed) bucket.compressed->clear_errors();
  }
  local_.clear_errors();
}

void AllReduceStore::do_barrier() {
  finish_all();
  ranks_->barrier();
}

}  // namespace heddle
