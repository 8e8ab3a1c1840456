#include <algorithm>
#include <string>

#include <heddle/data/derived_datasets.h>

namespace heddle {
namespace {

void check_place(const char* who, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw InvalidArgument(std::string(who) + ": example " + std::to_string(index) + " of " +
                        std::to_string(size));
}

}  // namespace

Subset::Subset(AnyDataset dataset, std::vector<std::int64_t> indices)
    : dataset_(dataset.get("Subset")), indices_(std::move(indices)) {
  for (const std::int64_t index : indices_) check_place("Subset", index, dataset_->size());
}

Example Subset::read(std::int64_t index) const {
  check_place("Subset", index, size());
  return dataset_->read(indices_[static_cast<std::size_t>(index)]);
}

Example Subset::read_with(std::int64_t index, ExampleRandom& random) const {
  check_place("Subset", index, size());
  return dataset_->read_with(indices_[static_cast<std::size_t>(index)], random);
}

bool Subset::gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const {
  std::vector<std::int64_t> inner;
  inner.reserve(indices.size());
  for (const std::int64_t index : indices) {
    check_place("Subset", index, size());
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
  check_place("ConcatDataset", index, size());
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
