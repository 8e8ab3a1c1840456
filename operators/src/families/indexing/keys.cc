// x[indices], x[mask] and x(keys...) with arrays among the keys.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <heddle/indexing.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"
#include "families/in_place/in_place.h"
#include "families/indexing/places.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr const char* kName = "operator[]";

bool is_mask(const IndexKey& key) { return key.is_array && key.array.dtype() == DType::boolean; }
bool is(const IndexKey& key, AxisKey::Kind kind) { return !key.is_array && key.axis.kind == kind; }

// How many of x's axes a key indexes; 0 for an ellipsis, which stands for the axes that no other key indexes.
int axes_of(const IndexKey& key) {
  if (is_mask(key)) return key.array.ndim();
  return is(key, AxisKey::Kind::new_axis) || is(key, AxisKey::Kind::ellipsis) ? 0 : 1;
}

// How many axes of x an ellipsis among the keys stands for.
int rest_of(const NDArray& x, const std::vector<IndexKey>& keys) {
  int rest = x.ndim();
  for (const IndexKey& key : keys) rest -= axes_of(key);
  if (rest >= 0) return rest;
  throw InvalidIndex(std::string(kName) + ": keys for " + std::to_string(x.ndim() - rest) +
                     " axes of an array of shape " + x.shape().to_string());
}

void check_keys(const NDArray& x, const std::vector<IndexKey>& keys) {
  for (const IndexKey& key : keys) {
    if (!key.is_array) continue;
    check_arrays(kName, {&x, &key.array});
    if (is_floating(key.array.dtype()))
      throw InvalidIndex(std::string(kName) + ": indices have dtype " + name_of(key.array.dtype()) +
                         "; wanted integers, or bool for a mask");
  }
}

// A mask without axes selects all of x or nothing: it becomes a mask of a new axis of x.
void give_axes_to_masks(NDArray& x, std::vector<IndexKey>& keys) {
  const auto has_none = [](const IndexKey& key) { return is_mask(key) && key.array.ndim() == 0; };
  if (std::none_of(keys.begin(), keys.end(), has_none)) return;
  const int rest = rest_of(x, keys);
  std::vector<AxisKey> axes;
  for (IndexKey& key : keys) {
    if (has_none(key)) {
      axes.emplace_back(kNewAxis);
      key = IndexKey(key.array.view_as({1}));
    } else {
      const int count = is(key, AxisKey::Kind::ellipsis) ? rest : axes_of(key);
      for (int axis = 0; axis < count; ++axis) axes.emplace_back(Slice{});
    }
  }
  x = x.keyed(axes);
}

// As in NumPy, a mask with a side of 0 is allowed whatever that side of x is: it selects nothing.
void check_mask(const NDArray& x, const NDArray& mask, int axis) {
  for (int d = 0; d < mask.ndim(); ++d) {
    if (mask.shape()[d] == x.shape()[axis + d] || mask.shape()[d] == 0) continue;
    throw InvalidIndex(std::string(kName) + ": a mask of shape " + mask.shape().to_string() +
                       " for axes from " + std::to_string(axis) + " of an array of shape " +
                       x.shape().to_string() + "; wanted the same axes");
  }
}

// The keys, with each mask replaced by the indices of its true elements.
std::vector<IndexKey> without_masks(const NDArray& x, const std::vector<IndexKey>& keys) {
  const int rest = rest_of(x, keys);
  std::vector<IndexKey> result;
  int axis = 0;
  for (const IndexKey& key : keys) {
    if (is_mask(key)) {
      check_mask(x, key.array, axis);
      const NDArray places = where_true(key.array);
      for (int d = 0; d < key.array.ndim(); ++d) result.emplace_back(places[d]);
    } else {
      result.push_back(key);
    }
    axis += is(key, AxisKey::Kind::ellipsis) ? rest : axes_of(key);
  }
  return result;
}

// A view of x, and arrays of indices for some of its axes, which are adjacent.
struct Choice {
  NDArray view;
  std::vector<NDArray> arrays;
  Shape places;   // common shape to which the arrays broadcast
  int axis = 0;   // the first axis of the view that the arrays index
  int place = 0;  // the first axis of the result that comes from the arrays: `axis` or 0

