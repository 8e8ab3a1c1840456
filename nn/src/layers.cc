#include <cmath>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/conv.h>
#include <heddle/dropout.h>
#include <heddle/elementwise.h>
#include <heddle/embedding.h>
#include <heddle/layers.h>
#include <heddle/matmul.h>
#include <heddle/number_text.h>
#include <heddle/pooling.h>
#include <heddle/shape_ops.h>

namespace heddle {
namespace {

void check_positive(const char* layer, const char* what, std::int64_t value) {
  if (value >= 1) return;
  throw InvalidArgument(std::string(layer) + ": " + what + " must be at least 1, not " +
                        std::to_string(value));
}

// `wanted` is the input's shape in words: "(batch, 784)".
[[noreturn]] void bad_input(const Layer& layer, const NDArray& x, const std::string& wanted) {
  throw InvalidArgument(layer.to_string() + ": the input is " + name_of(x.dtype()) + " " +
                        x.shape().to_string() + ", wanted is " + wanted);
}

void check_defined(const Layer& layer, const NDArray& x) {
  if (!x.defined()) ndarray_detail::refuse_undefined(layer.to_string().c_str());
}

NDArray zero_bias(std::int64_t size, Device device) {
  NDArray bias = zeros({size}, DType::f32, device);
  set_requires_grad(bias);
  return bias;
}

std::vector<Parameter> weight_and_bias(const NDArray& weight, const NDArray& bias) {
  std::vector<Parameter> all{{"weight", weight}};
  if (bias.defined()) all.push_back({"bias", bias});
  return all;
}

void check_image(const Layer& layer, const NDArray& x) {
  check_defined(layer, x);
  if (x.ndim() != 4) bad_input(layer, x, "(batch, channels, height, width)");
}

Pool2dOptions square_window(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
}

std::string pool_to_string(const char* name, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  std::string text = std::string(name) + "(" + std::to_string(kernel);
  if (stride != kernel) text += ", stride " + std::to_string(stride);
  if (padding != 0) text += ", padding " + std::to_string(padding);
  return text + ")";
}

}  // namespace

Dense::Dense(std::int64_t in, std::int64_t out, DenseOptions options, Generator& generator, Where where)
    : in_(in), out_(out), options_(options) {
  const CallSite site(where);
  check_positive("Dense", "in", in);
  check_positive("Dense", "out", out);
  weight_ = init_weight({out, in}, options.init, generator, options.device);
  if (options.bias) bias_ = zero_bias(out, options.device);
}

NDArray Dense::forward(const NDArray& x) {
  check_defined(*this, x);
  if (x.ndim() != 2 || x.shape()[1] != in_) bad_input(*this, x, "(batch, " + std::to_string(in_) + ")");
  return linear(x, weight_, bias_, {.relu = options_.relu});
}

std::vector<Parameter> Dense::parameters() const { return weight_and_bias(weight_, bias_); }

std::string Dense::to_string() const {
  return "Dense(" + std::to_string(in_) + ", " + std::to_string(out_) + (options_.relu ? ", relu)" : ")");
}

Conv2d::Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, Conv2dLayerOptions options,
               Generator& generator, Where where)
    : in_(in), out_(out), kernel_(kernel), options_(options) {
  const CallSite site(where);
  check_positive("Conv2d", "in", in);
  check_positive("Conv2d", "out", out);
  check_positive("Conv2d", "kernel", kernel);
  check_positive("Conv2d", "stride", options.stride);
  weight_ = init_weight({out, in, kernel, kernel}, options.init, generator, options.device);
  if (options.bias) bias_ = zero_bias(out, options.device);
}

NDArray Conv2d::forward(const NDArray& x) {
  check_defined(*this, x);
  if (x.ndim() != 4 || x.shape()[1] != in_) {
    bad_input(*this, x, "(batch, " + std::to_string(in_) + ", height, width)");
  }
  auto [stride, padding] = std::pair(options_.stride, options_.padding);
  return conv2d(x, weight_, bias_,
                {.stride = {stride, stride}, .padding = {padding, padding}, .relu = options_.relu});
}

