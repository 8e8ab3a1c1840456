#include <heddle/c/kvstore.h>

#include "archive.h"
#include "communicator.h"
#include "locked_store.h"
#include "optimizer.h"

using namespace heddle;
using namespace heddle::c;

namespace {

// Access to a store during a call, with the store's mutex locked.
class UsedStore {
 public:
  UsedStore(const heddle_kvstore* store, const char* call)
      : call_(call),
        store_(*HandleAccess<heddle_kvstore>(store, call)),
        scope_(*store_->engine),
        guard_(store_->mutex) {}
  KVStore* operator->() const { return store_->store.get(); }
  const std::shared_ptr<Engine>& engine() const { return store_->engine; }
  const char* call() const { return call_; }

 private:
  const char* call_;
  std::shared_ptr<LockedStore> store_;
  EngineScope scope_;
  std::lock_guard<std::mutex> guard_;
};

// The array of a handle, dense or row-sparse. Throws if it does not belong to the store's engine. The store
// keeps that engine alive.
NDArray array_of(const heddle_array* handle, const UsedStore& store) {
  const HandleAccess<heddle_array> array(handle, store.call());
  check_engine(array->array.engine(), *store.engine(), store.call());
  return array->array;
}
RowSparse array_of(const heddle_row_sparse* handle, const UsedStore& store) {
  const HandleAccess<heddle_row_sparse> rows(handle, store.call());
  check_engine(rows->rows.engine(), *store.engine(), store.call());
  return rows->rows;
}

template <class Part, class From, class Get>
std::vector<Part> list_of(const From* list, std::size_t count, const UsedStore& store, Get&& get) {
  if (count > 0 && !list) throw_null(store.call(), "a list");
  std::vector<Part> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(get(list[i]));
  return parts;
}
std::vector<NDArray> arrays_of(const heddle_array* const* list, std::size_t count, const UsedStore& store) {
  return list_of<NDArray>(list, count, store, [&](const heddle_array* one) { return array_of(one, store); });
}
std::vector<Key> keys_of(const heddle_key* list, std::size_t count, const UsedStore& store) {
  return list_of<Key>(list, count, store, key_of);
}

template <class Call>
heddle_status with_store(const heddle_kvstore* store, heddle_error** error, const char* name,
                         Call&& call) noexcept {
  return called(error, [&] { call(UsedStore(store, name)); });
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

KVStoreOptions store_options_of(const heddle_kvstore_options* options, const char* call) {
  if (!options) return {};
  check_struct(options, call, "heddle_kvstore_options");
  return {.compression = text_or_empty(options->compression),
          .pull_compression = text_or_empty(options->pull_compression),
          .placement = text_or_empty(options->placement)};
}

heddle_kvstore* new_store(const std::shared_ptr<Engine>& engine, std::shared_ptr<KVStore> store) {
  return make_handle<heddle_kvstore>(std::make_shared<LockedStore>(engine, std::move(store)));
}

}  // namespace

heddle_status heddle_kvstore_create(const char* type, const heddle_kvstore_options* options,
                                    heddle_kvstore** store, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_kvstore_create";
    const std::string wanted = text_of(type, kCall, "type");
    const KVStoreOptions how = store_options_of(options, kCall);
    check_out(store, kCall, "store");
    const std::shared_ptr<Engine> engine = engine_of(options ? options->engine : nullptr, kCall);
    const EngineScope scope(*engine);
    *store = new_store(engine, KVStore::create(wanted, how));
  });
}

heddle_status heddle_kvstore_create_over(const char* type, const heddle_communicator* ranks,
                                         const heddle_kvstore_options* options, heddle_kvstore** store,
                                         heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_kvstore_create_over";
    const std::string wanted = text_of(type, kCall, "type");
    const std::shared_ptr<const Rank> rank = *HandleAccess<heddle_communicator>(ranks, kCall);
    const KVStoreOptions how = store_options_of(options, kCall);
    if (options && options->engine)
      throw InvalidArgument(std::string(kCall) + ": the engine is that of the ranks; want null");
    check_out(store, kCall, "store");
    const EngineScope scope(*rank->engine);
    *store = new_store(rank->engine, KVStore::create(wanted, rank->communicator, how));
  });
}

