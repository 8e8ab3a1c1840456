#include "autograd/view_gradient.h"

#include <utility>
#include <vector>

#include <heddle/elementwise.h>

#include "autograd/operator.h"

namespace heddle::operators_detail {

namespace {

template <class Undo> void record_undo(const char* op, NDArray& y, const NDArray& x, Undo undo) {
  if (!recording({&x})) return;
  record(op, y, {x}, {},
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

// memory[layout] += gradient, where elements of the layout may share memory.
void add_to_layout(const NDArray& memory, const Layout& layout, const NDArray& gradient) {
  NDArray target = layout.of(memory);
  if (!target.overlaps_itself()) {
    target += gradient;
    return;
  }
  const NDArray places = arange(0, static_cast<double>(memory.size()), 1, DType::i64, memory.device());
  add_taken(in_shape(gradient, {gradient.size()}), in_shape(layout.of(places), {gradient.size()}), memory, 0);
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
  record_part(op, y, x, {}, [axis, range](const NDArray& g, const NDArray& whole) {
    NDArray part = whole.slice(axis, range);
    part += in_shape(g, part.shape());
  });
}

void record_view(const char* op, NDArray& y, const NDArray& x) {
  if (!recording({&x})) return;
  if (x.overlaps_itself()) {
    throw Error(std::string(op) + ": an array of shape " + x.shape().to_string() + " with strides " +
                x.strides().to_string() +
                " requires a gradient, and its elements share memory; copy() it first");
  }
  const auto held = static_cast<std::int64_t>(x.storage()->bytes() / size_of(x.dtype()));
  record_part(op, y, x, {}, [from = Layout(x), to = Layout(y), held](const NDArray& g, const NDArray& whole) {
    if (g.size() == 0 || whole.size() == 0) return;
    const NDArray memory = zeros({held}, whole.dtype(), whole.device());
    add_to_layout(memory, to, g);
    NDArray target = whole;
    target += from.of(memory);
  });
}

}  // namespace heddle::operators_detail
