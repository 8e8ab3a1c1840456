#include "stores/local_store.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <heddle/array_op.h>
#include <heddle/ops.h>
#include <heddle/parallel.h>

#include "stores/adding.h"
#include "stores/row_values.h"
#include "stores/update_rule.h"

namespace heddle {
namespace {

constexpr std::int64_t kGrain = 16384;

template <class T> void sum_arrays(const std::vector<NDArray>& values, const NDArray& sum) {
  std::vector<const T*> from;
  for (const NDArray& value : values) from.push_back(value.data<const T>());
  T* to = sum.data<T>();
  // Every element is added in the order of the list, whichever thread computes its chunk.
  parallel_for(sum.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[0][i];
    for (std::size_t k = 1; k < from.size(); ++k) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(to[i] + from[k][i]);
    }
  });
}

// Adds the values in their order on a GPU. The first sum is made while the third value is still on its way from another GPU.
NDArray sum_on_gpu(std::span<const NDArray> values, Device device, DType wide) {
  const auto term = [&](const NDArray& value) {
    const NDArray here = value.device() == device ? value.detach() : value.detach().copy_to(device);
    return here.dtype() == wide ? here : here.astype(wide);
  };
  const NDArray sum = term(values[0]) + term(values[1]);
  for (const NDArray& value : values.subspan(2)) sum += term(value);
  return values[0].dtype() == wide ? sum : sum.astype(values[0].dtype());
}

}  // namespace

std::string describe(const NDArray& array) {
  return array.defined() ? name_of(array.dtype()) + (" " + array.shape().to_string()) : "an undefined array";
}

std::string who_says(const char* call, KVStore::Key key) {
  return "KVStore::" + std::string(call) + ", key " + key.text() + ": ";
}

void check_engine(const char* call, KVStore::Key key, const NDArray& array, const Engine& engine) {
  if (&array.engine() != &engine)
    throw InvalidArgument(who_says(call, key) + "the array belongs to another engine than the store");
}

void check_arrays(const char* call, KVStore::Key key, std::span<const NDArray> arrays, const Shape& shape,
                  DType dtype, const Engine& engine) {
  if (arrays.empty()) throw InvalidArgument(who_says(call, key) + "the list of arrays is empty");
  for (const NDArray& array : arrays) {
    if (!array.defined() || array.shape() != shape || array.dtype() != dtype)
      throw InvalidArgument(who_says(call, key) + "got " + describe(array) + ", stored is " + name_of(dtype) +
                            (" " + shape.to_string()));
    check_engine(call, key, array, engine);
  }
}

void check_targets(const char* call, KVStore::Key key, std::span<const NDArray> out, const Shape& shape,
                   DType dtype, const Engine& engine) {
  check_arrays(call, key, out, shape, dtype, engine);
  for (const NDArray& array : out) check_writable(call, key, array);
}

void check_writable(const char* call, KVStore::Key key, const NDArray& out) {
  if (out.overlaps_itself())
    throw InvalidArgument(who_says(call, key) + "elements of `out`, a view with strides " +
                          out.strides().to_string() + ", share memory");
}

NDArray host_sum(std::span<const NDArray> values) {
  const bool on_gpu = values[0].device().kind == DeviceKind::cuda;
  if (values.size() == 1 && on_gpu) return values[0].detach().copy_to(cpu_pinned());
  return push_sum(values, cpu());
}

NDArray push_sum(std::span<const NDArray> values, Device device) {
  if (values.size() == 1)
    return values[0].device() == device ? values[0].detach() : values[0].detach().copy_to(device);
  // f16 and bf16 are added as f32, and the sum is rounded once
  const DType dtype = values[0].dtype(), wide = is_half(dtype) ? DType::f32 : dtype;
  if (device.kind == DeviceKind::cuda) return sum_on_gpu(values, device, wide);
  std::vector<NDArray> terms;
  for (const NDArray& value : values) {
    NDArray here = value.device().kind == device.kind ? value.detach() : value.detach().copy_to(device);
    terms.push_back(wide == dtype ? here.contiguous() : here.astype(wide));
  }
  EngineScope scope(terms[0].engine());
  NDArray sum(values[0].shape(), wide, device);
  Access access = array_access("kvstore_sum", terms, {&sum, 1});
  sum.engine().push(
      [terms, sum] { visit_number(sum.dtype(), [&]<class T>() { sum_arrays<T>(terms, sum); }); }, access,
      CallSite::current());
  return wide == dtype ? sum : sum.astype(dtype);
}

