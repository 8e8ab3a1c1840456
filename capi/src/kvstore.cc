#include <heddle/c/kvstore.h>
#include <heddle/default_engine.h>
#include <heddle/kvstore.h>

#include "array_handle.h"
#include "optimizer.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

// Destroyed from below: the store before its engine.
struct LockedStore {
  LockedStore(std::shared_ptr<Engine> of, std::unique_ptr<KVStore> made)
      : engine(std::move(of)), store(std::move(made)) {}
  const std::shared_ptr<Engine> engine;
  std::mutex mutex;  // guards the store
  const std::unique_ptr<KVStore> store;
};

}  // namespace heddle::c

namespace {

// Arrays during a call.
class ArrayList {
 public:
  ArrayList(const heddle_array* const* handles, std::size_t count, const char* call) {
    if (count > 0 && !handles) throw_null(call, "an array of arrays");
    for (std::size_t i = 0; i < count; ++i) {
      used_.emplace_back(handles[i], call);
      arrays_.push_back(used_.back()->array);
    }
  }
  operator std::span<const NDArray>() const { return arrays_; }

 private:
  std::vector<UsedArray> used_;
  std::vector<NDArray> arrays_;
};

template <class Call>
heddle_status with_store(const heddle_kvstore* store, heddle_error** error, const char* name,
                         Call&& call) noexcept {
  return called(error, [&] {
    const std::shared_ptr<LockedStore> of = *Borrowed<heddle_kvstore>(store, name);
    const EngineScope scope(*of->engine);
    const std::lock_guard guard(of->mutex);
    call(*of->store);
  });
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

}  // namespace

heddle_status heddle_kvstore_create(const char* type, const heddle_kvstore_options* options,
                                    heddle_kvstore** store, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_kvstore_create";
    const std::string wanted = text_of(type, kCall, "type");
    if (options) check_struct(options, kCall, "heddle_kvstore_options");
    check_out(store, kCall, "store");
    const std::shared_ptr<Engine> engine = engine_of(options ? options->engine : nullptr, kCall);
    const EngineScope scope(*engine);
    KVStoreOptions how;
    if (options) {
      how.compression = text_or_empty(options->compression);
      how.pull_compression = text_or_empty(options->pull_compression);
      how.placement = text_or_empty(options->placement);
    }
    *store = make_handle<heddle_kvstore>(std::make_shared<LockedStore>(engine, KVStore::create(wanted, how)));
  });
}

heddle_status heddle_kvstore_destroy(heddle_kvstore* store) {
  return guarded(nullptr, [&] {
    if (store) take(store, "heddle_kvstore_destroy");
  });
}

heddle_status heddle_kvstore_rank(const heddle_kvstore* store, int32_t* rank, int32_t* workers,
                                  heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_rank", [&](const KVStore& of) {
    check_out(rank, "heddle_kvstore_rank", "rank");
    check_out(workers, "heddle_kvstore_rank", "workers");
    *rank = of.rank();
    *workers = of.workers();
  });
}

heddle_status heddle_kvstore_init(heddle_kvstore* store, int64_t key, const heddle_array* value,
                                  heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_init",
                    [&](KVStore& to) { to.init(key, UsedArray(value, "heddle_kvstore_init")->array); });
}

heddle_status heddle_kvstore_push(heddle_kvstore* store, int64_t key, const heddle_array* const* values,
                                  size_t count, const heddle_update_options* options, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push", [&](KVStore& to) {
    constexpr const char* kCall = "heddle_kvstore_push";
    to.push(key, std::span<const NDArray>(ArrayList(values, count, kCall)),
            update_options_of(options, kCall));
  });
}

heddle_status heddle_kvstore_pull(heddle_kvstore* store, int64_t key, const heddle_array* const* out,
                                  size_t count, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_pull", [&](KVStore& from) {
    from.pull(key, std::span<const NDArray>(ArrayList(out, count, "heddle_kvstore_pull")));
  });
}

heddle_status heddle_kvstore_push_pull(heddle_kvstore* store, int64_t key, const heddle_array* const* values,
                                       size_t value_count, const heddle_array* const* out, size_t out_count,
                                       const heddle_update_options* options, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push_pull", [&](KVStore& with) {
    constexpr const char* kCall = "heddle_kvstore_push_pull";
    const ArrayList pushed(values, value_count, kCall), pulled(out, out_count, kCall);
    with.push_pull(key, std::span<const NDArray>(pushed), std::span<const NDArray>(pulled),
                   update_options_of(options, kCall));
  });
}

heddle_status heddle_kvstore_set_optimizer(heddle_kvstore* store, const char* name,
                                           const heddle_parameter* parameters, size_t count,
                                           heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_set_optimizer", [&](KVStore& of) {
    constexpr const char* kCall = "heddle_kvstore_set_optimizer";
    of.set_optimizer(text_of(name, kCall, "name"), params_of(parameters, count, kCall));
  });
}

heddle_status heddle_kvstore_barrier(heddle_kvstore* store, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_barrier", [](KVStore& of) { of.barrier(); });
}
