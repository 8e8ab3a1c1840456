#include "stores/allreduce_store.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <heddle/call_tag.h>
#include <heddle/graph.h>

#include "stores/agreement.h"
#include "stores/row_values.h"
#include "stores/update_rule.h"
#include "stores/written_parts.h"

namespace heddle {
namespace {

// Size of a bucket. It is so large that to reduce the bytes takes longer than the fixed cost of a call. It is
// so small that the last bucket, which is reduced when the backward pass is over, does not take long.
constexpr std::size_t kBucketBytes = std::size_t{1} << 20;

// From this size on a gradient is reduced alone, since copying it to a bucket would cost more than a call.
constexpr std::size_t kAloneBytes = kBucketBytes / 4;

std::string text_of(KVStore::Key key) { return "key " + key.text(); }

// A summary of optimizer state, which the ranks compare. It has counts only, since broadcasts make the rest
// of the state equal.
std::string describe(const std::map<std::string, NDArray>& state) {
  std::int64_t keys = 0, least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const auto& [name, value] : state) {
    if (!name.ends_with(".updates")) continue;
    const auto updates = value.item<std::int64_t>();
    ++keys, least = std::min(least, updates), most = std::max(most, updates);
  }
  if (keys == 0) return "that of no key";
  return "that of " + std::to_string(keys) + " keys after " + std::to_string(least) +
         (least < most ? " to " + std::to_string(most) : "") + " updates";
}

// Concatenates all ranks' arrays, each padded to `count` rows.
NDArray gathered(Communicator& ranks, const NDArray& array, std::int64_t count) {
  Shape shape = array.shape();
  const std::int64_t used = std::exchange(shape[0], count);
  NDArray mine = array;
  if (used < count) {
    mine = zeros(shape, array.dtype(), array.device());
    mine.slice(0, {0, used}).assign(array);
  }
  shape[0] = count * ranks.size();
  const NDArray all(shape, array.dtype(), array.device());
  ranks.all_gather(mine, all);
  return all;
}

// Returns the end of the group of list entries that begins at `begin`. All entries of a group are pushed, and
// then pulled in the opposite order, since the value that a backward pass pushes last is needed first. In a
// group no key comes twice, and no array overlaps one that an earlier entry pulls to.
std::size_t end_of_group(std::span<const Key> keys, std::span<const NDArray> values,
                         std::span<const NDArray> out, std::size_t begin) {
  std::set<Key> pushed;
  WrittenParts written;
  for (std::size_t i = begin; i < keys.size(); ++i) {
    if (!values.empty() && (!pushed.insert(keys[i]).second || written.overlap(values[i]))) return i;
    if (written.overlap(out[i])) return i;
    written.add(out[i]);
  }
  return keys.size();
}

}  // namespace

// Checks that all ranks have the same compression. With different ones they would make different collective
// calls, and wait for each other for ever, or misread bytes.
AllReduceStore::AllReduceStore(std::shared_ptr<Communicator> ranks, const KVStoreOptions& options)
    : ranks_(std::move(ranks)) {
  agree(*ranks_, "KVStore::create", "compression", [&] {
    codec_ = make_codec(compression_setting(options.compression));
    return codec_ ? codec_->name() : "none";
  });
}

void AllReduceStore::do_init(Key key, const NDArray& value) {
  local_.check_new(key, value);
  check_engine("init", key, value, ranks_->engine());
  finish_all();
  local_.init(key, value);
  const CallTag tag(*ranks_, "init of " + text_of(key) + ", " + value.shape().to_string());
  on_reducible(local_.at("init", key), [&](const NDArray& here) { ranks_->broadcast(here, 0); });
}

Device AllReduceStore::reduced_on(const NDArray& value) const {
  const Device device = value.device();
  return device.kind == DeviceKind::cuda && device == ranks_->device() && !codec_ ? device : cpu();
}