  int count() const { return static_cast<int>(arrays.size()); }
  // The view's shape with `axes` in place of those that the arrays index.
  Shape with(const Shape& axes) const {
    Shape shape;
    for (int d = 0; d < axis; ++d) shape.push_back(view.shape()[d]);
    for (const std::int64_t size : axes) shape.push_back(size);
    for (int d = axis + count(); d < view.ndim(); ++d) shape.push_back(view.shape()[d]);
    return shape;
  }
  Dims bounds() const {
    Dims result;
    for (int d = axis; d < axis + count(); ++d) result.push_back(view.shape()[d]);
    return result;
  }
  // The one array of indices, or all arrays combined into row-major positions in the axes that they index.
  NDArray indices() const {
    return count() == 1 ? arrays[0].detach() : flat_indices(kName, arrays, bounds(), places).view_as(places);
  }
};

Shape common_shape(const Shape& a, const Shape& b) {
  try {
    return broadcast_for(kName, a, b);
  } catch (const InvalidArgument& error) {
    throw InvalidIndex(error.message());
  }
}

// Permutes the view so that its indexed axes are adjacent.
void gather_axes(Choice& choice, const Dims& indexed) {
  const int count = indexed.size();
  choice.axis = indexed[0];
  if (indexed[count - 1] - indexed[0] == count - 1) return;
  Dims order = indexed;
  for (int d = 0, next = 0; d < choice.view.ndim(); ++d) {
    if (next < count && indexed[next] == d)
      ++next;
    else
      order.push_back(d);
  }
  choice.view = choice.view.permuted(order);
  choice.axis = 0;
}

Choice choose(const NDArray& x, const std::vector<IndexKey>& given) {
  const std::vector<IndexKey> keys = without_masks(x, given);
  const int rest = rest_of(x, keys);
  Choice choice;
  std::vector<AxisKey> axes;
  Dims indexed;
  int axis = 0, first = -1;
  bool gap = false, apart = false;
  for (const IndexKey& key : keys) {
    const bool ellipsis = is(key, AxisKey::Kind::ellipsis), number = is(key, AxisKey::Kind::index);
    axes.push_back(key.axis);
    if (key.is_array || number) {
      if (first < 0) first = axis;
      apart |= gap;
    } else if (first >= 0) {
      gap = true;
    }
    if (key.is_array) {
      indexed.push_back(axis);
      choice.arrays.push_back(key.array);
      choice.places = common_shape(choice.places, key.array.shape());
    }
    axis += ellipsis ? rest : number ? 0 : 1;
  }
  choice.view = x.keyed(axes);
  gather_axes(choice, indexed);
  choice.place = apart ? 0 : choice.axis;
  return choice;
}

// x with `count` axes, from `from` on, moved to position `to`.
NDArray moved(const NDArray& x, int from, int count, int to) {
  if (from == to || count == 0) return x;
  Dims order;
  for (int d = 0; d < x.ndim(); ++d)
    if (d < from || d >= from + count) order.push_back(d);
  Dims result;
  for (int d = 0; d < to; ++d) result.push_back(order[d]);
  for (int d = 0; d < count; ++d) result.push_back(from + d);
  for (int d = to; d < order.size(); ++d) result.push_back(order[d]);
  return x.permuted(result);
}

NDArray read(const Choice& choice) {
  const NDArray source =
      choice.count() == 1 ? choice.view : reshape(choice.view, choice.with({element_count(choice.bounds())}));
  return moved(taken(kName, source, choice.indices(), choice.axis), choice.axis, choice.places.size(),
               choice.place);
}

// The view with its indexed axes merged into one, if strides allow that without a copy; else undefined.
NDArray merged(const Choice& choice) {
  const NDArray view = choice.view.detach();
  std::int64_t stride = 0, extent = 1;
  for (int d = choice.axis + choice.count() - 1; d >= choice.axis; --d) {
    if (view.shape()[d] == 1) continue;
    if (extent == 1) stride = view.strides()[d];
    if (view.strides()[d] != stride * extent) return {};
    extent *= view.shape()[d];
  }
  Strides strides;
  for (int d = 0; d < view.ndim(); ++d) {
    if (d == choice.axis) strides.push_back(stride);
    if (d < choice.axis || d >= choice.axis + choice.count()) strides.push_back(view.strides()[d]);
  }
  return view.view(choice.with({element_count(choice.bounds())}), strides, view.offset());
}

