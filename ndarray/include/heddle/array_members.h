// Operators as members: x.sum() is sum(x).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <heddle/array_arguments.h>
#include <heddle/call_site.h>
#include <heddle/scalar.h>
#include <heddle/shape.h>

namespace heddle {

class NDArray;

// Members of NDArray and of x[mask], each of which is the function of the same name: see the header that is named.
// The members are defined in the library heddle::operators: a program that calls one has to link it.
template <class Array> class ArrayMembers {
 public:
  // Functions of reduce.h and statistics.h.
  NDArray sum(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray mean(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray prod(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray max(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray min(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray std(Dims axes = {}, double correction = 0, bool keepdims = false,  // calls stddev(x, ...)
              Where where = Where::current()) const;
  NDArray norm(double p = 2, Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray any(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray all(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray count_nonzero(Dims axes = {}, bool keepdims = false, Where where = Where::current()) const;
  NDArray argmax(std::optional<int> axis = {}, Where where = Where::current()) const;
  NDArray argmin(std::optional<int> axis = {}, Where where = Where::current()) const;

  // Functions of scan.h, sorting.h and softmax.h.
  NDArray cumsum(int axis = -1, Where where = Where::current()) const;
  NDArray cumprod(int axis = -1, Where where = Where::current()) const;
  NDArray sort(std::optional<int> axis = -1, bool descending = false, Where where = Where::current()) const;
  NDArray argsort(std::optional<int> axis = -1, bool descending = false,
                  Where where = Where::current()) const;
  std::array<NDArray, 2> topk(std::int64_t k, int axis = -1, bool largest = true,
                              Where where = Where::current()) const;
  NDArray softmax(int axis = -1, Where where = Where::current()) const;
  NDArray log_softmax(int axis = -1, Where where = Where::current()) const;

  // Functions of shape_ops.h, rearrange.h and scatter.h. The axis of flatten() has no default: it is 0 in
  // NumPy, 1 in flatten(x).
  NDArray reshape(Shape shape, Where where = Where::current()) const;
  template <ndarray_detail::Size... Sizes>
  requires(sizeof...(Sizes) > 0) auto reshape(Index first, Sizes... rest) const {  // x.reshape(2, 3)
    return reshape(Shape{first.value, static_cast<std::int64_t>(rest)...}, first.where);
  }
  NDArray flatten(int from_axis, Where where = Where::current()) const;
  NDArray transpose(Where where = Where::current()) const;
  NDArray transpose(Dims axes, Where where = Where::current()) const;
  NDArray T(Where where = Where::current()) const;                    // calls transpose(x)
  NDArray permute(Dims axes, Where where = Where::current()) const;   // calls transpose(x, axes)
  NDArray unsqueeze(int axis, Where where = Where::current()) const;  // calls expand_dims(x, axis)
  NDArray squeeze(Dims axes = {}, Where where = Where::current()) const;
  NDArray swapaxes(int axis1, int axis2, Where where = Where::current()) const;
  NDArray broadcast_to(Shape shape, Where where = Where::current()) const;
  NDArray take(const NDArray& indices, int axis = 0, Where where = Where::current()) const;
  NDArray masked_fill(const NDArray& mask, Scalar value, Where where = Where::current()) const;

  // Functions of matmul.h, products.h, elementwise.h and statistics.h.
  NDArray matmul(const NDArray& b, Where where = Where::current()) const;
  NDArray dot(const NDArray& b, Where where = Where::current()) const;
  NDArray pow(const NDArray& exponent, Where where = Where::current()) const;
  NDArray pow(Scalar exponent, Where where = Where::current()) const;
  NDArray clip(Scalar low, Scalar high, Where where = Where::current()) const;
  bool allclose(const NDArray& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                Where where = Where::current()) const;

  // Functions of elementwise.h and elementwise_math.h.
  NDArray abs(Where where = Where::current()) const;
  NDArray sign(Where where = Where::current()) const;
  NDArray square(Where where = Where::current()) const;
  NDArray sqrt(Where where = Where::current()) const;
  NDArray rsqrt(Where where = Where::current()) const;
  NDArray reciprocal(Where where = Where::current()) const;
  NDArray exp(Where where = Where::current()) const;
  NDArray log(Where where = Where::current()) const;
  NDArray log1p(Where where = Where::current()) const;
  NDArray sin(Where where = Where::current()) const;
  NDArray cos(Where where = Where::current()) const;
  NDArray tanh(Where where = Where::current()) const;
  NDArray sigmoid(Where where = Where::current()) const;
  NDArray relu(Where where = Where::current()) const;
  NDArray floor(Where where = Where::current()) const;
  NDArray ceil(Where where = Where::current()) const;
  NDArray round(Where where = Where::current()) const;
  NDArray isnan(Where where = Where::current()) const;
  NDArray isfinite(Where where = Where::current()) const;

 private:
  const Array& self() const { return static_cast<const Array&>(*this); }
};

}  // namespace heddle
