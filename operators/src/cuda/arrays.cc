#include "cuda/arrays.h"

#include <heddle/error.h>
#include <heddle/issuing_device.h>

#include "core/data_error.h"

namespace heddle::cuda_kernels {
namespace {

// A kernel that is given memory of the CPU, or of another GPU, ends the work of all: no later op on the GPU would run.
void check_on_device(const NDArray& array) {
  const std::optional<Device> device = issuing_device();
  if (!device || array.device() == *device) return;
  throw Error("a kernel on " + device->to_string() + " got an array of " + name_of(array.dtype()) + " " +
              array.shape().to_string() + " on " + array.device().to_string() + ": this is a bug in Heddle");
}

}  // namespace

std::byte* address(const NDArray& array, check::AccessKind touch) {
  check_on_device(array);
  std::byte* const begin = array.storage()->device_data(touch, &array);
  return begin + array.offset() * static_cast<std::int64_t>(size_of(array.dtype()));
}

const void* read_address(const NDArray& array) {
  return array.defined() && array.size() > 0 ? address(array, check::AccessKind::read) : nullptr;
}
void* written_address(const NDArray& array) {
  return array.defined() && array.size() > 0 ? address(array, check::AccessKind::write) : nullptr;
}

Strided strided(const NDArray& array, check::AccessKind touch) {
  Strided made{};
  if (array.size() > 0) made.data = address(array, touch);
  made.dims = array.ndim();
  made.type = static_cast<unsigned char>(array.dtype());
  for (int axis = 0; axis < array.ndim(); ++axis) {
    made.sizes[axis] = array.shape()[axis];
    made.strides[axis] = array.strides()[axis];
  }
  return made;
}

Indices index_list(const NDArray& indices, std::int64_t bound, bool from_end, FaultSlot* slot) {
  return {strided(indices, check::AccessKind::read), bound, from_end, slot};
}

std::string text_of(unsigned long long reported, DType dtype) {
  const bool is_unsigned =
      dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
  return is_unsigned ? std::to_string(reported) : std::to_string(static_cast<std::int64_t>(reported));
}

std::function<void(const FaultSlot&)> index_refusal(const char* op, const NDArray& indices,
                                                    std::int64_t bound, std::int64_t step) {
  return [=, dtype = indices.dtype(), shape = indices.shape()](const FaultSlot& found) {
    refuse_index(op, text_of(found.value, dtype), found.place * step, shape, bound);
  };
}

void check_launch(const KernelContext& context, const char* problem) {
  if (problem) throw Error("a kernel on " + context.stream().device().to_string() + ": " + problem);
}

}  // namespace heddle::cuda_kernels
