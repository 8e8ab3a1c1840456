// LoadedShapes: layers are made for arrays that a file has.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <heddle/error.h>
#include <heddle/ndarray.h>

namespace heddle::nn_detail {

// While one lives, layers that its thread makes begin with zeros in place of random weights, and have only arrays of these
// shapes: a size that a damaged file asks for takes no memory.
class LoadedShapes {
 public:
  explicit LoadedShapes(const std::map<std::string, NDArray>& arrays) : outer_(std::exchange(active_, this)) {
    for (const auto& [name, array] : arrays) shapes_.insert({array.shape().begin(), array.shape().end()});
  }
  ~LoadedShapes() { active_ = outer_; }
  LoadedShapes(const LoadedShapes&) = delete;
  LoadedShapes& operator=(const LoadedShapes&) = delete;

  static const LoadedShapes* active() { return active_; }
  void check(const std::string& layer, const std::string& name, const Shape& shape) const {
    if (!shapes_.count({shape.begin(), shape.end()}))
      throw Error("the '" + name + "' of a " + layer + " is " + shape.to_string() +
                  "; the file has no array of that shape");
  }

 private:
  static inline thread_local const LoadedShapes* active_ = nullptr;
  const LoadedShapes* const outer_;
  std::set<std::vector<std::int64_t>> shapes_;
};

}  // namespace heddle::nn_detail