NDArray AllReduceStore::memory_on(Device device, const Shape& shape, DType dtype) const {
  if (device.kind == DeviceKind::cpu) return ranks_->shared_array(shape, dtype);
  const EngineScope scope(ranks_->engine());
  return NDArray(shape, dtype, device);
}

// Makes a collective call for the value or, if the communicator does not reach its device, for a copy that is copied back.
void AllReduceStore::on_reducible(const NDArray& value,
                                  const std::function<void(const NDArray&)>& call) const {
  if (value.device().kind != DeviceKind::cuda || reduced_on(value) == value.device()) return call(value);
  const NDArray here = value.detach().copy_to(cpu());
  call(here);
  value.detach().assign(here);
}

void AllReduceStore::do_max(const NDArray& array) {
  on_reducible(array, [&](const NDArray& here) { ranks_->all_reduce(here, ReduceOp::max); });
}

// True if gradients of the value are reduced alone, without a bucket. The result is the same on all ranks,
// which have to make the same collective calls. With compression it is false, since residuals belong to
// buckets.
bool AllReduceStore::goes_alone(const NDArray& value) const {
  return !codec_ && static_cast<std::size_t>(value.size()) * size_of(value.dtype()) >= kAloneBytes;
}

const NDArray& AllReduceStore::memory_of(std::map<Key, NDArray>& all, Key key, const NDArray& value) const {
  NDArray& memory = all[key];
  if (!memory.defined()) memory = memory_on(reduced_on(value), value.shape(), value.dtype());
  return memory;
}

NDArray AllReduceStore::gradient_memory(Key key) {
  const NDArray& value = local_.at("gradient_memory", key);
  return goes_alone(value) && value.device() == reduced_on(value) ? memory_of(lent_, key, value) : NDArray();
}

// Reduces a gradient in its lent memory, or else in a copy. The copy is in copies_, not in the key's lent
// memory, since that may have a gradient that is yet to be pushed.
void AllReduceStore::push_alone(Key key, const NDArray& sum, const UpdateOptions& options) {
  const auto lent = lent_.find(key);
  const bool there = lent != lent_.end() && sum.storage() == lent->second.storage() && sum.is_contiguous();
  const NDArray& memory = there ? lent->second : memory_of(copies_, key, sum);
  if (!there) memory.assign(sum.contiguous());
  const CallTag tag(*ranks_, describe({{key, options}}));
  ranks_->all_reduce(memory);
  local_.push(key, {&memory, 1}, options);
}

// Returns a view as large as value into the current bucket or, if it does not fit there, into the next one. Buckets are on
// `device`.
NDArray AllReduceStore::room_for(const NDArray& value, Device device) {
  const auto fits = [&](const Bucket& bucket) {
    return bucket.data.defined() && bucket.data.dtype() == value.dtype() && bucket.data.device() == device &&
           bucket.used + value.size() <= bucket.data.size();
  };
  if (current_ < buckets_.size() && !buckets_[current_].entries.empty() && !fits(buckets_[current_]))
    reduce();
  if (current_ == buckets_.size()) buckets_.emplace_back();
  Bucket& bucket = buckets_[current_];
  if (!fits(bucket)) {
    const auto usual = static_cast<std::int64_t>(kBucketBytes / size_of(value.dtype()));
    bucket.data = memory_on(device, {std::max(usual, value.size())}, value.dtype());
  }
  return bucket.data.slice(0, {bucket.used, bucket.used + value.size()});
}

void AllReduceStore::do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) {
  check_capture("push");
  add(key, values, options);
  if (is_capturing()) finish_all();
}

void AllReduceStore::do_list(std::span<const Key> keys, std::span<const NDArray> values,
                             std::span<const NDArray> out, const UpdateOptions& options) {
  check_capture(values.empty() ? "pull" : "push");
  local_.check_list(keys, values, out, options);
  for (std::size_t begin = 0, end = 0; begin < keys.size(); begin = end) {
    end = out.empty() ? keys.size() : end_of_group(keys, values, out, begin);
    for (std::size_t i = begin; i < end && !values.empty(); ++i) add(keys[i], values.subspan(i, 1), options);
    if (is_capturing()) finish_all();
    for (std::size_t i = end; i-- > begin && !out.empty();) do_pull(keys[i], out.subspan(i, 1));
  }
}

