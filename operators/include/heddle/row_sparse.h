// Row-sparse arrays: some rows of a large array, such as the gradient of an embedding. The cost of operations
// is proportional to these rows, not to the array.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// A handle on an array of shape (n, d...) in which only some rows are not 0. How many is known only when an
// op has run. So there is room for capacity() rows, and count() is an array too. Nothing changes the values
// once they are computed, so that results may share memory with arguments. Floating dtypes. A row-sparse
// array is on no tape, so that gradients do not pass through.
class RowSparse {
 public:
  RowSparse() = default;  // undefined: only defined() and assignment may be used

  // Makes a row-sparse array of its parts. Once the ops that write them have run, they must be as the
  // comments on rows(), values() and count() say; an op that reads wrong parts throws Error. Throws
  // InvalidArgument for shapes and dtypes that do not fit.
  RowSparse(Shape shape, NDArray rows, NDArray values, NDArray count, Where where = Where::current());

  bool defined() const { return values_.defined(); }
  // Shape of the whole array, with the rows that are not present.
  const Shape& shape() const { return checked("shape").shape_; }
  DType dtype() const { return checked("dtype").values_.dtype(); }
  Device device() const { return checked("device").values_.device(); }
  Engine& engine() const { return checked("engine").values_.engine(); }
  std::int64_t capacity() const { return checked("capacity").values_.shape()[0]; }
  // i64 (capacity): the indices of the present rows, each once, ascending. The rest of the array is filled
  // with n, the number of rows.
  const NDArray& rows() const { return checked("rows").rows_; }
  // The values of the present rows, of shape (capacity, d...); what is behind them is undetermined.
  // Contiguous, as rows() is.
  const NDArray& values() const { return checked("values").values_; }
  // i64, one element: the number of present rows.
  const NDArray& count() const { return checked("count").count_; }

  // wait() and trimmed() block until the values are computed.
  void wait() const;
  // A row-sparse array on the same memory whose capacity is the number of present rows. Throws Error for an
  // impossible count.
  RowSparse trimmed(Where where = Where::current()) const;

 private:
  const RowSparse& checked(const char* member) const {
    if (!defined()) [[unlikely]]
      ndarray_detail::refuse_undefined(member);
    return *this;
  }
  Shape shape_;
  NDArray rows_, values_, count_;
};

// The functions below return at once. `rows` has one axis, of integers in any order; a row outside the array
// is an op error. Bad shapes, dtypes and devices throw InvalidArgument at the call.

// Zeros of `shape` (n, d...), plus values[i] at row rows[i]; values of equal rows are summed in their order.
// values: (k, d...).
RowSparse row_sparse(const NDArray& rows, const NDArray& values, const Shape& shape,
                     Where where = Where::current());

// The rows of x whose indices are in `rows`, and 0 elsewhere. If x is dense, all of these rows are present in
// the result; if x is row-sparse, those that are present in x too.
RowSparse retain(const NDArray& x, const NDArray& rows, Where where = Where::current());
RowSparse retain(const RowSparse& x, const NDArray& rows, Where where = Where::current());

// The sum of arrays of one shape and dtype: it has the rows of all arrays, which are summed in their order.
RowSparse sum(const std::vector<RowSparse>& arrays, Where where = Where::current());
RowSparse scale(const RowSparse& x, double factor, Where where = Where::current());  // x * factor

NDArray to_dense(const RowSparse& x, Where where = Where::current());

// Adds x to dense in place. dense: contiguous, of x's shape and dtype. Throws Error where a gradient would be
// recorded.
void add_rows(const NDArray& dense, const RowSparse& x, Where where = Where::current());

}  // namespace heddle
