#include <heddle/communicator.h>
#include <heddle/kvstore.h>

#include "allreduce_store.h"
#include "local_store.h"

namespace heddle {

namespace {

[[noreturn]] void no_such_type(const std::string& type) {
  throw InvalidArgument("KVStore::create: there is no type '" + type + "'; there are local, allreduce");
}

}  // namespace

std::unique_ptr<KVStore> KVStore::create(const std::string& type) {
  if (type == "local") return std::make_unique<LocalStore>();
  if (type == "allreduce") return create(type, Communicator::create());
  no_such_type(type);
}

std::unique_ptr<KVStore> KVStore::create(const std::string& type, std::shared_ptr<Communicator> ranks,
                                         const KVStoreOptions& options) {
  if (type != "allreduce") {
    if (type == "local") throw InvalidArgument("KVStore::create: a local store has no communicator");
    no_such_type(type);
  }
  if (!ranks) throw InvalidArgument("KVStore::create: the communicator is null");
  return std::make_unique<AllReduceStore>(std::move(ranks), options);
}

void KVStore::push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                        const UpdateOptions& options) {
  push(key, values, options);
  pull(key, out);
}

void KVStore::broadcast(Key key, const NDArray& value, std::span<const NDArray> out) {
  init(key, value);
  pull(key, out);
}

void KVStore::push(Key key, std::initializer_list<NDArray> values, const UpdateOptions& options) {
  push(key, std::span(values.begin(), values.size()), options);
}

void KVStore::push(Key key, const NDArray& value, const UpdateOptions& options) {
  push(key, std::span(&value, 1), options);
}

void KVStore::pull(Key key, std::initializer_list<NDArray> out) {
  pull(key, std::span(out.begin(), out.size()));
}

void KVStore::pull(Key key, const NDArray& out) { pull(key, std::span(&out, 1)); }

}  // namespace heddle
