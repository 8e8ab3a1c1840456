// Updates of many weights: one op for the small ones.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include <heddle/graph.h>
#include <heddle/optimizer.h>
#include <heddle/optimizer_update.h>

namespace heddle {

using namespace operators_detail;

namespace {

constexpr std::int64_t kMostOfSmall =
    4096;  // elements of a small weight: the update takes a few microseconds
constexpr std::int64_t kMostOfOp =
    65536;  // elements of an op, so that several workers have ops of a long list
constexpr std::size_t kMostLists = 16;
constexpr std::int64_t kAlign = 16;  // elements of a cache line of f32

bool is_small(const NDArray& weight) {
  return weight.size() > 0 && weight.size() <= kMostOfSmall && weight.device().kind != DeviceKind::cpu_pinned;
}

bool same_memory(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape();
}

}  // namespace

struct Optimizer::ListOp {
  std::shared_ptr<UpdateList> list = std::make_shared<UpdateList>();
  std::vector<std::size_t> places{};
  std::int64_t elements = 0;
};

struct Optimizer::List {
  std::vector<Key> keys;
  std::vector<NDArray> weights;
  std::vector<Device> devices{};                  // of the weights when the list was made
  std::unordered_set<const Storage*> storages{};  // of the weights
  std::vector<ListOp> ops{};
  std::vector<std::size_t> alone{};  // places of the weights that ops of their own update

  bool is_of(std::span<const Key> of_keys, std::span<const NDArray> of_weights) const {
    return std::equal(keys.begin(), keys.end(), of_keys.begin(), of_keys.end()) &&
           std::equal(weights.begin(), weights.end(), of_weights.begin(), of_weights.end(), same_memory) &&
           std::equal(devices.begin(), devices.end(), of_weights.begin(),
                      [](Device device, const NDArray& weight) { return device == weight.device(); });
  }
  bool shares_memory(std::span<const NDArray> grads) const {
    return std::any_of(grads.begin(), grads.end(),
                       [this](const NDArray& grad) { return storages.contains(grad.storage().get()); });
  }
};

// Makes the state of these weights as parts of arrays that hold the state of all of them, so that an op on them has few
// vars. The weights are on one device. No op has used their state so far: a captured graph would go on updating the
// state that was replaced, and the error of one weight's state would be copied into that of all.
void Optimizer::pack(std::span<const Key> keys, std::span<const NDArray> weights,
                     std::span<const std::size_t> places) {
  const EngineScope scope(weights[places[0]].engine());
  const Device device = weights[places[0]].device();
  const NDArray counts = zeros({std::ssize(places)}, DType::i64);
  std::int64_t number = 0;
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::int64_t room = 0;
    for (const std::size_t i : places)
      if (weights[i].dtype() == dtype) room += (weights[i].size() + kAlign - 1) / kAlign * kAlign;
    if (room == 0) continue;
    std::vector<NDArray> whole;
    for (std::size_t s = 0; s < state_.size(); ++s) whole.push_back(zeros({room}, dtype, device));
    std::int64_t begin = 0;
    for (const std::size_t i : places) {
      if (weights[i].dtype() != dtype) continue;
      Slot fresh{
          .arrays = {}, .updates = counts.slice(0, {number, number + 1}), .row_updates = {}, .packed = true};
      for (const NDArray& array : whole)
        fresh.arrays.push_back(
            array.slice(0, {begin, begin + weights[i].size()}).view_as(weights[i].shape()));
      if (const auto old = slots_.find(keys[i]); old != slots_.end()) {
        const Slot& slot = slot_of(keys[i], weights[i]);
        for (std::size_t s = 0; s < state_.size(); ++s) fresh.arrays[s].assign(slot.arrays[s]);
        fresh.updates.assign(slot.updates);
      }
      slots_[keys[i]] = std::move(fresh);
      begin += (weights[i].size() + kAlign - 1) / kAlign * kAlign;
      ++number;
    }
  }
}

