// Reads and writes elements selected by arrays of indices and masks: x[indices], x[mask], x(kAll, indices, 0,
// mask).
//
// The rules are NumPy's. Arrays of indices (integers, negative ones from the end) broadcast to one shape; a
// mask (bool) counts as the indices of its true elements, one array for each of its axes, and the call waits
// for it. If the array keys and the numbers beside them are adjacent, the axes of that shape stand in the
// result where the keys stand, else they come first.
#pragma once

#include <cstdint>
#include <ostream>
#include <type_traits>
#include <vector>

#include <heddle/elementwise_math.h>

namespace heddle {

// A key of x(...): an AxisKey, an array of indices, or a mask.
struct IndexKey {
  template <class T>
  requires std::is_convertible_v<T, AxisKey> IndexKey(const T& key) : axis(key) {}
  IndexKey(const NDArray& of) : axis(kAll), array(of), is_array(true) {}
  IndexKey(const ArrayArgument& of) : IndexKey(of.array) {}
  AxisKey axis;  // what to take of an axis; the whole axis if the key is an array
  NDArray array;
  bool is_array = false;
};

// The elements of x that the keys of x[...] or x(...) select. A Chosen converts to an array by a copy, which
// passes gradients on to x. Assigning writes into x's memory: a number, or an array that broadcasts to the
// shape of the copy and is converted. If an element is selected repeatedly, the last value stays, and x[i] +=
// 1 adds once: it reads, adds and writes by three ops, between which ops of other threads may come. A Chosen
// refers to x: `auto y = x[mask]` does not copy.
class Chosen : public ArrayMembers<Chosen> {
 public:
  Chosen(const NDArray& x, std::vector<IndexKey> keys, Where where);
  Chosen(const Chosen&) = default;
  operator NDArray() const;
  NDArray copy() const { return *this; }
  Shape shape() const { return copy().shape(); }
  std::int64_t size() const { return copy().size(); }
  template <class T> T item(Where where = Where::current()) const { return copy().item<T>(where); }
  Scalar item(Where where = Where::current()) const { return copy().item(where); }
  template <class T> std::vector<T> to_vector(Where where = Where::current()) const {
    return copy().to_vector<T>(where);
  }
  NDArray operator-() const { return -copy(); }
  NDArray operator!() const { return !copy(); }
  NDArray operator~() const { return ~copy(); }
  void operator=(const Operand& values) const;
  void operator=(const Chosen& values) const;
  // The operators that assign throw as those of arrays do: InvalidArgument if the kind of the result does not
  // fit the dtype of x, Error where a gradient would be recorded.
  void operator+=(const Operand& b) const;
  void operator-=(const Operand& b) const;
  void operator*=(const Operand& b) const;
  void operator/=(const Operand& b) const;
  void operator%=(const Operand& b) const;
  void operator&=(const Operand& b) const;
  void operator|=(const Operand& b) const;
  void operator^=(const Operand& b) const;
  void operator<<=(const Operand& b) const;
  void operator>>=(const Operand& b) const;

 private:
  friend class NDArray;
  template <auto change> void changed(const Operand& b) const;
  NDArray x_;
  std::vector<IndexKey> keys_;
  Where where_;
};
inline std::ostream& operator<<(std::ostream& out, const Chosen& x) { return out << x.copy(); }

template <class... Rest> Chosen NDArray::operator()(const ArrayArgument& first, const Rest&... rest) const {
  return Chosen(*this, {IndexKey(first), IndexKey(rest)...}, first.where);
}
template <class... Rest>
requires AnyArray<Rest...> Chosen NDArray::operator()(const AxisKey& first, const Rest&... rest) const {
  return Chosen(*this, {IndexKey(first), IndexKey(rest)...}, first.where);
}

}  // namespace heddle