std::vector<Parameter> Conv2d::parameters() const { return weight_and_bias(weight_, bias_); }

std::string Conv2d::to_string() const {
  std::string text =
      "Conv2d(" + std::to_string(in_) + ", " + std::to_string(out_) + ", " + std::to_string(kernel_);
  if (options_.stride != 1) text += ", stride " + std::to_string(options_.stride);
  if (options_.padding != 0) text += ", padding " + std::to_string(options_.padding);
  return text + (options_.relu ? ", relu)" : ")");
}

Embedding::Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options,
                     Generator& generator, Where where)
    : sparse_grad_(options.sparse_grad) {
  const CallSite site(where);
  check_positive("Embedding", "rows", rows);
  check_positive("Embedding", "features", features);
  if (!(options.stddev >= 0 && std::isfinite(options.stddev))) {
    throw InvalidArgument("Embedding: stddev must be finite and not negative, not " +
                          number_text(options.stddev));
  }
  weight_ = generator.normal({rows, features}, 0, options.stddev, DType::f32, options.device);
  set_requires_grad(weight_);
}

NDArray Embedding::forward(const NDArray& indices) {
  check_defined(*this, indices);
  if (is_floating(indices.dtype()) || indices.dtype() == DType::boolean)
    bad_input(*this, indices, "integers");
  return embedding(weight_, indices, {.sparse_grad = sparse_grad_});
}

std::string Embedding::to_string() const {
  return "Embedding(" + std::to_string(weight_.shape()[0]) + ", " + std::to_string(weight_.shape()[1]) +
         (sparse_grad_ ? ", sparse gradient)" : ")");
}

MaxPool2d::MaxPool2d(std::int64_t kernel, std::int64_t stride, std::int64_t padding)
    : kernel_(kernel), stride_(stride == 0 ? kernel : stride), padding_(padding) {
  check_positive("MaxPool2d", "kernel", kernel);
  check_positive("MaxPool2d", "stride", stride_);
}

NDArray MaxPool2d::forward(const NDArray& x) {
  check_image(*this, x);
  return max_pool2d(x, square_window(kernel_, stride_, padding_));
}

std::string MaxPool2d::to_string() const { return pool_to_string("MaxPool2d", kernel_, stride_, padding_); }

AvgPool2d::AvgPool2d(std::int64_t kernel, std::int64_t stride, std::int64_t padding)
    : kernel_(kernel), stride_(stride == 0 ? kernel : stride), padding_(padding) {
  check_positive("AvgPool2d", "kernel", kernel);
  check_positive("AvgPool2d", "stride", stride_);
}

NDArray AvgPool2d::forward(const NDArray& x) {
  check_image(*this, x);
  return avg_pool2d(x, square_window(kernel_, stride_, padding_));
}

std::string AvgPool2d::to_string() const { return pool_to_string("AvgPool2d", kernel_, stride_, padding_); }

NDArray Relu::forward(const NDArray& x) {
  check_defined(*this, x);
  return relu(x);
}
NDArray Tanh::forward(const NDArray& x) {
  check_defined(*this, x);
  return tanh(x);
}
NDArray Sigmoid::forward(const NDArray& x) {
  check_defined(*this, x);
  return sigmoid(x);
}

NDArray Flatten::forward(const NDArray& x) {
  check_defined(*this, x);
  if (x.ndim() < 2) bad_input(*this, x, "(batch, ...)");
  return flatten(x);
}

Dropout::Dropout(double probability, Generator& generator)
    : probability_(probability), generator_(&generator) {
  if (probability >= 0 && probability < 1) return;
  throw InvalidArgument("Dropout: the probability must be in [0, 1), not " + number_text(probability));
}

NDArray Dropout::forward(const NDArray& x) {
  check_defined(*this, x);
  return dropout(x, probability_, *generator_, training_);
}

std::string Dropout::to_string() const { return "Dropout(" + number_text(probability_) + ")"; }

}  // namespace heddle