void AllReduceStore::do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                                  const UpdateOptions& options) {
  check_capture("push");
  local_.checked_pull(key, out);
  do_push(key, values, options);
  do_pull(key, out);
}

// Throws Error in a capture while earlier pushes wait in a bucket: each launch would reduce them again.
void AllReduceStore::check_capture(const char* call) const {
  const bool waits = current_ < buckets_.size() && !buckets_[current_].entries.empty();
  if (waits && is_capturing())
    throw Error(
        "KVStore::" + std::string(call) +
        ": what was pushed before the capture is not reduced yet; pull, or call barrier(), before it");
}

void AllReduceStore::add(Key key, std::span<const NDArray> values, const UpdateOptions& options) {
  const NDArray& value = local_.checked_push(key, values, options);
  const NDArray sum = push_sum(values, value.device());
  if (goes_alone(value)) return push_alone(key, sum, options);
  const NDArray room = room_for(value, reduced_on(value));
  room.assign(sum.contiguous().view_as({sum.size()}));
  Bucket& bucket = buckets_[current_];
  bucket.entries.push_back({key, value.shape(), bucket.used, options, CallSite::current()});
  bucket.used += value.size();
  if (static_cast<std::size_t>(bucket.used) * size_of(value.dtype()) >= kBucketBytes) reduce();
}

// Sums the bucket over the ranks. If it has other keys than the last time, residuals start at 0, since what
// compression has left out of one gradient must not be added to another one.
void AllReduceStore::reduce_data(Bucket& bucket, const NDArray& data,
                                 const std::vector<Entry>& entries) const {
  std::vector<PushedKey> pushes;
  for (const Entry& entry : entries) pushes.push_back({entry.key, entry.options});
  const CallTag tag(*ranks_, describe(pushes));
  if (!codec_ || data.dtype() != DType::f32) return ranks_->all_reduce(data);
  Layout layout;
  for (const Entry& entry : entries) layout.emplace_back(entry.key, entry.offset);
  if (!bucket.compressed || layout != bucket.layout) {
    bucket.compressed = std::make_unique<CompressedReduce>(ranks_, codec_, data.size());
    bucket.layout = std::move(layout);
  }
  bucket.compressed->reduce(data);
}

void AllReduceStore::reduce() {
  Bucket& bucket = buckets_[current_++];
  const std::vector<Entry> entries = std::exchange(bucket.entries, {});
  const NDArray data = bucket.data.slice(0, {0, std::exchange(bucket.used, 0)});
  reduce_data(bucket, data, entries);
  for (const Entry& entry : entries) {
    const NDArray sum = data.slice(0, {entry.offset, entry.offset + element_count(entry.shape)});
    const CallSite site = CallSite::on_behalf_of(entry.where);
    local_.push(entry.key, sum.view_as(entry.shape), entry.options);
  }
}

void AllReduceStore::finish_all() {
  if (current_ < buckets_.size() && !buckets_[current_].entries.empty()) reduce();
  current_ = 0;
}

// The largest capacity of the rows that any rank pushes. Blocks until all ranks call it, but waits for no
// gradient, since a capacity is part of a shape.
std::int64_t AllReduceStore::most_rows(const RowSparse& value) const {
  const EngineScope scope(ranks_->engine());
  const NDArray room = full({1}, value.capacity(), DType::i64);
  ranks_->all_reduce(room, ReduceOp::max);
  return room.item<std::int64_t>();
}

