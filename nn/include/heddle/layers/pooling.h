// Layers that pool.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/module.h>
#include <heddle/ndarray.h>
#include <heddle/pooling.h>

namespace heddle {

// A window of kernel x kernel elements, and how far apart the windows are; stride 0 means kernel.
class SquareWindow {
 public:
  SquareWindow(const char* layer, std::int64_t kernel, std::int64_t stride, std::int64_t padding);
  Pool2dOptions options() const;
  std::string to_string() const;  // "(2, stride 1)"

 private:
  std::int64_t kernel_, stride_, padding_;
};

// The largest element of each window.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0)
      : window_("MaxPool2d", kernel, stride, padding) {}
  std::string to_string() const override { return "MaxPool2d" + window_.to_string(); }

 private:
  NDArray forward(const NDArray& x) override;
  SquareWindow window_;
};
// The mean of each window.
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0)
      : window_("AvgPool2d", kernel, stride, padding) {}
  std::string to_string() const override { return "AvgPool2d" + window_.to_string(); }

 private:
  NDArray forward(const NDArray& x) override;
  SquareWindow window_;
};

}  // namespace heddle
