// The members of arrays that are operators, and those of NDArray for automatic differentiation.
#include <heddle/array_members.h>
#include <heddle/ops.h>

namespace heddle {

// Defines the member `name` as a call of heddle::function. Without heddle:: the name would mean the member.
#define HEDDLE_MEMBER_AS(function, name, parameters, ...)                     \
  template <class Array> NDArray ArrayMembers<Array>::name parameters const { \
    return heddle::function(self(), __VA_ARGS__);                             \
  }
#define HEDDLE_MEMBER(name, parameters, ...) HEDDLE_MEMBER_AS(name, name, parameters, __VA_ARGS__)
#define HEDDLE_UNARY_MEMBER(name) HEDDLE_MEMBER(name, (Where where), where)
#define HEDDLE_REDUCTION_MEMBER(name) \
  HEDDLE_MEMBER(name, (Dims axes, bool keepdims, Where where), axes, keepdims, where)

HEDDLE_REDUCTION_MEMBER(sum)
HEDDLE_REDUCTION_MEMBER(mean)
HEDDLE_REDUCTION_MEMBER(prod)
HEDDLE_REDUCTION_MEMBER(max)
HEDDLE_REDUCTION_MEMBER(min)
HEDDLE_REDUCTION_MEMBER(any)
HEDDLE_REDUCTION_MEMBER(all)
HEDDLE_REDUCTION_MEMBER(count_nonzero)
HEDDLE_MEMBER_AS(stddev, std, (Dims axes, double correction, bool keepdims, Where where), axes, correction,
                 keepdims, where)
HEDDLE_MEMBER(norm, (double p, Dims axes, bool keepdims, Where where), p, axes, keepdims, where)
HEDDLE_MEMBER(argmax, (std::optional<int> axis, Where where), axis, where)
HEDDLE_MEMBER(argmin, (std::optional<int> axis, Where where), axis, where)

HEDDLE_MEMBER(cumsum, (int axis, Where where), axis, where)
HEDDLE_MEMBER(cumprod, (int axis, Where where), axis, where)
HEDDLE_MEMBER(sort, (std::optional<int> axis, bool descending, Where where), axis, descending, where)
HEDDLE_MEMBER(argsort, (std::optional<int> axis, bool descending, Where where), axis, descending, where)
HEDDLE_MEMBER(softmax, (int axis, Where where), axis, where)
HEDDLE_MEMBER(log_softmax, (int axis, Where where), axis, where)

HEDDLE_MEMBER(reshape, (Shape shape, Where where), shape, where)
HEDDLE_MEMBER(flatten, (int from_axis, Where where), from_axis, where)
HEDDLE_UNARY_MEMBER(transpose)
HEDDLE_MEMBER(transpose, (Dims axes, Where where), axes, where)
HEDDLE_MEMBER_AS(transpose, T, (Where where), where)
HEDDLE_MEMBER_AS(transpose, permute, (Dims axes, Where where), axes, where)
HEDDLE_MEMBER_AS(expand_dims, unsqueeze, (int axis, Where where), axis, where)
HEDDLE_MEMBER(squeeze, (Dims axes, Where where), axes, where)
HEDDLE_MEMBER(swapaxes, (int axis1, int axis2, Where where), axis1, axis2, where)
HEDDLE_MEMBER(broadcast_to, (Shape shape, Where where), shape, where)
HEDDLE_MEMBER(take, (const NDArray& indices, int axis, Where where), indices, axis, where)
HEDDLE_MEMBER(masked_fill, (const NDArray& mask, Scalar value, Where where), mask, value, where)

HEDDLE_MEMBER(matmul, (const NDArray& b, Where where), b, where)
HEDDLE_MEMBER(dot, (const NDArray& b, Where where), b, where)
HEDDLE_MEMBER_AS(power, pow, (const NDArray& exponent, Where where), exponent, where)
HEDDLE_MEMBER_AS(power, pow, (Scalar exponent, Where where), exponent, where)
HEDDLE_MEMBER(clip, (Scalar low, Scalar high, Where where), low, high, where)

HEDDLE_UNARY_MEMBER(abs)
HEDDLE_UNARY_MEMBER(sign)
HEDDLE_UNARY_MEMBER(square)
HEDDLE_UNARY_MEMBER(sqrt)
HEDDLE_UNARY_MEMBER(rsqrt)
HEDDLE_UNARY_MEMBER(reciprocal)
HEDDLE_UNARY_MEMBER(exp)
HEDDLE_UNARY_MEMBER(log)
HEDDLE_UNARY_MEMBER(log1p)
HEDDLE_UNARY_MEMBER(sin)
HEDDLE_UNARY_MEMBER(cos)
HEDDLE_UNARY_MEMBER(tanh)
HEDDLE_UNARY_MEMBER(sigmoid)
HEDDLE_UNARY_MEMBER(relu)
HEDDLE_UNARY_MEMBER(floor)
HEDDLE_UNARY_MEMBER(ceil)
HEDDLE_UNARY_MEMBER(round)
HEDDLE_UNARY_MEMBER(isnan)
HEDDLE_UNARY_MEMBER(isfinite)

template <class Array>
std::array<NDArray, 2> ArrayMembers<Array>::topk(std::int64_t k, int axis, bool largest, Where where) const {
  return heddle::topk(self(), k, axis, largest, where);
}
template <class Array>
bool ArrayMembers<Array>::allclose(const NDArray& b, double rtol, double atol, bool equal_nan,
                                   Where where) const {
  return heddle::allclose(self(), b, rtol, atol, equal_nan, where);
}

template class ArrayMembers<NDArray>;
template class ArrayMembers<Chosen>;

void NDArray::backward(Where where) const { heddle::backward(*this, {}, where); }
void NDArray::backward(const NDArray& seed, bool keep_tape, Where where) const {
  heddle::backward(*this, seed, keep_tape, where);
}
NDArray NDArray::grad() const { return heddle::grad(*this); }
bool NDArray::requires_grad() const { return heddle::requires_grad(*this); }
void NDArray::set_requires_grad(bool on) { heddle::set_requires_grad(*this, on); }

}  // namespace heddle
