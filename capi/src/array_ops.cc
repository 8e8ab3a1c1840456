#include <heddle/c/array_ops.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

namespace {

std::optional<std::int64_t> bound_of(std::int64_t bound) {
  if (bound == HEDDLE_END) return std::nullopt;
  return bound;
}

Dims axes_of(const std::int32_t* axes, std::int32_t count, int ndim, const char* call) {
  Dims all;
  if (!axes) {
    for (int i = ndim; i-- > 0;) all.push_back(i);
    return all;
  }
  if (count < 0 || count > HEDDLE_MAX_DIMS)
    throw InvalidArgument(std::string(call) + ": " + std::to_string(count) + " axes");
  for (std::int32_t i = 0; i < count; ++i) all.push_back(axes[i]);
  return all;
}

}  // namespace

heddle_status heddle_array_slice(const heddle_array* array, int32_t axis, int64_t begin, int64_t end,
                                 int64_t step, heddle_array** view, heddle_error** error) {
  return make_array(array, view, "heddle_array_slice", error, [&](const NDArray& x) {
    return x.slice(axis, {bound_of(begin), bound_of(end), step});
  });
}

heddle_status heddle_array_index(const heddle_array* array, int64_t index, heddle_array** view,
                                 heddle_error** error) {
  return make_array(array, view, "heddle_array_index", error, [&](const NDArray& x) { return x[index]; });
}

heddle_status heddle_array_reshape(const heddle_array* array, const int64_t* shape, int32_t ndim,
                                   heddle_array** view, heddle_error** error) {
  return make_array(array, view, "heddle_array_reshape", error, [&](const NDArray& x) {
    return x.view_as(dims_of(shape, ndim, "heddle_array_reshape"));
  });
}

heddle_status heddle_array_transpose(const heddle_array* array, const int32_t* axes, int32_t ndim,
                                     heddle_array** view, heddle_error** error) {
  return make_array(array, view, "heddle_array_transpose", error, [&](const NDArray& x) {
    return x.permuted(axes_of(axes, ndim, x.ndim(), "heddle_array_transpose"));
  });
}

heddle_status heddle_array_broadcast(const heddle_array* array, const int64_t* shape, int32_t ndim,
                                     heddle_array** view, heddle_error** error) {
  return make_array(array, view, "heddle_array_broadcast", error, [&](const NDArray& x) {
    return x.broadcast_view(dims_of(shape, ndim, "heddle_array_broadcast"));
  });
}

heddle_status heddle_array_detach(const heddle_array* array, heddle_array** view, heddle_error** error) {
  return make_array(array, view, "heddle_array_detach", error, [](const NDArray& x) { return x.detach(); });
}

heddle_status heddle_array_clone(const heddle_array* array, heddle_array** result, heddle_error** error) {
  return make_array(array, result, "heddle_array_clone", error, [](const NDArray& x) { return x.copy(); });
}

heddle_status heddle_array_to_device(const heddle_array* array, heddle_device device, heddle_array** result,
                                     heddle_error** error) {
  return make_array(array, result, "heddle_array_to_device", error,
                    [&](const NDArray& x) { return x.copy_to(device_of(device, "heddle_array_to_device")); });
}

heddle_status heddle_array_astype(const heddle_array* array, int32_t dtype, heddle_array** result,
                                  heddle_error** error) {
  return make_array(array, result, "heddle_array_astype", error, [&](const NDArray& x) {
    return x.astype(dtype_of_number(dtype, "heddle_array_astype"));
  });
}

heddle_status heddle_array_contiguous(const heddle_array* array, heddle_array** result,
                                      heddle_error** error) {
  return make_array(array, result, "heddle_array_contiguous", error,
                    [](const NDArray& x) { return x.contiguous(); });
}

heddle_status heddle_array_assign(const heddle_array* array, const heddle_array* source,
                                  heddle_error** error) {
  return called(error, [&] {
    const UsedArray to(array, "heddle_array_assign");
    const UsedArray from(source, "heddle_array_assign");
    to->array.assign(from->array);
  });
}

heddle_status heddle_array_fill(const heddle_array* array, double value, heddle_error** error) {
  return called(error, [&] { UsedArray(array, "heddle_array_fill")->array.fill(value); });
}

heddle_status heddle_array_fill_integer(const heddle_array* array, int64_t value, heddle_error** error) {
  return called(error, [&] { UsedArray(array, "heddle_array_fill_integer")->array.fill(value); });
}
