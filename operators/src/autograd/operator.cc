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
  if (!other.defined()) throw InvalidArgument(std::string(op) + ": an array is undefined");
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
  if (!arrays.empty() && !arrays.front().defined()) {
    throw InvalidArgument(std::string(op) + ": an array is undefined");
  }
  for (const NDArray& array : arrays) check_pair(op, arrays.front(), array);
}

void check_arrays(const char* op, std::initializer_list<const NDArray*> arrays) {
  if (arrays.size() && !(*arrays.begin())->defined()) {
    throw InvalidArgument(std::string(op) + ": an array is undefined");
  }
  for (const NDArray* array : arrays) check_pair(op, **arrays.begin(), *array);
}

void check_floating(const char* op, const NDArray& array) {
  if (is_floating(array.dtype())) return;
  throw InvalidArgument(std::string(op) + ": dtype " + name_of(array.dtype()) + "; wanted a floating one");
}

NDArray wide(const NDArray& x) { return x.defined() && is_half(x.dtype()) ? cast(x, DType::f32) : x; }

int checked_axis(const char* op, std::int64_t axis, int ndim) {
  try {
    return normalize_axis(axis, ndim);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(std::string(op) + ": " + error.what());
  }
}

Shape broadcast_for(const char* op, const Shape& a, const Shape& b) {
  try {
    return broadcast_shapes(a, b);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(std::string(op) + ": " + error.what());
  }
}

}  // namespace heddle::operators_detail