heddle_status heddle_kvstore_destroy(heddle_kvstore* store) {
  return guarded(nullptr, [&] {
    if (store) take(store, "heddle_kvstore_destroy");
  });
}

heddle_status heddle_kvstore_type(const heddle_kvstore* store, const char** type, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_type", [&](const UsedStore& of) {
    check_out(type, of.call(), "type");
    *type = static_text(of->type());
  });
}

heddle_status heddle_kvstore_rank(const heddle_kvstore* store, int32_t* rank, int32_t* workers,
                                  heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_rank", [&](const UsedStore& of) {
    check_out(rank, of.call(), "rank");
    check_out(workers, of.call(), "workers");
    *rank = of->rank();
    *workers = of->workers();
  });
}

heddle_status heddle_kvstore_init(heddle_kvstore* store, heddle_key key, const heddle_array* value,
                                  heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_init",
                    [&](const UsedStore& to) { to->init(key_of(key), array_of(value, to)); });
}

heddle_status heddle_kvstore_push(heddle_kvstore* store, heddle_key key, const heddle_array* const* values,
                                  size_t count, const heddle_update_options* options, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push", [&](const UsedStore& to) {
    to->push(key_of(key), std::span<const NDArray>(arrays_of(values, count, to)),
             update_options_of(options, to.call()));
  });
}

heddle_status heddle_kvstore_pull(heddle_kvstore* store, heddle_key key, const heddle_array* const* out,
                                  size_t count, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_pull", [&](const UsedStore& from) {
    from->pull(key_of(key), std::span<const NDArray>(arrays_of(out, count, from)));
  });
}

heddle_status heddle_kvstore_push_pull(heddle_kvstore* store, heddle_key key,
                                       const heddle_array* const* values, size_t value_count,
                                       const heddle_array* const* out, size_t out_count,
                                       const heddle_update_options* options, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push_pull", [&](const UsedStore& with) {
    const std::vector<NDArray> pushed = arrays_of(values, value_count, with),
                               pulled = arrays_of(out, out_count, with);
    with->push_pull(key_of(key), std::span(pushed), std::span(pulled),
                    update_options_of(options, with.call()));
  });
}

heddle_status heddle_kvstore_broadcast(heddle_kvstore* store, heddle_key key, const heddle_array* value,
                                       const heddle_array* const* out, size_t count, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_broadcast", [&](const UsedStore& with) {
    with->broadcast(key_of(key), array_of(value, with), arrays_of(out, count, with));
  });
}

heddle_status heddle_kvstore_assign(heddle_kvstore* store, heddle_key key, const heddle_array* value,
                                    heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_assign",
                    [&](const UsedStore& to) { to->assign(key_of(key), array_of(value, to)); });
}

heddle_status heddle_kvstore_push_list(heddle_kvstore* store, const heddle_key* keys,
                                       const heddle_array* const* values, size_t count,
                                       const heddle_update_options* options, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push_list", [&](const UsedStore& to) {
    to->push(std::span<const Key>(keys_of(keys, count, to)), arrays_of(values, count, to),
             update_options_of(options, to.call()));
  });
}

heddle_status heddle_kvstore_pull_list(heddle_kvstore* store, const heddle_key* keys,
                                       const heddle_array* const* out, size_t count, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_pull_list", [&](const UsedStore& from) {
    from->pull(std::span<const Key>(keys_of(keys, count, from)), arrays_of(out, count, from));
  });
}

