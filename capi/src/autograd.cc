#include <algorithm>
#include <optional>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/c/autograd.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

namespace {

thread_local std::optional<NoGrad> not_recording;

// Replaces the array of a handle. If handles are checked, this happens under the registry's lock, since
// another thread may destroy the handle meanwhile.
void replace(heddle_array* handle, const NDArray& array, const char* call) {
  if (!checked) {
    handle->value.array = array;
    return;
  }
  NDArray old;  // outlives the registry's lock, so that the old array is destroyed outside it
  registry::with(handle, kArray, call, [&] { old = std::exchange(handle->value.array, array); });
}

std::vector<NDArray> arrays_of(const heddle_array* const* list, std::size_t count, const char* call) {
  if (count > 0 && !list) throw_null(call, "a list");
  std::vector<NDArray> arrays;
  for (std::size_t i = 0; i < count; ++i) arrays.push_back(UsedArray(list[i], call)->array);
  return arrays;
}

GradOptions grad_options_of(const heddle_grad_options* options, std::size_t outputs, const char* call) {
  if (!options) return {};
  check_struct(options, call, "heddle_grad_options");
  return {.seeds = options->seeds ? arrays_of(options->seeds, outputs, call) : std::vector<NDArray>(),
          .keep_tape = options->keep_tape != 0,
          .create_graph = options->create_graph != 0,
          .allow_unused = options->allow_unused != 0};
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

heddle_status heddle_grad(const heddle_array* const* outputs, size_t output_count,
                          const heddle_array* const* inputs, size_t input_count,
                          const heddle_grad_options* options, heddle_array** gradients,
                          heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_grad";
    check_out(gradients, kCall, "gradients");
    const std::vector<NDArray> from = arrays_of(outputs, output_count, kCall),
                               to = arrays_of(inputs, input_count, kCall);
    std::vector<NDArray> all = grad(from, to, grad_options_of(options, output_count, kCall));
    std::vector<heddle_array*> made(all.size(), nullptr);
    try {
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].defined()) made[i] = new_handle(std::move(all[i]), UsedArray(inputs[i], kCall)->engine);
    } catch (...) {
      for (heddle_array* one : made) heddle_array_destroy(one);
      throw;
    }
    std::copy(made.begin(), made.end(), gradients);
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