// An assignment removes leading axes of length 1 that the target does not have, as NumPy's and
// NDArray::assign() do.
NDArray without_leading_ones(NDArray x, int axes) {
  while (x.ndim() > axes && x.shape()[0] == 1) x = x[0];
  return x;
}

// The values in the view's axes, with the indexed axes replaced by one axis of all indices.
NDArray values_for(const Choice& choice, const Operand& values) {
  const Shape flat = choice.with({element_count(choice.places)});
  if (!values.is_array) return scattered_values(kName, choice.view, values, flat);
  const int count = choice.places.size(), from = choice.place;
  Shape shape;  // the shape of x[keys], to which the values are broadcast
  const Shape at_axis = choice.with(choice.places);
  for (int d = 0; d < count && from != choice.axis; ++d) shape.push_back(choice.places[d]);
  for (int d = 0; d < at_axis.size(); ++d)
    if (from == choice.axis || d < choice.axis || d >= choice.axis + count) shape.push_back(at_axis[d]);
  const NDArray value = without_leading_ones(values.array.detach(), shape.size());
  const NDArray given = scattered_values(kName, choice.view, Operand(value), shape);
  const NDArray source = moved(given, from, count, choice.axis);
  const NDArray one_axis = count == 1 ? source : reshape(source, flat);
  return one_axis.storage() == choice.view.storage() ? one_axis.copy() : one_axis;
}

// The indices as an array that the assignment does not write to: x[x] = 0 means the x from before.
NDArray unchanged_indices(const Choice& choice) {
  const NDArray indices = choice.indices();
  return indices.storage() == choice.view.storage() ? indices.copy() : indices;
}

void write(const Choice& choice, const Operand& values) {
  const NDArray source = values_for(choice, values);
  Shape along = Dims::filled(source.ndim(), 1);
  along[choice.axis] = element_count(choice.places);
  const NDArray indices = reshape(unchanged_indices(choice), along);
  if (const NDArray target = merged(choice); target.defined())
    return scatter_into(kName, target, indices, source, choice.axis, Scatter::set);
  const NDArray changed = choice.view.detach().copy();
  scatter_into(kName, changed.view_as(choice.with({element_count(choice.bounds())})), indices, source,
               choice.axis, Scatter::set);
  choice.view.assign(changed);
}

// If a mask is the only key: the mask, broadcast along the axes of x that it does not have. Undefined for a
// mask without elements, too, if x has some.
NDArray only_mask(const NDArray& x, const std::vector<IndexKey>& keys) {
  if (keys.size() != 1 || !is_mask(keys[0])) return {};
  const NDArray& mask = keys[0].array;
  if (mask.size() == 0 && x.size() > 0) return {};
  Shape shape = x.shape();
  bool fits = mask.ndim() <= x.ndim();
  for (int axis = 0; fits && axis < x.ndim(); ++axis) {
    if (axis < mask.ndim())
      fits = shape[axis] == mask.shape()[axis];
    else
      shape[axis] = 1;
  }
  if (fits) return mask.detach().contiguous().view_as(shape).broadcast_view(x.shape());
  throw InvalidIndex(std::string(kName) + ": a mask of shape " + mask.shape().to_string() +
                     " for an array of shape " + x.shape().to_string() +
                     "; wanted the same axes, or the first ones");
}

// The shape of x[mask]. Waits for the mask.
Shape chosen_shape(const NDArray& x, const NDArray& mask) {
  Shape shape{sum(mask).item<std::int64_t>()};
  for (int axis = mask.ndim(); axis < x.ndim(); ++axis) shape.push_back(x.shape()[axis]);
  return shape;
}

