// The seam between arrays and autograd, which lives in operators/.
#pragma once

#include <heddle/shape.h>

namespace heddle {

class NDArray;
struct Slice;

// What autograd keeps of an array that is on a tape. NDArray calls it; operators/src/autograd implements it.
struct GradMeta {
  virtual ~GradMeta() = default;

  // Throw Error, in the name of `op`, if a tape would have to follow a change of this array in place, or of another
  // one computed from this.
  virtual void check_target(const char* op) const = 0;
  virtual void check_source(const char* op) const = 0;

  // Each puts `y`, just made from `x` (whose GradMeta this is) by the member `op`, on the tape unless recording is off.
  // y has x's elements, in their order.
  virtual void record_elements(const char* op, NDArray& y, const NDArray& x) const = 0;
  virtual void record_permuted(const char* op, NDArray& y, const NDArray& x, const Dims& axes) const = 0;
  virtual void record_broadcast(const char* op, NDArray& y, const NDArray& x) const = 0;
  // y has the elements of `range` along `axis`; if that is one element, y may lack the axis.
  virtual void record_slice(const char* op, NDArray& y, const NDArray& x, int axis, Slice range) const = 0;
  // y has any elements of x's storage.
  virtual void record_view(const char* op, NDArray& y, const NDArray& x) const = 0;
};

}  // namespace heddle
