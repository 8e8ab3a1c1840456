// Layers: functions on arrays with parameters of their own.
//   Sequential net{Conv2d(1, 32, 3, {.padding = 1, .relu = true}), MaxPool2d(2), Flatten(), Dense(6272, 10)};
//   NDArray logits = net(images);
// Written with braces, the layers draw their initial values from left to right. Copies of a layer share its parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/layer.h>
#include <heddle/layer_init.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

struct DenseOptions {
  bool bias = true, relu = false;  // relu: max(0, .) of the result
  Init init = Init::he;
  Device device{};
};

// x (batch, in) -> x * weight^T + bias (batch, out). Parameters: weight (out, in), bias (out).
class Dense : public Layer {
 public:
  Dense(std::int64_t in, std::int64_t out, DenseOptions options = {},
        Generator& generator = default_generator(), Where where = Where::current());
  std::vector<Parameter> parameters() const override;
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t in_, out_;
  DenseOptions options_;
  NDArray weight_, bias_;
};

struct Conv2dLayerOptions {
  std::int64_t stride = 1, padding = 0;
  bool bias = true, relu = false;
  Init init = Init::he;
  Device device{};
};

// x (batch, in, h, w) -> (batch, out, h', w'). Parameters: weight (out, in, kernel, kernel), bias (out).
class Conv2d : public Layer {
 public:
  Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, Conv2dLayerOptions options = {},
         Generator& generator = default_generator(), Where where = Where::current());
  std::vector<Parameter> parameters() const override;
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t in_, out_, kernel_;
  Conv2dLayerOptions options_;
  NDArray weight_, bias_;
};

struct EmbeddingLayerOptions {
  double stddev = 1;         // of the initial values, which are normal around 0
  bool sparse_grad = false;  // the weight's gradient is row_sparse_grad(weight), see embedding.h
  Device device{};
};

// Indices (integers) -> rows of the weight: indices' shape + (features). Parameter: weight (rows, features).
class Embedding : public Layer {
 public:
  Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options = {},
            Generator& generator = default_generator(), Where where = Where::current());
  std::vector<Parameter> parameters() const override { return {{"weight", weight_}}; }
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& indices) override;
  bool sparse_grad_;
  NDArray weight_;
};

// The largest of each kernel x kernel window; stride 0 means kernel.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t kernel_, stride_, padding_;
};

// The mean of each kernel x kernel window; stride 0 means kernel.
class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = 0);
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t kernel_, stride_, padding_;
};

// max(x, 0), tanh(x) and 1 / (1 + exp(-x)) of each element.
class Relu : public Layer {
 public:
  std::string to_string() const override { return "Relu"; }

 private:
  NDArray forward(const NDArray& x) override;
};
class Tanh : public Layer {
 public:
  std::string to_string() const override { return "Tanh"; }

 private:
  NDArray forward(const NDArray& x) override;
};
class Sigmoid : public Layer {
 public:
  std::string to_string() const override { return "Sigmoid"; }

 private:
  NDArray forward(const NDArray& x) override;
};

// (batch, a, b, ...) -> (batch, a * b * ...)
class Flatten : public Layer {
 public:
  std::string to_string() const override { return "Flatten"; }

 private:
  NDArray forward(const NDArray& x) override;
};

// In training zeroes each element with this probability and scales the rest up by 1 / (1 - probability); the
// identity in inference. The generator must outlive the layer.
class Dropout : public Layer {
 public:
  explicit Dropout(double probability, Generator& generator = default_generator());
  void train(bool on = true) override { training_ = on; }
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  double probability_;
  Generator* generator_;
  bool training_ = true;
};

}  // namespace heddle
