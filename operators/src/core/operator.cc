#include "core/operator.h"

#include <algorithm>
#include <string>
#include <utility>

#include <heddle/engine.h>
#include <heddle/into.h>
#include <heddle/shape_ops.h>

namespace heddle::operators_detail {

namespace {

// Null outside of into(). A thread-local, because into() calls the functions that a plain call calls, and these
// have no parameter for memory: `into(y, add, a, b)`.
thread_local constinit ResultLoan* innermost_loan = nullptr;

bool same_but_for_ones(const Shape& a, const Shape& b) {
  const auto* at = a.begin();
  for (const std::int64_t length : b) {
    if (length == 1) continue;
    while (at != a.end() && *at == 1) ++at;
    if (at == a.end() || *at++ != length) return false;
  }
  return std::all_of(at, a.end(), [](std::int64_t length) { return length == 1; });
}

}  // namespace

ResultLoan::ResultLoan() noexcept : lender_(CallSite::counting()), outer_(innermost_loan) {
  innermost_loan = this;
}
ResultLoan::~ResultLoan() { innermost_loan = outer_; }

NDArray ResultLoan::take(const NDArray& like, const Shape& shape, DType dtype) {
  const bool fits = memory_.defined() && CallSite::counting() == lender_ && memory_.dtype() == dtype &&
                    same_but_for_ones(memory_.shape(), shape) && memory_.device() == like.device() &&
                    &memory_.engine() == &like.engine();
  return fits ? std::exchange(memory_, {}).view_as(shape) : NDArray();
}

NDArray make_result(const NDArray& like, const Shape& shape, DType dtype) {
  if (innermost_loan) [[unlikely]] {
    if (NDArray result = innermost_loan->take(like, shape, dtype); result.defined()) return result;
  }
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
