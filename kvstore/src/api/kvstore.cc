#include <heddle/communicator.h>
#include <heddle/compression.h>
#include <heddle/kvstore.h>

#include "stores/allreduce_store.h"
#include "stores/dist_types.h"
#include "stores/local_store.h"
#include "stores/row_values.h"

namespace heddle {

namespace {

void check_no_placement(const std::string& type, const KVStoreOptions& options) {
  if (options.placement.empty() || options.placement == "hash") return;
  throw InvalidArgument("KVStore::create: " + type + " stores have no servers that placement " +
                        options.placement + " could choose from");
}

std::unique_ptr<KVStore> dist_store(const std::string& type, const KVStoreOptions& options) {
  if (make_heddle_dist_store) return std::unique_ptr<KVStore>(make_heddle_dist_store(type, options));
  throw InvalidArgument("KVStore::create: " + type +
                        " stores are in the library heddle::servers, with which this program is not linked");
}

[[noreturn]] void no_such_type(const std::string& type) {
  throw InvalidArgument("KVStore::create: there is no type '" + type +
                        "'; there are local, allreduce, dist_sync, dist_async and dist_ssp:N");
}

}  // namespace

std::unique_ptr<KVStore> KVStore::create(const std::string& type, Where where) {
  return create(type, KVStoreOptions{}, where);
}

std::unique_ptr<KVStore> KVStore::create(const std::string& type, const KVStoreOptions& options,
                                         Where where) {
  if (type == "allreduce") return create(type, Communicator::create(), options, where);
  const CallSite site(where);
  if (is_dist_type(type)) return dist_store(type, options);
  if (type != "local") no_such_type(type);
  check_no_placement(type, options);
  for (const std::string& codec : {options.compression, options.pull_compression}) {
    if (!codec.empty() && make_codec(codec))
      throw InvalidArgument("KVStore::create: nothing of a local store travels that compression " + codec +
                            " would make smaller");
  }
  return std::make_unique<LocalStore>();
}

std::unique_ptr<KVStore> KVStore::create(const std::string& type, std::shared_ptr<Communicator> ranks,
                                         const KVStoreOptions& options, Where where) {
  const CallSite site(where);
  if (type != "allreduce") {
    if (type == "local") throw InvalidArgument("KVStore::create: a local store has no communicator");
    if (is_dist_type(type))
      throw InvalidArgument("KVStore::create: a " + type +
                            " store has no communicator: its workers meet at its servers");
    no_such_type(type);
  }
  if (!ranks) throw InvalidArgument("KVStore::create: the communicator is null");
  check_no_placement(type, options);
  if (!options.pull_compression.empty() && make_codec(options.pull_compression))
    throw InvalidArgument(
        "KVStore::create: pulls of an allreduce store do not travel: for what goes between " +
        std::string("ranks there is `compression`"));
  return std::make_unique<AllReduceStore>(std::move(ranks), options);
}

void KVStore::init(Key key, const NDArray& value, Where where) {
  const CallSite site(where);
  do_init(key, value);
}

void KVStore::adopt(Key key, const NDArray& value, Where where) {
  const CallSite site(where);
  do_adopt(key, value);
}

void KVStore::push(Key key, std::span<const NDArray> values, const UpdateOptions& options, Where where) {
  const CallSite site(where);
  do_push(key, values, options);
}

void KVStore::pull(Key key, std::span<const NDArray> out, Where where) {
  const CallSite site(where);
  do_pull(key, out);
}

void KVStore::push(Key key, std::span<const RowSparse> values, const UpdateOptions& options, Where where) {
  const CallSite site(where);
  for (const RowSparse& value : values)
    if (!value.defined()) throw InvalidArgument(who_says("push", key) + "got an undefined row-sparse array");
  if (values.empty()) throw InvalidArgument(who_says("push", key) + "the list of arrays is empty");
  std::vector<RowSparse> here;
  for (const RowSparse& value : values) here.push_back(on_device(value, values[0].device()));
  do_push_rows(key, here.size() == 1 ? here[0] : sum(here), options);
}

void KVStore::push(Key key, const RowSparse& value, const UpdateOptions& options, Where where) {
  push(key, std::span(&value, 1), options, where);
}

RowSparse KVStore::pull_rows(Key key, const NDArray& rows, Where where) {
  const CallSite site(where);
  check_row_numbers("pull_rows", key, rows);
  return do_pull_rows(key, rows, nullptr);
}

void KVStore::pull_rows(Key key, const NDArray& rows, const NDArray& out, Where where) {
  const CallSite site(where);
  check_row_numbers("pull_rows", key, rows);
  take_rows(key, do_pull_rows(key, rows, &out), rows, out);
}

void KVStore::assign(Key key, const NDArray& value, Where where) {
  const CallSite site(where);
  do_assign(key, value);
}

void KVStore::set_optimizer(const std::string& name, const OptimizerParams& params, Where where) {
  set_optimizer(name, params, "", where);
}

void KVStore::set_optimizer(const std::string& name, const OptimizerParams& params,
                            const std::string& weights, Where where) {
  const CallSite site(where);
  do_set_optimizer(name, params, weights);
}

void KVStore::set_optimizer_state(const std::map<std::string, NDArray>& state, Where where) {
  const CallSite site(where);
  do_set_optimizer_state(state);
}

std::map<std::string, NDArray> KVStore::residuals(Where where) const {
  const CallSite site(where);
  return do_residuals();
}

void KVStore::set_residuals(const std::map<std::string, NDArray>& residuals, Where where) {
  const CallSite site(where);
  do_set_residuals([&] { return residuals; }, false);
}

std::map<std::string, NDArray> KVStore::do_set_residuals(const ReadResiduals& read, bool) {
  std::map<std::string, NDArray> residuals = read();
  if (residuals.empty()) return residuals;
  throw InvalidArgument("KVStore::set_residuals: got '" + residuals.begin()->first +
                        "', but pushes to a store of type " + type() + " leave nothing out");
}

std::map<std::string, NDArray> KVStore::check_residuals(const ReadResiduals& read, Where where) {
  const CallSite site(where);
  return do_set_residuals(read, true);
}

void KVStore::clear_errors(Where where) {
  const CallSite site(where);
  do_clear_errors();
}

void KVStore::barrier(Where where) {
  const CallSite site(where);
  do_barrier();
}

void KVStore::push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                        const UpdateOptions& options, Where where) {
  const CallSite site(where);
  do_push_pull(key, values, out, options);
}

