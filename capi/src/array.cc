#include <algorithm>
#include <cstring>
#include <optional>

#include <heddle/c/array.h>
#include <heddle/default_engine.h>
#include <heddle/gpu_event.h>
#include <heddle/gpu_memory.h>

#include "array_handle.h"
#include "c/wait.h"
#include "new_array.h"

using namespace heddle;
using namespace heddle::c;

namespace {

thread_local constinit const heddle_site* current_site = nullptr;

using Fill = void (*)(const NDArray& array, double value);

heddle_status create(const heddle_array_options* options, const std::int64_t* shape, std::int32_t ndim,
                     heddle_array** array, heddle_error** error, const char* call, double value,
                     Fill fill) noexcept {
  return called(error, [&] {
    const NewArray place(options, call);
    const Dims dims = dims_of(shape, ndim, call);
    check_out(array, call, "array");
    const EngineScope scope(place.engine());
    const NDArray made(dims, place.dtype(), place.device());
    if (fill) fill(made, value);
    *array = new_handle(made, place.link());
  });
}

void fill_with(const NDArray& array, double value) { array.fill(value); }

// Throws if a bool is neither 0 nor 1: reading such a bool would be undefined behaviour in C++.
void check_bools(DType dtype, const void* data, std::size_t bytes, const char* call) {
  const auto* first = static_cast<const unsigned char*>(data);
  if (dtype == DType::boolean && std::any_of(first, first + bytes, [](unsigned char b) { return b > 1; }))
    throw InvalidArgument(std::string(call) + ": data has a bool whose byte is above 1; want 0 or 1 in each");
}

// Throws unless memory that is lent for a device is there. Memory for the CPU is not looked at.
void check_place(Device device, const void* data, std::size_t bytes, const char* call) {
  if (bytes == 0) return;
  if (device.kind == DeviceKind::cpu_pinned && !is_page_locked(data, bytes))
    throw InvalidArgument(std::string(call) + ": the memory is not page-locked; want HEDDLE_CPU for it");
  if (device.kind != DeviceKind::cuda) return;
  const std::optional<Device> found = gpu_with(data);
  if (found && *found == device) return;
  throw InvalidArgument(std::string(call) + ": the memory is " +
                        (found ? "on " + found->to_string() : std::string("no GPU's")) +
                        "; the options say " + device.to_string());
}

// The caller's memory, into which an op copies an array's values. If the wait for this op fails, `data`
// becomes null: the call returns, and the op must no longer write.
struct Destination {
  std::mutex mutex;  // guards `data`
  void* data;
};

void read_now(const UsedArray& from, void* data, std::size_t bytes, const char* call) {
  const NDArray detached = from->array.detach();
  const NDArray source =
      detached.device().kind == DeviceKind::cuda ? detached.copy_to(cpu()) : detached.contiguous();
  const auto to = std::make_shared<Destination>();
  to->data = data;
  const Var done = from.engine().new_var();
  const auto copy = [source, to, bytes](RunContext&) {
    const std::lock_guard guard(to->mutex);
    if (to->data && bytes > 0) std::memcpy(to->data, source.data<const std::byte>(), bytes);
  };
  const Access access{.read = {source.var()}, .mutate = {done}, .name = "read"};
  from.engine().push(copy, access, location_of(site_of_thread()));
  try {
    c::wait(from.engine(), done, call);
  } catch (...) {
    const std::lock_guard guard(to->mutex);
    to->data = nullptr;
    throw;
  }
}

}  // namespace

const heddle_site* heddle::c::site_of_thread() { return current_site; }

heddle_status heddle_site_set(const heddle_site* site, const heddle_site** previous) {
  if (previous) *previous = current_site;
  current_site = site;
  return HEDDLE_OK;
}

heddle_status heddle_dtype_name(int32_t dtype, const char** name, heddle_error** error) {
  return called(error, [&] {
    check_out(name, "heddle_dtype_name", "name");
    *name = name_of(dtype_of_number(dtype, "heddle_dtype_name"));
  });
}

heddle_status heddle_dtype_from_name(const char* name, int32_t* dtype, heddle_error** error) {
  return called(error, [&] {
    const std::string text = text_of(name, "heddle_dtype_from_name", "name");
    check_out(dtype, "heddle_dtype_from_name", "dtype");
    *dtype = static_cast<std::int32_t>(dtype_from_name(text));
  });
}

heddle_status heddle_dtype_size(int32_t dtype, size_t* bytes, heddle_error** error) {
  return called(error, [&] {
    check_out(bytes, "heddle_dtype_size", "bytes");
    *bytes = size_of(dtype_of_number(dtype, "heddle_dtype_size"));
  });
}

heddle_status heddle_array_create(const heddle_array_options* options, const int64_t* shape, int32_t ndim,
                                  heddle_array** array, heddle_error** error) {
  return create(options, shape, ndim, array, error, "heddle_array_create", 0, nullptr);
}

heddle_status heddle_array_zeros(const heddle_array_options* options, const int64_t* shape, int32_t ndim,
                                 heddle_array** array, heddle_error** error) {
  return create(options, shape, ndim, array, error, "heddle_array_zeros", 0, fill_with);
}

heddle_status heddle_array_ones(const heddle_array_options* options, const int64_t* shape, int32_t ndim,
                                heddle_array** array, heddle_error** error) {
  return create(options, shape, ndim, array, error, "heddle_array_ones", 1, fill_with);
}

