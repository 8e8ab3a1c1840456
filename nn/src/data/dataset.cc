#include <algorithm>
#include <cstring>

#include <heddle/data/dataset.h>
#include <heddle/parallel.h>

namespace heddle {
namespace {

// Bytes that one chunk of a gather copies at least.
constexpr std::int64_t kGatherBytes = 1 << 18;

void check_index(const char* who, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw InvalidArgument(std::string(who) + ": example " + std::to_string(index) + " of " +
                        std::to_string(size));
}

void gather_rows(const NDArray& from, std::span<const std::int64_t> indices, const NDArray& to) {
  const std::int64_t rows = from.size(0);
  const std::int64_t bytes =
      rows == 0 ? 0 : from.size() / rows * static_cast<std::int64_t>(size_of(from.dtype()));
  if (bytes == 0 || indices.empty()) return;
  const std::byte* const source = from.data<const std::byte>();
  std::byte* const target = to.data<std::byte>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGatherBytes / bytes);
  parallel_for(static_cast<std::int64_t>(indices.size()), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t index = indices[static_cast<std::size_t>(i)];
      check_index("ArrayDataset", index, rows);
      std::memcpy(target + i * bytes, source + index * bytes, static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

Example Dataset::read_with(std::int64_t index, ExampleRandom&) const { return read(index); }
bool Dataset::gather(std::span<const std::int64_t>, std::span<const NDArray>) const { return false; }
std::int64_t Dataset::length(std::int64_t) const { return -1; }
std::vector<NDArray> Dataset::used_arrays() const { return {}; }

const std::shared_ptr<const Dataset>& AnyDataset::get(const char* caller) const {
  if (!pointer_) throw InvalidArgument(std::string(caller) + ": dataset is a null pointer");
  return pointer_;
}

ArrayDataset::ArrayDataset(std::vector<NDArray> arrays, Where where) {
  const CallSite site(where);
  if (arrays.empty()) throw InvalidArgument("ArrayDataset: no arrays; wanted one or more");
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string who = "ArrayDataset: array " + std::to_string(i) + " ";
    if (!arrays[i].defined()) throw InvalidArgument(who + "is undefined");
    if (arrays[i].ndim() < 1) throw InvalidArgument(who + "has no axis; wanted one for the examples");
    if (arrays[i].device().kind != DeviceKind::cpu) throw InvalidArgument(who + "is on a GPU; wanted cpu()");
    if (arrays[i].size(0) != arrays[0].size(0)) {
      throw InvalidArgument(who + "has " + std::to_string(arrays[i].size(0)) + " examples, and array 0 has " +
                            std::to_string(arrays[0].size(0)));
    }
    arrays_.push_back(arrays[i].detach().contiguous());
  }
  size_ = arrays[0].size(0);
}

std::vector<ExampleArray> ArrayDataset::arrays() const {
  std::vector<ExampleArray> result;
  for (const NDArray& array : arrays_) {
    ExampleArray each{array.dtype(), {}};
    for (int axis = 1; axis < array.ndim(); ++axis) each.shape.push_back(array.shape()[axis]);
    result.push_back(each);
  }
  return result;
}

Example ArrayDataset::read(std::int64_t index) const {
  check_index("ArrayDataset", index, size_);
  Example example;
  for (const NDArray& array : arrays_) example.push_back(array[index]);
  return example;
}

bool ArrayDataset::gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const {
  for (std::size_t i = 0; i < arrays_.size(); ++i) gather_rows(arrays_[i], indices, batch[i]);
  return true;
}

Subset::Subset(AnyDataset dataset, std::vector<std::int64_t> indices)
    : dataset_(dataset.get("Subset")), indices_(std::move(indices)) {
  for (const std::int64_t index : indices_) check_index("Subset", index, dataset_->size());
}

Example Subset::read(std::int64_t index) const {
  check_index("Subset", index, size());
  return dataset_->read(indices_[static_cast<std::size_t>(index)]);
}

Example Subset::read_with(std::int64_t index, ExampleRandom& random) const {
  check_index("Subset", index, size());
  return dataset_->read_with(indices_[static_cast<std::size_t>(index)], random);
}

bool Subset::gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const {
  std::vector<std::int64_t> inner;
  inner.reserve(indices.size());
  for (const std::int64_t index : indices) {
    check_index("Subset", index, size());
    inner.push_back(indices_[static_cast<std::size_t>(index)]);
  }
  return dataset_->gather(inner, batch);
}

std::int64_t Subset::length(std::int64_t index) const {
  return dataset_->length(indices_.at(static_cast<std::size_t>(index)));
}

ConcatDataset::ConcatDataset(std::vector<AnyDataset> datasets) {
  if (datasets.empty()) throw InvalidArgument("ConcatDataset: no datasets; wanted one or more");
  std::int64_t end = 0;
  for (const AnyDataset& dataset : datasets) {
    datasets_.push_back(dataset.get("ConcatDataset"));
    ends_.push_back(end += datasets_.back()->size());
    const std::vector<ExampleArray> arrays = datasets_.back()->arrays();
    const std::string who = "ConcatDataset: dataset " + std::to_string(datasets_.size() - 1) + " ";
    if (datasets_.size() == 1) arrays_ = arrays;
    if (arrays.size() != arrays_.size()) {
      throw InvalidArgument(who + "has examples of " + std::to_string(arrays.size()) +
                            " arrays, and dataset 0 of " + std::to_string(arrays_.size()));
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (arrays[i].dtype != arrays_[i].dtype || arrays[i].shape.size() != arrays_[i].shape.size()) {
        throw InvalidArgument(who + "has " + name_of(arrays[i].dtype) + " " + arrays[i].shape.to_string() +
                              " as array " + std::to_string(i) + ", and those before " +
                              name_of(arrays_[i].dtype) + " " + arrays_[i].shape.to_string());
      }
      for (int axis = 0; axis < arrays[i].shape.size(); ++axis)
        if (arrays[i].shape[axis] != arrays_[i].shape[axis]) arrays_[i].shape[axis] = kInferred;
    }
  }
}

std::pair<const Dataset*, std::int64_t> ConcatDataset::find(std::int64_t index) const {
  check_index("ConcatDataset", index, size());
  const auto at =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {datasets_[at].get(), index - (at == 0 ? 0 : ends_[at - 1])};
}

Example ConcatDataset::read(std::int64_t index) const {
  const auto [dataset, at] = find(index);
  return dataset->read(at);
}

Example ConcatDataset::read_with(std::int64_t index, ExampleRandom& random) const {
  const auto [dataset, at] = find(index);
  return dataset->read_with(at, random);
}

std::int64_t ConcatDataset::length(std::int64_t index) const {
  const auto [dataset, at] = find(index);
  return dataset->length(at);
}

std::vector<NDArray> ConcatDataset::used_arrays() const {
  std::vector<NDArray> result;
  for (const auto& dataset : datasets_) {
    for (NDArray& array : dataset->used_arrays()) result.push_back(std::move(array));
  }
  return result;
}

bool ConcatDataset::reads_concurrently() const {
  return std::all_of(datasets_.begin(), datasets_.end(),
                     [](auto& dataset) { return dataset->reads_concurrently(); });
}

MapDataset::MapDataset(AnyDataset dataset, Function fn, std::vector<ExampleArray> arrays)
    : MapDataset(std::move(dataset),
                 fn ? RandomFunction([f = std::move(fn)](Example example, ExampleRandom&) {
                   return f(std::move(example));
                 })
                    : RandomFunction(),
                 std::move(arrays)) {}

MapDataset::MapDataset(AnyDataset dataset, RandomFunction fn, std::vector<ExampleArray> arrays)
    : dataset_(dataset.get("MapDataset")), fn_(std::move(fn)), arrays_(std::move(arrays)) {
  if (!fn_) throw InvalidArgument("MapDataset: fn is empty; wanted a function");
  if (arrays_.empty())
    throw InvalidArgument("MapDataset: arrays is empty; wanted a description of what fn returns");
}

Example MapDataset::read(std::int64_t index) const {
  ExampleRandom random(0, 0, index);
  return read_with(index, random);
}

Example MapDataset::read_with(std::int64_t index, ExampleRandom& random) const {
  return fn_(dataset_->read_with(index, random), random);
}

}  // namespace heddle
