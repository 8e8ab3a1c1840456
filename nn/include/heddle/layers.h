// Layers: modules that networks are made of.
//   Sequential net{Conv2d(1, 32, 3, {.padding = 1, .relu = true}), MaxPool2d(2), Flatten(), Dense(6272, 10)};
//   NDArray logits = net(images);
// Written with braces, the layers draw their initial values from left to right. Copies of a layer share its parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/layer_init.h>
#include <heddle/module.h>
#include <heddle/ndarray.h>
#include <heddle/pooling.h>
#include <heddle/random.h>

namespace heddle {

struct DenseOptions {
  bool bias = true, relu = false;  // relu: max(0, .) of the result
  Init init = Init::he;
  Device device{};
};

// x (batch, in) -> x * weight^T + bias (batch, out). Parameters: weight (out, in), bias (out).
class Dense : public Module {
 public:
  Dense(std::int64_t in, std::int64_t out, DenseOptions options = {},
        Generator& generator = default_generator(), Where where = Where::current());
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t in_, out_;
  bool relu_;
  NDArray weight_, bias_;
};

struct Conv2dLayerOptions {
  std::int64_t stride = 1, padding = 0;
  bool bias = true, relu = false;
  Init init = Init::he;
  Device device{};
};

// x (batch, in, h, w) -> (batch, out, h', w'). Parameters: weight (out, in, kernel, kernel), bias (out).
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, Conv2dLayerOptions options = {},
         Generator& generator = default_generator(), Where where = Where::current());
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t in_, out_, kernel_, stride_, padding_;
  bool relu_;
  NDArray weight_, bias_;
};

struct EmbeddingLayerOptions {
  double stddev = 1;         // standard deviation of the initial values, which are normal around 0
  bool sparse_grad = false;  // the weight's gradient is row_sparse_grad(weight), see embedding.h
  Device device{};
};

// Indices (integers) -> rows of the weight: indices' shape + (features). Parameter: weight (rows, features).
class Embedding : public Module {
 public:
  Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options = {},
            Generator& generator = default_generator(), Where where = Where::current());
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& indices) override;
  bool sparse_grad_;
  NDArray weight_;
};

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

// max(x, 0) of each element.
class Relu : public Module {
  NDArray forward(const NDArray& x) override;
};
// tanh(x) of each element.
class Tanh : public Module {
  NDArray forward(const NDArray& x) override;
};
// 1 / (1 + exp(-x)) of each element.
class Sigmoid : public Module {
  NDArray forward(const NDArray& x) override;
};

// (batch, a, b, ...) -> (batch, a * b * ...)
class Flatten : public Module {
  NDArray forward(const NDArray& x) override;
};

// In training zeroes each element with this probability and scales the rest up by 1 / (1 - probability); the
// identity in inference. Draws from the generator, which must outlive the layer, or from that of the calling thread.
class Dropout : public Module {
 public:
  explicit Dropout(double probability) : Dropout(probability, nullptr) {}
  Dropout(double probability, Generator& generator) : Dropout(probability, &generator) {}
  std::string to_string() const override;

 private:
  Dropout(double probability, Generator* generator);
  NDArray forward(const NDArray& x) override;
  double probability_;
  Generator* generator_;  // null: the calling thread's
};

}  // namespace heddle
