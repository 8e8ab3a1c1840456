#include <cmath>
#include <string>
#include <vector>

#include <heddle/attention.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/attention/kernels.h"
#include "families/indexing/places.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The positions as i64 with one axis less than x, each of x's size or 1.
NDArray positions_of(const NDArray& x, const NDArray& given) {
  const Shape& shape = x.shape();
  if (shape.size() < 2 || shape[shape.size() - 1] % 2 != 0)
    throw InvalidArgument("rotary: x is " + shape.to_string() + "; want (..., T, D) with an even D");
  Shape sizes = Dims::filled(shape.size() - 1, 1);
  if (!given.defined()) {
    sizes[sizes.size() - 1] = shape[shape.size() - 2];
    const EngineScope scope(x.engine());
    return reshape(arange(shape[shape.size() - 2], DType::i64, x.device()), sizes);
  }
  check_arrays("rotary", {&x, &given});
  check_indices("rotary", "positions", given);
  Shape rows;
  for (int i = 0; i < shape.size() - 1; ++i) rows.push_back(shape[i]);
  bool fits = given.ndim() <= rows.size();
  for (int i = 1; fits && i <= given.ndim(); ++i) {
    const std::int64_t size = given.shape()[given.ndim() - i];
    fits = size == 1 || size == rows[rows.size() - i];
    sizes[sizes.size() - i] = size;
  }
  if (!fits)
    throw InvalidArgument("rotary: positions are " + given.shape().to_string() +
                          "; want a shape that broadcasts to " + rows.to_string());
  const NDArray plain = given.detach();
  return reshape((given.dtype() == DType::i64 ? plain : plain.astype(DType::i64)).contiguous(), sizes);
}

// Rotation is linear, and its transpose is the rotation by the opposite angles: so the gradient is, of every order.
NDArray rotated(const char* op, const NDArray& x, const NDArray& positions, RotaryProblem problem) {
  const NDArray plain = x.detach();
  const NDArray source = x.strides()[x.ndim() - 1] == 1 ? plain : plain.contiguous();
  NDArray y = make_result(x, x.shape(), x.dtype());
  auto* kernel = kernel_for<RotaryKernel>("rotary", x);
  array_push(op, {source, positions}, {y}, recordable([=, y = y.detach()](const KernelContext& context) {
               kernel(context, problem, source, positions, y);
             }));
  if (recording({&x})) {
    record_op("rotary", y, {x}, {positions}, [=](const NDArray& grad) {
      RotaryProblem opposite = problem;
      opposite.backwards = !problem.backwards;
      return std::vector{rotated("rotary_backward", grad, positions, opposite)};
    });
  }
  return y;
}

}  // namespace

NDArray rotary(const NDArray& x, const NDArray& positions, const RotaryOptions& options, Where where) {
  const CallSite site(where);
  check_arrays("rotary", {&x});
  check_floating("rotary", x);
  if (!(options.base > 0 && std::isfinite(options.base)))
    throw InvalidArgument("rotary: base is " + number_text(options.base) + "; want a positive number");
  const NDArray at = positions_of(x, positions);
  const RotaryProblem problem{options.base, options.interleaved, false};
  if (is_half(x.dtype())) return cast(rotated("rotary", wide(x), at, problem), x.dtype());
  return rotated("rotary", x, at, problem);
}

HEDDLE_OPERATORS(rotary) {
  table.family("Attention");
  table.add(
      "rotary",
      +[](const NDArray& x, const NDArray& positions, double base, bool interleaved, Where where) {
        return rotary(x, positions, {.base = base, .interleaved = interleaved}, where);
      },
      {"Rotates pair i of the features of each row of x (..., T, D) by the row's position times "
       "base^(-2i / D). Positions are 0 .. T - 1 for None. Pairs are features i and i + D / 2, or 2i and "
       "2i + 1 if `interleaved`.",
       {{"x", DTypes::floating},
        {"positions", kNone, DTypes::integers},
        {"base", 10000.0},
        {"interleaved", false}},
       "that of x",
       kDifferentiable});
}

}  // namespace heddle