const NDArray& LocalStore::at(const char* call, Key key) const {
  const auto found = values_.find(key);
  if (found == values_.end())
    throw InvalidArgument(who_says(call, key) + "the key is unknown; init it first");
  return found->second;
}

void LocalStore::check_update(Key key, const NDArray& value, const UpdateOptions& options) const {
  if (optimizer_) optimizer_->check(key, value, options);
  if (adds_) check_add(key, value.dtype(), options);
}

const NDArray& LocalStore::checked_push(Key key, std::span<const NDArray> values,
                                        const UpdateOptions& options) const {
  const NDArray& value = at("push", key);
  check_arrays("push", key, values, value.shape(), value.dtype(), value.engine());
  check_update(key, value, options);
  return value;
}

const NDArray& LocalStore::checked_push(Key key, const RowSparse& value, const UpdateOptions& options) const {
  const NDArray& here = at("push", key);
  check_rows_like("push", key, value, here.shape(), here.dtype());
  check_engine("push", key, value.values(), here.engine());
  check_update(key, here, options);
  if (optimizer_) optimizer_->check_rows(key);
  return here;
}

void LocalStore::check_new(Key key, const NDArray& value) const {
  const std::string who = who_says("init", key);
  if (!value.defined()) throw InvalidArgument(who + "the value is undefined");
  if (values_.contains(key)) throw InvalidArgument(who + "the key exists already");
}

void LocalStore::do_init(Key key, const NDArray& value) {
  check_new(key, value);
  values_[key] = value.detach().copy();
}

void LocalStore::do_adopt(Key key, const NDArray& value) {
  check_new(key, value);
  values_[key] = value.is_contiguous() ? value.detach() : value.detach().copy();
}

void LocalStore::do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) {
  update(key, checked_push(key, values, options), values, options);
}

void LocalStore::update(Key key, const NDArray& value, std::span<const NDArray> values,
                        const UpdateOptions& options) {
  NDArray sum = push_sum(values, value.device());
  if (optimizer_) {
    optimizer_->update(key, value, sum, options);
  } else if (adds_) {
    add_pushed(value, sum, options.grad_scale);
  } else {
    value.assign(sum);
  }
}

void LocalStore::do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                              const UpdateOptions& options) {
  checked_pull(key, out);
  const NDArray& value = checked_push(key, values, options);
  update(key, value, values, options);
  copy_to(value, out);
}

void LocalStore::check_list(std::span<const Key> keys, std::span<const NDArray> values,
                            std::span<const NDArray> out, const UpdateOptions& options) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!values.empty()) checked_push(keys[i], values.subspan(i, 1), options);
    if (!out.empty()) checked_pull(keys[i], out.subspan(i, 1));
  }
}

// The stored values of these keys; null if a key is unknown, or comes twice.
const LocalStore::Listed* LocalStore::listed(std::span<const Key> keys) {
  constexpr std::size_t kMostLists = 16;
  const auto known = std::find_if(lists_.begin(), lists_.end(), [&](const auto& list) {
    return std::equal(keys.begin(), keys.end(), list->keys.begin(), list->keys.end());
  });
  if (known != lists_.end()) return known->get();
  auto list = std::make_unique<Listed>();
  std::set<Key> seen;
  for (const Key key : keys) {
    const auto value = values_.find(key);
    if (value == values_.end() || !seen.insert(key).second) return nullptr;
    list->keys.push_back(key);
    list->stored.push_back(value->second);
  }
  if (lists_.size() == kMostLists) lists_.erase(lists_.begin());
  return lists_.emplace_back(std::move(list)).get();
}

