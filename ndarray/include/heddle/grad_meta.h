// The interface between arrays and autograd, which is in operators/.
#pragma once

#include <heddle/shape.h>

namespace heddle {

class NDArray;
struct Slice;

// Autograd's data of an array that is on a tape. NDArray calls it; operators/src/autograd implements it.
struct GradMeta {
  virtual ~GradMeta() = default;

  // check_target() and check_source() throw Error, in the name of `op`, if a change in place would have to be
  // recorded on a tape: check_target for a change of this array, check_source for a change of another array
  // that is computed from this one.
  virtual void check_target(const char* op) const = 0;
  virtual void check_source(const char* op) const = 0;

  // Each function records on the tape that the member `op` has just made `y` from `x`, whose GradMeta this is, unless
  // recording is off. record_elements: y has x's elements, in their order.
  virtual void record_elements(const char* op, NDArray& y, const NDArray& x) const = 0;
  virtual void record_permuted(const char* op, NDArray& y, const NDArray& x, const Dims& axes) const = 0;
  virtual void record_broadcast(const char* op, NDArray& y, const NDArray& x) const = 0;
  // record_slice: y has the elements of x in `range` along `axis`. If that is one element, y may lack the
  // axis.
  virtual void record_slice(const char* op, NDArray& y, const NDArray& x, int axis, Slice range) const = 0;
  // record_view: y has any elements of the storage of x.
  virtual void record_view(const char* op, NDArray& y, const NDArray& x) const = 0;
};

}  // namespace heddle
