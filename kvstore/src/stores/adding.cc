#include "stores/adding.h"

#include <cmath>

#include <heddle/array_op.h>
#include <heddle/half.h>
#include <heddle/number_text.h>
#include <heddle/ops.h>

#include "stores/local_store.h"
#include "stores/row_values.h"

namespace heddle {
namespace {

template <class T> void add_scaled_halves(const NDArray& dense, const RowSparse& rows, float scale) {
  const std::span<const std::int64_t> present = present_rows("KVStore::push: ", rows);
  if (present.empty()) return;
  const std::int64_t width = rows.values().size() / rows.capacity();
  const T* from = rows.values().data<const T>();
  for (const std::int64_t row : present) {
    T* const to = dense.data<T>() + row * width;
    for (std::int64_t i = 0; i < width; ++i)
      to[i] = T(static_cast<float>(to[i]) + static_cast<float>(*from++) * scale);
  }
}

}  // namespace

void check_add(KVStore::Key key, DType dtype, const UpdateOptions& options) {
  if (options.scale.defined())
    throw InvalidArgument(who_says("push", key) +
                          "a scale that is an array is for optimizers; \"add\" has grad_scale");
  if (!std::isfinite(options.grad_scale))
    throw InvalidArgument(who_says("push", key) + "grad_scale must be finite, not " +
                          number_text(options.grad_scale));
  if (options.grad_scale != 1 && !is_floating(dtype))
    throw InvalidArgument(who_says("push", key) + "grad_scale is " + number_text(options.grad_scale) +
                          "; what is added to " + name_of(dtype) + " has a scale of 1");
}

void add_pushed(const NDArray& value, const NDArray& sum, double scale) {
  const bool half = is_half(value.dtype());
  const NDArray wide = half ? sum.astype(DType::f32) : sum;
  const NDArray term = scale == 1 ? wide : wide * scale;
  if (half) {
    value.assign((value.astype(DType::f32) + term).astype(value.dtype()));
  } else {
    value += term;
  }
}

void add_pushed(const NDArray& value, const RowSparse& rows, double scale) {
  if (scale == 1) return add_rows(value, rows);
  if (!is_half(value.dtype())) return add_rows(value, heddle::scale(rows, scale));
  const NDArray target = value.detach();
  if (target.device().kind == DeviceKind::cuda) {
    const NDArray sum = target.astype(DType::f32) + to_dense(rows).astype(DType::f32) * scale;
    return target.assign(where(is_row_of(rows), sum.astype(target.dtype()), target));
  }
  array_push("kvstore_add_rows", {rows.rows(), rows.values(), rows.count(), target}, {target}, [=] {
    const auto factor = static_cast<float>(scale);
    if (target.dtype() == DType::f16) return add_scaled_halves<Float16>(target, rows, factor);
    add_scaled_halves<BFloat16>(target, rows, factor);
  });
}

}  // namespace heddle
