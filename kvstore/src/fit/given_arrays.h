// Arrays that the data of a training have given. They may be the program's own, which fit() does not write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <heddle/batches.h>
#include <heddle/ndarray.h>

namespace heddle::fit_detail {

class GivenArrays {
 public:
  void add(const NDArray& array) {
    if (!array.defined()) return;
    if (storages_.size() >= most_) remove_gone();
    storages_[array.storage().get()] = array.storage();
  }
  // Whether the array shares its memory with one that was given.
  bool has(const NDArray& array) const {
    const auto found = storages_.find(array.storage().get());
    return found != storages_.end() && !found->second.expired();
  }

 private:
  void remove_gone() {
    std::erase_if(storages_, [](const auto& one) { return one.second.expired(); });
    most_ = std::max<std::size_t>(kFew, 2 * storages_.size());
  }
  static constexpr std::size_t kFew = 256;
  std::map<const Storage*, std::weak_ptr<Storage>> storages_{};
  std::size_t most_ = kFew;
};

// The batches of another object, of whose arrays `given` learns.
class NotedBatches : public Batches {
 public:
  NotedBatches(std::shared_ptr<Batches> from, GivenArrays& given) : from_(std::move(from)), given_(given) {}
  std::int64_t size() const override { return from_->size(); }
  void start(std::int64_t epoch, std::int64_t first) override { from_->start(epoch, first); }
  std::vector<NDArray> next() override {
    std::vector<NDArray> batch = from_->next();
    for (const NDArray& one : batch) given_.add(one);
    return batch;
  }

 private:
  std::shared_ptr<Batches> from_;
  GivenArrays& given_;
};

}  // namespace heddle::fit_detail
