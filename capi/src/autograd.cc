#include <optional>

#include <heddle/autograd.h>
#include <heddle/c/autograd.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

namespace {

thread_local std::optional<NoGrad> not_recording;

// Puts another array behind a handle, which another thread may destroy in a checked process.
void replace(heddle_array* handle, const NDArray& array, const char* call) {
  if (!checked) {
    handle->value.array = array;
    return;
  }
  NDArray old;  // destroyed outside the registry's lock
  registry::with(handle, kArray, call, [&] { old = std::exchange(handle->value.array, array); });
}

}  // namespace

heddle_status heddle_array_set_requires_grad(heddle_array* array, int32_t on, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_array_set_requires_grad";
    NDArray leaf = UsedArray(array, kCall)->array;
    set_requires_grad(leaf, on != 0);
    replace(array, leaf, kCall);
  });
}

heddle_status heddle_array_requires_grad(const heddle_array* array, int32_t* needed, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_requires_grad");
    check_out(needed, "heddle_array_requires_grad", "needed");
    *needed = requires_grad(of->array) ? 1 : 0;
  });
}

heddle_status heddle_array_grad(const heddle_array* array, heddle_array** grad, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_grad");
    check_out(grad, "heddle_array_grad", "grad");
    NDArray gradient = heddle::grad(of->array);
    *grad = gradient.defined() ? new_handle(std::move(gradient), of->engine) : nullptr;
  });
}

heddle_status heddle_array_row_sparse_grad(const heddle_array* array, heddle_row_sparse** grad,
                                           heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_row_sparse_grad");
    check_out(grad, "heddle_array_row_sparse_grad", "grad");
    RowSparse gradient = heddle::row_sparse_grad(of->array);
    *grad = gradient.defined() ? new_handle(std::move(gradient), of->engine) : nullptr;
  });
}

heddle_status heddle_array_lend_gradient_memory(const heddle_array* leaf, const heddle_array* memory,
                                                heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_array_lend_gradient_memory";
    const UsedArray of(leaf, kCall);
    if (!memory) return lend_gradient_memory(of->array, {});
    lend_gradient_memory(of->array, UsedArray(memory, kCall)->array);
  });
}

heddle_status heddle_array_clear_grad(const heddle_array* array, heddle_error** error) {
  return called(error, [&] { clear_grad(UsedArray(array, "heddle_array_clear_grad")->array); });
}

heddle_status heddle_backward(const heddle_array* root, const heddle_array* seed, int32_t keep_tape,
                              heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(root, "heddle_backward");
    if (!seed) return backward(of->array, {}, keep_tape != 0);
    backward(of->array, UsedArray(seed, "heddle_backward")->array, keep_tape != 0);
  });
}

heddle_status heddle_recording_set(int32_t on, int32_t* previous, heddle_error** error) {
  return called(error, [&] {
    if (previous) *previous = not_recording ? 0 : 1;
    if (on) {
      not_recording.reset();
    } else if (!not_recording) {
      not_recording.emplace();
    }
  });
}