std::shared_ptr<Optimizer::List> Optimizer::make_list(std::span<const Key> keys,
                                                      std::span<const NDArray> weights) {
  auto list = std::make_shared<List>(List{.keys = {keys.begin(), keys.end()}, .weights = {}});
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    list->weights.push_back(weights[i].detach());
    list->devices.push_back(weights[i].device());
    const auto slot = slots_.find(keys[i]);
    const bool known = slot != slots_.end();
    if (known) follow(keys[i], weights[i], slot->second);
    list->storages.insert(weights[i].storage().get());
    const bool packed = known && slot->second.packed;
    const bool packable = !is_capturing() && !(known && slot->second.used);
    const bool fits = is_small(weights[i]) && weights[i].device() == weights[0].device() &&
                      !(known && slot->second.row_updates.defined()) && (packed || packable);
    (fits ? small : list->alone).push_back(i);
  }
  // Updates of weights that share memory keep their order.
  if (small.size() < 2 || list->storages.size() < keys.size()) {
    list->alone.insert(list->alone.end(), small.begin(), small.end());
    std::sort(list->alone.begin(), list->alone.end());
    return list;
  }
  for (const std::size_t i : small) {
    const std::int64_t size = weights[i].size();
    if (list->ops.empty() || list->ops.back().elements + size > kMostOfOp) list->ops.emplace_back();
    list->ops.back().places.push_back(i);
    list->ops.back().elements += size;
  }
  for (ListOp& op : list->ops) fill(op, keys, weights);
  return list;
}

// The arrays of an op whose places are known. The state of each op is packed apart from that of others, on which the op
// would wait otherwise.
void Optimizer::fill(ListOp& op, std::span<const Key> keys, std::span<const NDArray> weights) {
  std::vector<std::size_t> fresh;
  for (const std::size_t i : op.places) {
    const auto slot = slots_.find(keys[i]);
    if (slot == slots_.end() || !slot->second.packed) fresh.push_back(i);
  }
  if (!fresh.empty()) pack(keys, weights, fresh);
  std::unordered_set<const Storage*> changed;
  const auto add = [&](const NDArray& array) {
    if (changed.insert(array.storage().get()).second) op.list->changed.push_back(array);
  };
  for (const std::size_t i : op.places) {
    const UpdatedArrays arrays = arrays_of(weights[i], slot_of(keys[i], weights[i]));
    add(arrays.weight), add(arrays.updates);
    for (const NDArray& array : arrays.state) add(array);
    op.list->arrays.push_back(arrays);
  }
}

std::shared_ptr<const Optimizer::List> Optimizer::list_of(std::span<const Key> keys,
                                                          std::span<const NDArray> weights) {
  for (const auto& list : lists_)
    if (list->is_of(keys, weights)) return list;
  std::shared_ptr<const List> list = make_list(keys, weights);
  if (is_capturing()) return list;
  if (lists_.size() == kMostLists) lists_.erase(lists_.begin());
  lists_.push_back(list);
  return list;
}

void Optimizer::check_alike(Key key, const NDArray& weight, const NDArray& grad) const {
  if (!weight.defined() || !grad.defined()) ndarray_detail::refuse_undefined(text_of(key).c_str());
  check_like_weight(key, weight, grad.dtype(), grad.shape());
  check_device(key, weight, grad.device());
}

void Optimizer::update_all(std::span<const Key> keys, std::span<const NDArray> weights,
                           std::span<const NDArray> grads, const UpdateOptions& options, Where where) {
  const CallSite site(where);
  if (keys.size() != weights.size() || keys.size() != grads.size()) {
    throw InvalidArgument("optimizer " + name_ + ": got " + std::to_string(keys.size()) + " keys, " +
                          std::to_string(weights.size()) + " weights and " + std::to_string(grads.size()) +
                          " gradients; want one of each for a weight");
  }
  if (keys.empty()) return;
  check_options(options);
  for (std::size_t i = 0; i < keys.size(); ++i) check_alike(keys[i], weights[i], grads[i]);
  const std::shared_ptr<const List> list = list_of(keys, weights);
  if (list->shares_memory(grads)) {
    for (std::size_t i = 0; i < keys.size(); ++i) update(keys[i], weights[i], grads[i], options);
    return;
  }
  for (const std::size_t i : list->alone) update(keys[i], weights[i], grads[i], options);
  const UpdateCall call = call_of(options);
  for (const ListOp& op : list->ops) {
    std::vector<NDArray> of_op;
    of_op.reserve(op.places.size());
    for (const std::size_t i : op.places)
      of_op.push_back(grads[i].is_contiguous() ? grads[i].detach() : grads[i].detach().copy());
    push_update(*rule_, op.list, std::move(of_op), call);
  }
}

}  // namespace heddle
