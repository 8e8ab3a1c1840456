// Calls of a DistStore for many keys: small values of consecutive keys are sent together.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/graph.h>

#include "client/bundle_transfer.h"
#include "client/dist_store.h"
#include "stores/local_store.h"

namespace heddle {

using kv_detail::Request;

// Collects keys for one op. The op has the effect of single calls in the order of the keys, since no key is
// added twice, and no array that shares storage with one that an earlier entry pulls to.
class DistStore::Bundle {
 public:
  // `expected`: the most keys that will be added.
  Bundle(DistStore& store, const Request* push, std::size_t expected)
      : store_(store), push_(push), expected_(expected) {}

  void add(BundledKey one, const NDArray& out) {
    if (!fits(one)) send();
    one.key->bundle = number();
    bytes_ += one.key->bytes();
    if (out.defined()) {
      written_.insert(one.out.storage().get());
      outs_.push_back(out);
    }
    if (keys_.empty()) keys_.reserve(std::min(expected_, kv_detail::kMostBundled));
    keys_.push_back(std::move(one));
  }

  void send() {
    if (keys_.empty()) return;
    ++store_.bundles_;
    store_.send_bundle(std::exchange(keys_, {}), push_, std::exchange(outs_, {}));
    written_.clear();
    bytes_ = 0;
  }

 private:
  std::uint64_t number() const { return store_.bundles_ + 1; }
  bool fits(const BundledKey& one) const {
    const auto is_written = [&](const NDArray& array) {
      return array.defined() && !written_.empty() && written_.contains(array.storage().get());
    };
    return keys_.size() < kv_detail::kMostBundled &&
           bytes_ + one.key->bytes() <= BundleTransfer::kMostBytes && one.key->bundle != number() &&
           !is_written(one.value) && !is_written(one.out);
  }

  DistStore& store_;
  const Request* const push_;
  const std::size_t expected_;
  std::vector<BundledKey> keys_;
  std::vector<NDArray> outs_;
  std::unordered_set<const Storage*> written_;
  std::size_t bytes_ = 0;
};

void DistStore::send_bundle(std::vector<BundledKey> keys, const Request* push,
                            const std::vector<NDArray>& outs) {
  const char* const name = !push          ? "kvstore_pull_many"
                           : outs.empty() ? "kvstore_push_many"
                                          : "kvstore_push_pull_many";
  std::vector<NDArray> memory;
  memory.reserve(outs.size());
  for (const BundledKey& one : keys) {
    if (one.out.defined()) memory.push_back(one.out);
  }
  Access access = array_access(name, {}, memory);
  access.read.add(order_);
  for (const BundledKey& one : keys) {
    if (one.value.defined()) access.read.add(one.value.var());
    // A push reads the var, too, since an op that only overwrites a var clears its error.
    access.read.add(one.key->var);
    if (push) access.mutate.add(one.key->var);
  }
  const auto transfer =
      std::make_shared<BundleTransfer>(client_, std::move(keys), push ? std::optional(*push) : std::nullopt);
  engine().push_async(StartBundle{transfer, is_capturing()}, access, CallSite::current());
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (memory[i].storage() != outs[i].storage()) outs[i].assign(memory[i]);
  }
}

// Checks all entries of a list of keys before anything is sent. Returns the records of the keys.
std::vector<DistStore::KeyPtr> DistStore::checked_list(std::span<const Key> keys,
                                                       std::span<const NDArray> values,
                                                       std::span<const NDArray> out,
                                                       const UpdateOptions& options) const {
  std::vector<KeyPtr> entries;
  entries.reserve(keys.size());
  std::optional<DType> good;  // dtype of the last push whose options the optimizer has accepted
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!out.empty()) checked_pull(keys[i], out.subspan(i, 1));
    entries.push_back(values.empty() ? entry_of("pull", keys[i])
                                     : checked("push", keys[i], values.subspan(i, 1)));
    if (values.empty() || good == entries[i]->dtype) continue;
    push_request(keys[i], *entries[i], options);
    good = entries[i]->dtype;
  }
  return entries;
}

void DistStore::do_list(std::span<const Key> keys, std::span<const NDArray> values,
                        std::span<const NDArray> out, const UpdateOptions& options) {
  const std::vector<KeyPtr> entries = checked_list(keys, values, out, options);
  if (entries.empty()) return;
  const bool pushes = !values.empty();
  const Request push = pushes ? push_request(keys[0], *entries[0], options) : Request{};
  Bundle bundle(*this, pushes ? &push : nullptr, keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const KeyPtr& entry = entries[i];
    if (BundleTransfer::may_have(*entry)) {
      const NDArray target = out.empty() ? NDArray() : out[i];
      bundle.add({.key = entry,
                  .value = pushes ? host_sum(values.subspan(i, 1)).contiguous() : NDArray(),
                  .out = target.defined() ? receiver_for(target) : NDArray()},
                 target);
      continue;
    }
    bundle.send();
    if (!pushes) {
      pull_value(entry, out[i]);
      continue;
    }
    Request request = push;
    request.dtype = entry->dtype;
    request.priority = entry->priority;
    const NDArray value = host_sum(values.subspan(i, 1));
    out.empty() ? push_value("kvstore_push", entry, value, request)
                : push_and_pull(entry, value, out[i], request);
  }
  bundle.send();
}

}  // namespace heddle