namespace {

void check_lengths(const char* call, std::size_t keys, std::size_t arrays) {
  if (keys == arrays) return;
  throw InvalidArgument("KVStore::" + std::string(call) + ": got " + std::to_string(keys) + " keys and " +
                        std::to_string(arrays) + " arrays, want one array a key");
}

}  // namespace

void KVStore::push(std::span<const Key> keys, std::span<const NDArray> values, const UpdateOptions& options,
                   Where where) {
  const CallSite site(where);
  check_lengths("push", keys.size(), values.size());
  do_list(keys, values, {}, options);
}

void KVStore::pull(std::span<const Key> keys, std::span<const NDArray> out, Where where) {
  const CallSite site(where);
  check_lengths("pull", keys.size(), out.size());
  do_list(keys, {}, out, {});
}

void KVStore::push_pull(std::span<const Key> keys, std::span<const NDArray> values,
                        std::span<const NDArray> out, const UpdateOptions& options, Where where) {
  const CallSite site(where);
  check_lengths("push_pull", keys.size(), values.size());
  check_lengths("push_pull", keys.size(), out.size());
  do_list(keys, values, out, options);
}

void KVStore::broadcast(Key key, const NDArray& value, std::span<const NDArray> out, Where where) {
  const CallSite site(where);
  if (value.defined()) check_targets("pull", key, out, value.shape(), value.dtype(), value.engine());
  do_init(key, value);
  do_pull(key, out);
}

void KVStore::push(Key key, std::initializer_list<NDArray> values, const UpdateOptions& options,
                   Where where) {
  push(key, std::span(values.begin(), values.size()), options, where);
}

void KVStore::push(Key key, const NDArray& value, const UpdateOptions& options, Where where) {
  push(key, std::span(&value, 1), options, where);
}

void KVStore::pull(Key key, std::initializer_list<NDArray> out, Where where) {
  pull(key, std::span(out.begin(), out.size()), where);
}

void KVStore::pull(Key key, const NDArray& out, Where where) { pull(key, std::span(&out, 1), where); }

}  // namespace heddle