// Gathers the rows of all ranks, padded to the largest capacity, and adds them in the order of the ranks.
void AllReduceStore::do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) {
  check_capture("push");
  const NDArray& here = local_.checked_push(key, value, options);
  const auto is_of_key = [&](const Entry& entry) { return entry.key == key; };
  if (current_ < buckets_.size()) {
    const std::vector<Entry>& before = buckets_[current_].entries;
    if (std::any_of(before.begin(), before.end(), is_of_key)) reduce();
  }
  const EngineScope scope(ranks_->engine());
  const RowSparse mine =
      on_device(value, here.device().kind == DeviceKind::cuda ? reduced_on(here) : here.device());
  const CallTag tag(*ranks_, "rows of " + describe({{key, options}}));
  const std::int64_t room = most_rows(mine);
  if (room == 0) return local_.push(key, mine, options);
  const NDArray rows = gathered(*ranks_, mine.rows(), room), values = gathered(*ranks_, mine.values(), room),
                counts = gathered(*ranks_, mine.count(), 1);
  std::vector<RowSparse> all;
  for (std::int64_t rank = 0; rank < ranks_->size(); ++rank) {
    const Slice part{rank * room, (rank + 1) * room};
    all.emplace_back(here.shape(), rows.slice(0, part), values.slice(0, part),
                     counts.slice(0, {rank, rank + 1}));
  }
  local_.push(key, sum(all), options);
}

RowSparse AllReduceStore::do_pull_rows(Key key, const NDArray& rows, const NDArray* out) {
  local_.checked_rows(key, rows, out);
  check_capture("pull_rows");
  finish_all();
  return local_.do_pull_rows(key, rows, out);
}

void AllReduceStore::do_pull(Key key, std::span<const NDArray> out) {
  local_.checked_pull(key, out);
  check_capture("pull");
  finish_all();
  local_.pull(key, out);
}

void AllReduceStore::do_assign(Key key, const NDArray& value) {
  local_.checked_assign(key, value);
  check_capture("assign");
  finish_all();
  local_.assign(key, value);
  const CallTag tag(*ranks_, "assign of " + text_of(key));
  on_reducible(local_.at("assign", key), [&](const NDArray& here) { ranks_->broadcast(here, 0); });
}

void AllReduceStore::do_set_optimizer(const std::string& name, const OptimizerParams& params,
                                      const std::string& weights) {
  finish_all();
  if (!weights.empty()) agree(*ranks_, "KVStore::set_optimizer", "list of weights", [&] { return weights; });
  std::unique_ptr<Optimizer> optimizer;
  bool adds = false;
  agree(*ranks_, "KVStore::set_optimizer", "optimizer", [&] {
    adds = kv_detail::is_add(name, params);
    if (adds) return name;
    optimizer = create_optimizer(name, params);
    return describe(optimizer->name(), optimizer->params());
  });
  local_.set_optimizer(std::move(optimizer), adds);
}

void AllReduceStore::do_set_optimizer_state(const std::map<std::string, NDArray>& state) {
  finish_all();
  std::unique_ptr<Optimizer> optimizer;
  agree(*ranks_, "KVStore::set_optimizer_state", "state", [&] {
    optimizer = local_.optimizer_with(state);
    return describe(optimizer ? optimizer->state() : state);
  });
  local_.set_optimizer(std::move(optimizer), local_.adds());
  for (const auto& [name, value] : local_.optimizer_state()) {
    const CallTag tag(*ranks_, "state " + name);
    on_reducible(value, [&](const NDArray& here) { ranks_->broadcast(here, 0); });
  }
}

void AllReduceStore::do_clear_errors() {
  finish_all();
  for (const auto* all : {&lent_, &copies_}) {
    for (const auto& [key, memory] : *all) memory.engine().clear_error(memory.var(), CallSite::current());
  }
  for (const Bucket& bucket : buckets_) {
    if (!bucket.data.defined()) continue;  // the bucket has no memory yet
    bucket.data.engine().clear_error(bucket.data.var(), CallSite::current());
    if (bucket.compressed) bucket.compressed->clear_errors();
  }
  local_.clear_errors();
}

void AllReduceStore::do_barrier() {
  finish_all();
  ranks_->barrier();
  ranks_->wait();
}

}  // namespace heddle