heddle_status heddle_array_full(const heddle_array_options* options, const int64_t* shape, int32_t ndim,
                                double value, heddle_array** array, heddle_error** error) {
  return create(options, shape, ndim, array, error, "heddle_array_full", value, fill_with);
}

heddle_status heddle_array_from_memory(const heddle_array_options* options, const int64_t* shape,
                                       int32_t ndim, const void* data, size_t bytes, heddle_array** array,
                                       heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_array_from_memory";
    const NewArray place(options, kCall);
    const Dims dims = dims_of(shape, ndim, kCall);
    check_bytes(dims, place.dtype(), bytes, kCall);
    if (bytes > 0 && !data) throw_null(kCall, "data");
    check_out(array, kCall, "array");
    check_bools(place.dtype(), data, bytes, kCall);
    const EngineScope scope(place.engine());
    const bool on_gpu = place.device().kind == DeviceKind::cuda;
    NDArray made(dims, place.dtype(), on_gpu ? cpu() : place.device());
    // No op uses the new array yet, so its memory may be written outside an op.
    if (bytes > 0) std::memcpy(made.data<std::byte>(), data, bytes);
    if (on_gpu) made = made.copy_to(place.device());
    *array = new_handle(std::move(made), place.link());
  });
}

heddle_status heddle_array_lend(const heddle_array_options* options, const int64_t* shape, int32_t ndim,
                                void* data, size_t bytes, void* ctx, heddle_destroy_fn destroy,
                                heddle_array** array, heddle_error** error) {
  Owned owned(ctx, destroy);
  return called(error, [&] {
    constexpr const char* kCall = "heddle_array_lend";
    const NewArray place(options, kCall);
    const Dims dims = dims_of(shape, ndim, kCall);
    check_bytes(dims, place.dtype(), bytes, kCall);
    if (!data) throw_null(kCall, "data");
    check_out(array, kCall, "array");
    const std::size_t item = size_of(place.dtype());
    if (reinterpret_cast<std::uintptr_t>(data) % item != 0)
      throw InvalidArgument(std::string(kCall) + ": the memory is not aligned to " + std::to_string(item) +
                            " bytes");
    check_place(place.device(), data, bytes, kCall);
    if (place.device().kind != DeviceKind::cuda) check_bools(place.dtype(), data, bytes, kCall);
    const std::shared_ptr<std::byte> memory(std::make_shared<Owned>(std::move(owned)),
                                            static_cast<std::byte*>(data));
    const auto storage = std::make_shared<Storage>(place.engine(), place.device(), bytes, memory);
    *array = new_handle(NDArray(storage, dims, place.dtype()), place.link());
  });
}

heddle_status heddle_array_copy(const heddle_array* array, heddle_array** copy, heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_array> of(array, "heddle_array_copy");
    check_out(copy, "heddle_array_copy", "copy");
    *copy = make_handle<heddle_array>(*of);
  });
}

heddle_status heddle_array_destroy(heddle_array* array) {
  return guarded(nullptr, [&] {
    if (array) take(array, "heddle_array_destroy");
  });
}

heddle_status heddle_array_describe(const heddle_array* array, heddle_array_info* info,
                                    heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_array> of(array, "heddle_array_describe");
    check_struct(info, "heddle_array_describe", "heddle_array_info");
    const NDArray& x = of->array;
    *info = {};
    info->struct_size = sizeof *info;
    info->dtype = static_cast<std::int32_t>(x.dtype());
    info->ndim = x.ndim();
    std::copy(x.shape().begin(), x.shape().end(), info->shape);
    std::copy(x.strides().begin(), x.strides().end(), info->strides);
    info->offset = x.offset();
    info->size = x.size();
    info->device = device_of(x.device());
    info->contiguous = x.is_contiguous() ? 1 : 0;
    info->item_size = static_cast<std::int32_t>(size_of(x.dtype()));
  });
}

heddle_status heddle_array_var(const heddle_array* array, heddle_var** var, heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_array> of(array, "heddle_array_var");
    check_out(var, "heddle_array_var", "var");
    *var = make_handle<heddle_var>(of->array.var());
  });
}

heddle_status heddle_array_data(const heddle_array* array, void** data, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_data");
    check_out(data, "heddle_array_data", "data");
    *data = of->array.data<std::byte>();
  });
}

heddle_status heddle_array_read_data(const heddle_array* array, const void** data, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_read_data");
    check_out(data, "heddle_array_read_data", "data");
    *data = of->array.data<const std::byte>();
  });
}

heddle_status heddle_array_wait(const heddle_array* array, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_wait");
    c::wait(of.engine(), of->array.var(), "heddle_array_wait");
  });
}

heddle_status heddle_array_read(const heddle_array* array, void* data, size_t bytes, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_array_read";
    const UsedArray of(array, kCall);
    check_bytes(of->array.shape(), of->array.dtype(), bytes, kCall);
    if (bytes > 0 && !data) throw_null(kCall, "data");
    read_now(of, data, bytes, kCall);
  });
}

heddle_status heddle_array_to_text(const heddle_array* array, char** text, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_to_text");
    check_out(text, "heddle_array_to_text", "text");
    c::wait(of.engine(), of->array.var(), "heddle_array_to_text");
    *text = make_text(of->array.to_string());
  });
}
