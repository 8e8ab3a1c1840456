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

}  // namespace heddle