void write_masked(const NDArray& x, const NDArray& given, const NDArray& mask, const Operand& values) {
  const int entry_axes = x.ndim() - given.ndim();
  if (!values.is_array) return x.assign(where(mask, scattered_values(kName, x, values, {}), x));
  const NDArray value = without_leading_ones(values.array.detach(), entry_axes + 1);
  if (value.ndim() > entry_axes && value.shape()[0] != 1) {
    const Shape chosen = chosen_shape(x, given);
    const NDArray source = ndarray_detail::in_name_of(kName, [&] { return value.broadcast_view(chosen); });
    return x.assign(masked_scatter(x, mask, source));
  }
  x.assign(where(mask, cast(value.ndim() > entry_axes ? value[0] : value, x.dtype()), x));
}

// Throws as NDArray::assign() does for a target or source that must not be written or read.
void check_change(const NDArray& x, const Operand& values) {
  if (x.grad_meta()) x.grad_meta()->check_target("assign");
  if (values.is_array && values.array.grad_meta()) values.array.grad_meta()->check_source("assign");
  check_target(kName, x);
}

}  // namespace

Chosen NDArray::operator[](const ArrayArgument& at) const {
  return Chosen(*this, {IndexKey(at.array)}, at.where);
}

void NDArray::operator=(const Chosen& source) const&& { assign(NDArray(source), source.where_); }

Chosen::Chosen(const NDArray& x, std::vector<IndexKey> keys, Where where)
    : x_(x), keys_(std::move(keys)), where_(where) {
  const CallSite site(where);
  check_arrays(kName, {&x});
  check_keys(x, keys_);
  give_axes_to_masks(x_, keys_);
  if (std::none_of(keys_.begin(), keys_.end(), [](const IndexKey& key) { return key.is_array; }))
    throw InvalidArgument("Chosen: no array among the keys; NDArray::keyed() takes those");
}

Chosen::operator NDArray() const {
  const CallSite site(where_);
  const NDArray mask = only_mask(x_, keys_);
  if (!mask.defined()) return read(choose(x_, keys_));
  const NDArray y = masked_select(x_, mask);
  return keys_[0].array.ndim() == x_.ndim() ? y : heddle::reshape(y, chosen_shape(x_, keys_[0].array));
}

void Chosen::operator=(const Operand& values) const {
  const CallSite site(values.where);
  if (values.is_array) check_arrays(kName, {&x_, &values.array});
  check_change(x_, values);
  const NDArray x = x_.detach(), mask = only_mask(x, keys_);
  ndarray_detail::in_name_of(kName, [&] {
    mask.defined() ? write_masked(x, keys_[0].array, mask, values) : write(choose(x, keys_), values);
  });
}

void Chosen::operator=(const Chosen& values) const { *this = Operand(NDArray(values), values.where_); }

// Selects the elements into a copy, applies `change` to it as to an array, and writes it back.
template <auto change> void Chosen::changed(const Operand& b) const {
  const CallSite site(b.where);
  check_change(x_, b);
  const NDArray part = Chosen(x_, keys_, b.where);  // this copy is on x's tape, so `change` throws as for x
  change(part, b);
  *this = Operand(part, b.where);
}
void Chosen::operator+=(const Operand& b) const { changed<(heddle::operator+=)>(b); }
void Chosen::operator-=(const Operand& b) const { changed<(heddle::operator-=)>(b); }
void Chosen::operator*=(const Operand& b) const { changed<(heddle::operator*=)>(b); }
void Chosen::operator/=(const Operand& b) const { changed<(heddle::operator/=)>(b); }
void Chosen::operator%=(const Operand& b) const { changed<(heddle::operator%=)>(b); }
void Chosen::operator&=(const Operand& b) const { changed<(heddle::operator&=)>(b); }
void Chosen::operator|=(const Operand& b) const { changed<(heddle::operator|=)>(b); }
void Chosen::operator^=(const Operand& b) const { changed<(heddle::operator^=)>(b); }
void Chosen::operator<<=(const Operand& b) const { changed<(heddle::operator<<=)>(b); }
void Chosen::operator>>=(const Operand& b) const { changed<(heddle::operator>>=)>(b); }

}  // namespace heddle
