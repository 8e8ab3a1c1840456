#include <heddle/c/array_dlpack.h>
#include <heddle/default_engine.h>
#include <heddle/dlpack.h>

#include "array_handle.h"
#include "c/wait.h"

using namespace heddle;
using namespace heddle::c;

namespace {

template <class Tensor>
heddle_status lend(const heddle_array* array, std::int32_t copy, Tensor** tensor, heddle_error** error,
                   const char* call, Tensor* (*to)(const NDArray&, bool, Where)) noexcept {
  return called(error, [&] {
    const UsedArray of(array, call);
    check_out(tensor, call, "tensor");
    c::wait(of.engine(), of->array.var(), call);
    *tensor = to(of->array, copy != 0, Where::current());
  });
}

template <class Tensor>
heddle_status take_over(heddle_engine* engine, Tensor* tensor, std::int32_t copy, const DLPackStream* stream,
                        heddle_array** array, heddle_error** error, const char* call) noexcept {
  return called(error, [&] {
    const std::shared_ptr<Engine> on = engine_of(engine, call);
    if (!tensor) throw_null(call, "tensor");
    check_out(array, call, "array");
    const EngineScope scope(*on);
    NDArray taken = stream ? from_dlpack(tensor, *stream, copy != 0) : from_dlpack(tensor, copy != 0);
    *array = new_handle(std::move(taken), EngineLink(on));
  });
}

}  // namespace

heddle_status heddle_array_to_dlpack(const heddle_array* array, int32_t copy,
                                     heddle_dl_managed_tensor_versioned** tensor, heddle_error** error) {
  return lend(array, copy, tensor, error, "heddle_array_to_dlpack", to_dlpack);
}

heddle_status heddle_array_to_dlpack_unversioned(const heddle_array* array, int32_t copy,
                                                 heddle_dl_managed_tensor** tensor, heddle_error** error) {
  return lend(array, copy, tensor, error, "heddle_array_to_dlpack_unversioned", to_dlpack_unversioned);
}

heddle_status heddle_array_to_dlpack_on(const heddle_array* array, int32_t copy, void* stream,
                                        heddle_dl_managed_tensor_versioned** tensor, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_array_to_dlpack_on";
    const UsedArray of(array, kCall);
    check_out(tensor, kCall, "tensor");
    *tensor = to_dlpack(of->array, DLPackStream{stream}, copy != 0);
  });
}

heddle_status heddle_array_order_before(const heddle_array* array, void* stream, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_order_before");
    order_before(of->array, DLPackStream{stream});
  });
}

heddle_status heddle_array_order_after(const heddle_array* array, void* stream, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_order_after");
    order_after(of->array, DLPackStream{stream});
  });
}

heddle_status heddle_array_from_dlpack(heddle_engine* engine, heddle_dl_managed_tensor_versioned* tensor,
                                       int32_t copy, heddle_array** array, heddle_error** error) {
  return take_over(engine, tensor, copy, nullptr, array, error, "heddle_array_from_dlpack");
}

heddle_status heddle_array_from_dlpack_on(heddle_engine* engine, heddle_dl_managed_tensor_versioned* tensor,
                                          int32_t copy, void* stream, heddle_array** array,
                                          heddle_error** error) {
  const DLPackStream theirs{stream};
  return take_over(engine, tensor, copy, &theirs, array, error, "heddle_array_from_dlpack_on");
}

heddle_status heddle_array_from_dlpack_unversioned(heddle_engine* engine, heddle_dl_managed_tensor* tensor,
                                                   int32_t copy, heddle_array** array, heddle_error** error) {
  return take_over(engine, tensor, copy, nullptr, array, error, "heddle_array_from_dlpack_unversioned");
}

heddle_status heddle_array_dlpack_device(const heddle_array* array, heddle_dl_device* device,
                                         heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_dlpack_device");
    check_out(device, "heddle_array_dlpack_device", "device");
    *device = dlpack_device(of->array);
  });
}
