#include "autograd/view_gradient.h"

#include <utility>
#include <vector>

#include <heddle/elementwise.h>

#include "autograd/record.h"
#include "core/operator.h"

namespace heddle::operators_detail {

namespace {

template <class Undo> void record_undo(const char* op, NDArray& y, const NDArray& x, Undo undo) {
  if (!recording({&x})) return;
  record_op(op, y, {x}, {},
            [undo = std::move(undo)](const NDArray& g) { return std::vector<NDArray>{undo(g)}; });
}

NDArray in_shape(const NDArray& array, const Shape& shape) {
  return array.shape() == shape ? array : array.contiguous().view_as(shape);
}

struct Layout {
  Shape shape;
  Strides strides;
  std::int64_t offset;

  explicit Layout(const NDArray& array)
      : shape(array.shape()), strides(array.strides()), offset(array.offset()) {}
  NDArray of(const NDArray& memory) const { return memory.view(shape, strides, offset); }
};

// Adds the gradient to the elements of memory that the layout selects, which may share memory.
void add_to_layout(const NDArray& memory, const Layout& layout, const NDArray& gradient) {
  NDArray target = layout.of(memory);
  if (!target.overlaps_itself()) {
    target += gradient;
    return;
  }
  const NDArray places = arange(0, static_cast<double>(memory.size()), 1, DType::i64, memory.device());
  add_taken(in_shape(gradient, {gradient.size()}), in_shape(layout.of(places), {gradient.size()}), memory, 0);
}

// Layouts of a view `to` of an array `from`, in memory of `held` elements.
struct Layouts {
  Layout from, to;
  std::int64_t held;
};

void record_view_part(const char* op, NDArray& y, const NDArray& x, const Layouts& layouts) {
  const auto add = [layouts](const NDArray& g, const NDArray& whole) {
    if (g.size() == 0 || whole.size() == 0) return;
    const NDArray memory = zeros({layouts.held}, whole.dtype(), whole.device());
    add_to_layout(memory, layouts.to, g);
    NDArray target = whole;
    target += layouts.from.of(memory);
  };
  const auto part = [op, layouts](const NDArray& like_x) {
    const NDArray memory = zeros({layouts.held}, like_x.dtype(), like_x.device());
    NDArray target = layouts.from.of(memory);
    if (like_x.size() > 0) target.assign(like_x.detach());
    NDArray view = layouts.to.of(memory);
    if (recording({&like_x})) record_view_part(op, view, like_x, layouts);
    return view;
  };
  record_part(op, y, x, {}, add, part);
}

}  // namespace

void record_elements(const char* op, NDArray& y, const NDArray& x) {
  record_undo(op, y, x, [shape = x.shape(), dtype = x.dtype(), device = x.device()](const NDArray& g) {
    const NDArray there = g.device() == device ? g : g.copy_to(device);
    return in_shape(there.dtype() == dtype ? there : there.astype(dtype), shape);
  });
}

void record_permuted(const char* op, NDArray& y, const NDArray& x, const Dims& axes) {
  Dims back = axes;
  for (int i = 0; i < axes.size(); ++i) back[normalize_axis(axes[i], axes.size())] = i;
  record_undo(op, y, x, [back](const NDArray& g) { return g.permuted(back); });
}

void record_broadcast(const char* op, NDArray& y, const NDArray& x) {
  record_undo(op, y, x, [shape = x.shape()](const NDArray& g) { return sum_to_shape(g, shape); });
}

void record_slice(const char* op, NDArray& y, const NDArray& x, int axis, Slice range) {
  if (!recording({&x})) return;
  const auto add = [axis, range](const NDArray& g, const NDArray& whole) {
    NDArray part = whole.slice(axis, range);
    part += in_shape(g, part.shape());
  };
  const auto part = [axis, range, shape = y.shape()](const NDArray& like_x) {
    return in_shape(like_x.slice(axis, range), shape);
  };
  record_part(op, y, x, {}, add, part);
}

void record_view(const char* op, NDArray& y, const NDArray& x) {
  if (!recording({&x})) return;
  if (x.overlaps_itself()) {
    throw Error(std::string(op) + ": an array of shape " + x.shape().to_string() + " with strides " +
                x.strides().to_string() +
                " requires a gradient, and its elements share memory; copy() it first");
  }
  const auto held = static_cast<std::int64_t>(x.storage()->bytes() / size_of(x.dtype()));
  const Layouts layouts{Layout(x), Layout(y), held};
  record_view_part(op, y, x, layouts);
}

}  // namespace heddle::operators_detail
