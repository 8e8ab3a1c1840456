#include <heddle/c/gpu.h>
#include <heddle/gpu_memory.h>
#include <heddle/storage.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

namespace {

// The address of the first element on the array's device; null if it has no elements.
std::byte* device_address(const NDArray& array, check::AccessKind touch) {
  if (array.size() == 0) return nullptr;
  return array.storage()->device_data(touch, &array) +
         array.offset() * static_cast<std::int64_t>(size_of(array.dtype()));
}

}  // namespace

heddle_status heddle_gpu_count(int32_t* count, heddle_error** error) {
  return called(error, [&] {
    check_out(count, "heddle_gpu_count", "count");
    *count = gpu_count();
  });
}

heddle_status heddle_gpu_memory_stats(heddle_device device, heddle_gpu_memory* stats, heddle_error** error) {
  return called(error, [&] {
    check_struct(stats, "heddle_gpu_memory_stats", "heddle_gpu_memory");
    const GpuMemoryStats now = gpu_memory_stats(device_of(device, "heddle_gpu_memory_stats"));
    *stats = {sizeof *stats, now.in_use, now.cached, now.free};
  });
}

heddle_status heddle_gpu_memory_trim(heddle_device device, heddle_error** error) {
  return called(error, [&] { gpu_memory_trim(device_of(device, "heddle_gpu_memory_trim")); });
}

heddle_status heddle_array_device_data(const heddle_array* array, void** data, heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_device_data");
    check_out(data, "heddle_array_device_data", "data");
    *data = device_address(of->array, check::AccessKind::write);
  });
}

heddle_status heddle_array_read_device_data(const heddle_array* array, const void** data,
                                            heddle_error** error) {
  return called(error, [&] {
    const UsedArray of(array, "heddle_array_read_device_data");
    check_out(data, "heddle_array_read_device_data", "data");
    *data = device_address(of->array, check::AccessKind::read);
  });
}