heddle_status heddle_kvstore_push_pull_list(heddle_kvstore* store, const heddle_key* keys,
                                            const heddle_array* const* values, const heddle_array* const* out,
                                            size_t count, const heddle_update_options* options,
                                            heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push_pull_list", [&](const UsedStore& with) {
    with->push_pull(std::span<const Key>(keys_of(keys, count, with)), arrays_of(values, count, with),
                    arrays_of(out, count, with), update_options_of(options, with.call()));
  });
}

heddle_status heddle_kvstore_push_rows(heddle_kvstore* store, heddle_key key,
                                       const heddle_row_sparse* const* values, size_t count,
                                       const heddle_update_options* options, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_push_rows", [&](const UsedStore& to) {
    const auto rows = list_of<RowSparse>(values, count, to,
                                         [&](const heddle_row_sparse* one) { return array_of(one, to); });
    to->push(key_of(key), std::span(rows), update_options_of(options, to.call()));
  });
}

heddle_status heddle_kvstore_pull_rows(heddle_kvstore* store, heddle_key key, const heddle_array* rows,
                                       const heddle_array* out, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_pull_rows", [&](const UsedStore& from) {
    from->pull_rows(key_of(key), array_of(rows, from), array_of(out, from));
  });
}

heddle_status heddle_kvstore_pull_row_sparse(heddle_kvstore* store, heddle_key key, const heddle_array* rows,
                                             heddle_row_sparse** result, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_pull_row_sparse", [&](const UsedStore& from) {
    check_out(result, from.call(), "result");
    *result = new_handle(from->pull_rows(key_of(key), array_of(rows, from)), EngineLink(from.engine()));
  });
}

heddle_status heddle_kvstore_set_optimizer(heddle_kvstore* store, const char* name,
                                           const heddle_parameter* parameters, size_t count,
                                           heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_set_optimizer", [&](const UsedStore& of) {
    of->set_optimizer(text_of(name, of.call(), "name"), params_of(parameters, count, of.call()));
  });
}

heddle_status heddle_kvstore_optimizer_state(const heddle_kvstore* store, heddle_archive** state,
                                             heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_optimizer_state", [&](const UsedStore& of) {
    check_out(state, of.call(), "state");
    *state = new_archive(linked(of->optimizer_state(), of.engine()));
  });
}

heddle_status heddle_kvstore_set_optimizer_state(heddle_kvstore* store, const heddle_archive* state,
                                                 heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_set_optimizer_state", [&](const UsedStore& of) {
    of->set_optimizer_state(ArchiveContent(state, of.call()).of_engine(*of.engine(), of.call()));
  });
}

heddle_status heddle_kvstore_residuals(const heddle_kvstore* store, heddle_archive** residuals,
                                       heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_residuals", [&](const UsedStore& of) {
    check_out(residuals, of.call(), "residuals");
    *residuals = new_archive(linked(of->residuals(), of.engine()));
  });
}

heddle_status heddle_kvstore_set_residuals(heddle_kvstore* store, const heddle_archive* residuals,
                                           heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_set_residuals", [&](const UsedStore& of) {
    of->set_residuals(ArchiveContent(residuals, of.call()).of_engine(*of.engine(), of.call()));
  });
}

heddle_status heddle_kvstore_gradient_memory(heddle_kvstore* store, heddle_key key, heddle_array** memory,
                                             heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_gradient_memory", [&](const UsedStore& of) {
    check_out(memory, of.call(), "memory");
    NDArray lent = of->gradient_memory(key_of(key));
    *memory = lent.defined() ? new_handle(std::move(lent), EngineLink(of.engine())) : nullptr;
  });
}

heddle_status heddle_kvstore_clear_errors(heddle_kvstore* store, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_clear_errors",
                    [](const UsedStore& of) { of->clear_errors(); });
}

heddle_status heddle_kvstore_barrier(heddle_kvstore* store, heddle_error** error) {
  return with_store(store, error, "heddle_kvstore_barrier", [](const UsedStore& of) { of->barrier(); });
}
