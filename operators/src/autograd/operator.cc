#include "autograd/operator.h"

#include <string>

#include <heddle/engine.h>
#include <heddle/shape_ops.h>

namespace heddle::operators_detail {

NDArray make_result(const NDArray& like, const Shape& shape, DType dtype) {
  EngineScope scope(like.engine());
  return NDArray(shape, dtype, like.device());
}

namespace {

void check_pair(const char* op, const NDArray& first, const NDArray& other) {
  if (!other.defined()) ndarray_detail::refuse_undefined(op);
  if (first.device() != other.device()) {
    throw InvalidArgument(std::string(op) + ": arrays on " + first.device().to_string() + " and " +
                          other.device().to_string() + "; copy_to() one of them");
  }
  if (&first.engine() != &other.engine()) {
    throw InvalidArgument(std::string(op) + ": arrays of different engines");
  }
}

}  // namespace

void check_arrays(const char* op, std::span<const NDArray> arrays) {
  if (!arrays.empty() && !arrays.front().defined()) ndarray_detail::refuse_undefined(op);
  for (const NDArray& array : arrays) check_pair(op, arrays.front(), array);
}

void check_arrays(const char* op, std::initializer_list<const NDArray*> arrays) {
  if (arrays.size() && !(*arrays.begin())->defined()) ndarray_detail::refuse_undefined(op);
  for (const NDArray* array : arrays) check_pair(op, **arrays.begin(), *array);
}

void check_floating(const char* op, const NDArray& array) {
  if (is_floating(array.dtype())) return;
  throw InvalidArgument(std::string(op) + ": dtype " + name_of(array.dtype()) + "; wanted a floating one");
}

NDArray wide(const NDArray& x) { return x.defined() && is_half(x.dtype()) ? cast(x, DType::f32) : x; }

Shape broadcast_for(const char* op, const Shape& a, const Shape& b) {
  return ndarray_detail::in_name_of(op, [&] { return broadcast_shapes(a, b); });
}

}  // namespace heddle::operators_detail
