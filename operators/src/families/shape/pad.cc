// pad: adds entries around an array.
#include <string>
#include <vector>

#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The numbers of added entries, one for each axis; a single number holds for all axes.
Dims widths(const char* which, const Dims& given, const NDArray& x) {
  const Dims all = given.size() == 1 ? Dims::filled(x.ndim(), given[0]) : given;
  if (all.size() != x.ndim())
    throw InvalidArgument(std::string("pad: ") + which + " has " + std::to_string(all.size()) +
                          " numbers for shape " + x.shape().to_string());
  for (const std::int64_t width : all) {
    if (width < 0)
      throw InvalidArgument(std::string("pad: ") + which + " is " + all.to_string() + "; wanted 0 or more");
  }
  return all;
}

Shape padded_shape(const Shape& shape, const Dims& before, const Dims& after) {
  Shape padded = shape;
  for (int d = 0; d < shape.size(); ++d) {
    if (__builtin_add_overflow(padded[d], before[d], &padded[d]) ||
        __builtin_add_overflow(padded[d], after[d], &padded[d]))
      throw InvalidArgument("pad: a size beyond 2^63");
  }
  return padded;
}

// A view of the part of a padded array y that holds the original array.
NDArray inner_part(const NDArray& y, const Shape& shape, const Dims& before) {
  NDArray part = y;
  for (int d = 0; d < shape.size(); ++d) part = part.slice(d, {before[d], before[d] + shape[d]});
  return part;
}

NDArray padded_by_value(const NDArray& x, const Dims& before, const Dims& after, Scalar value) {
  NDArray y = make_result(x, padded_shape(x.shape(), before, after), x.dtype());
  y.fill(value);
  inner_part(y, x.shape(), before).assign(x.detach());
  if (recording({&x})) {
    record_op("pad", y, {x}, {}, [before, shape = x.shape()](const NDArray& g) {
      return std::vector{inner_part(g, shape, before)};
    });
  }
  return y;
}

// The index of the entry to copy to position i, which may be negative or beyond the last entry.
std::int64_t source_of(std::int64_t i, std::int64_t size, PadMode mode) {
  if (mode == PadMode::edge) return i < 0 ? 0 : i >= size ? size - 1 : i;
  const std::int64_t period = mode == PadMode::wrap || size == 1 ? size : 2 * size - 2;
  const std::int64_t at = (i % period + period) % period;
  return at < size ? at : period - at;
}

NDArray padded_by_entries(const NDArray& x, const Dims& before, const Dims& after, PadMode mode) {
  NDArray y = x;
  const EngineScope scope(x.engine());
  for (int d = 0; d < x.ndim(); ++d) {
    const std::int64_t size = x.shape()[d], whole = padded_shape(x.shape(), before, after)[d];
    if (whole == size) continue;
    if (size == 0)
      throw InvalidArgument("pad: axis " + std::to_string(d) + " of shape " + x.shape().to_string() +
                            " has no entry to repeat");
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < whole; ++i) indices.push_back(source_of(i - before[d], size, mode));
    y = take(y, array(indices, {whole}, x.device()), d);
  }
  return y.storage() == x.storage() ? copy(y) : y;
}

constexpr const char* kModes[] = {"constant", "edge", "reflect", "wrap"};

}  // namespace

NDArray pad(const NDArray& x, Dims before, Dims after, PadMode mode, Scalar value, Where where) {
  const CallSite site(where);
  check_arrays("pad", {&x});
  const Dims front = widths("before", before, x), back = widths("after", after, x);
  return mode == PadMode::constant ? padded_by_value(x, front, back, value)
                                   : padded_by_entries(x, front, back, mode);
}

HEDDLE_OPERATORS(pad) {
  table.family("Shapes, joining and copies");
  table.add("pad",
            +[](const NDArray& x, const Dims& before, std::optional<Dims> after, const std::string& mode,
                Scalar value, Where where) {
              std::uint8_t which = 0;
              while (mode != kModes[which]) ++which;
              return pad(x, before, after ? *after : before, static_cast<PadMode>(which), value, where);
            },
            {"x with before[i] entries in front of axis i and after[i] behind it, one number for all axes; "
             "None: as before. They are `value`, or the edge, or mirrored there, or from the other end.",
             {"x", "before", {"after", kNone}, {"mode", "constant", kModes}, {"value", 0.0}},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