// Updates all values, then copies them to `out`. Returns false, and does nothing, if calls for one key after the other
// might do something else: if a pulled value is another one's gradient.
bool LocalStore::update_list(const Listed& list, std::span<const NDArray> values,
                             std::span<const NDArray> out, const UpdateOptions& options) {
  std::vector<std::size_t> copied;
  for (std::size_t i = 0; i < list.keys.size(); ++i) {
    const NDArray& stored = list.stored[i];
    check_arrays("push", list.keys[i], values.subspan(i, 1), stored.shape(), stored.dtype(), stored.engine());
    if (values[i].device() != stored.device()) return false;
    if (out.empty()) continue;
    if (out[i].defined() && out[i].storage() == stored.storage() && out[i].offset() == stored.offset() &&
        out[i].shape() == stored.shape() && out[i].is_contiguous())
      continue;
    checked_pull(list.keys[i], out.subspan(i, 1));
    copied.push_back(i);
  }
  if (!copied.empty()) {
    std::unordered_set<const Storage*> gradients;
    for (const NDArray& value : values) gradients.insert(value.storage().get());
    for (const std::size_t i : copied)
      if (gradients.contains(out[i].storage().get())) return false;
  }
  optimizer_->update_all(list.keys, list.stored, values, options);
  for (const std::size_t i : copied) copy_to(list.stored[i], out.subspan(i, 1));
  return true;
}

void LocalStore::do_list(std::span<const Key> keys, std::span<const NDArray> values,
                         std::span<const NDArray> out, const UpdateOptions& options) {
  if (optimizer_ && !values.empty()) {
    const Listed* const list = listed(keys);
    if (list && update_list(*list, values, out, options)) return;
  }
  check_list(keys, values, out, options);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const NDArray& value = values_.at(keys[i]);
    if (!values.empty()) update(keys[i], value, values.subspan(i, 1), options);
    if (!out.empty()) copy_to(value, out.subspan(i, 1));
  }
}

void LocalStore::do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) {
  const NDArray& here = checked_push(key, value, options);
  const RowSparse rows = on_device(value, here.device());
  if (optimizer_) {
    optimizer_->update(key, here, rows, options);
  } else if (adds_) {
    add_pushed(here, rows, options.grad_scale);
  } else {
    assign_rows(here, rows);
  }
}

const NDArray& LocalStore::checked_rows(Key key, const NDArray& rows, const NDArray* out) const {
  const NDArray& value = at("pull_rows", key);
  check_pull_rows(key, rows, out, value.shape(), value.dtype(), value.engine());
  return value;
}

RowSparse LocalStore::do_pull_rows(Key key, const NDArray& rows, const NDArray* out) {
  const NDArray& value = checked_rows(key, rows, out);
  const NDArray list = rows_within(key, rows, value.shape()[0]);
  return retain(value, list.device() == value.device() ? list : list.copy_to(value.device()));
}

const NDArray& LocalStore::checked_pull(Key key, std::span<const NDArray> out) const {
  const NDArray& value = at("pull", key);
  check_targets("pull", key, out, value.shape(), value.dtype(), value.engine());
  return value;
}

const NDArray& LocalStore::checked_assign(Key key, const NDArray& value) const {
  const NDArray& here = at("assign", key);
  check_arrays("assign", key, {&value, 1}, here.shape(), here.dtype(), here.engine());
  return here;
}

void LocalStore::do_pull(Key key, std::span<const NDArray> out) { copy_to(checked_pull(key, out), out); }

void LocalStore::copy_to(const NDArray& value, std::span<const NDArray> out) {
  for (const NDArray& array : out) array.detach().assign(value.detach());
}

void LocalStore::do_assign(Key key, const NDArray& value) {
  const NDArray& here = checked_assign(key, value);
  here.assign(value.detach());
}

void LocalStore::do_set_optimizer(const std::string& name, const OptimizerParams& params,
                                  const std::string&) {
  const bool adds = kv_detail::is_add(name, params);
  set_optimizer(adds ? nullptr : create_optimizer(name, params), adds);
}

std::map<std::string, NDArray> LocalStore::optimizer_state() const {
  return optimizer_ ? optimizer_->state() : std::map<std::string, NDArray>{};
}

std::unique_ptr<Optimizer> LocalStore::optimizer_with(const std::map<std::string, NDArray>& state) const {
  if (adds_ && state.empty()) return nullptr;
  if (!optimizer_) throw InvalidArgument("KVStore::set_optimizer_state: the store has no optimizer");
  std::unique_ptr<Optimizer> other = create_optimizer(optimizer_->name(), optimizer_->params());
  other->set_state(state, values_);
  return other;
}

void LocalStore::do_set_optimizer_state(const std::map<std::string, NDArray>& state) {
  optimizer_ = optimizer_with(state);
}

void LocalStore::do_clear_errors() {
  for (const auto& [key, value] : values_) value.engine().clear_error(value.var(), CallSite::current());
  if (optimizer_) optimizer_->clear_errors();
}

}  // namespace heddle
