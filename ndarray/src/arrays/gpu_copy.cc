#include "arrays/gpu_copy.h"

#include <cstring>
#include <string>

#include <heddle/array_op.h>
#include <heddle/gpu_memory.h>
#include <heddle/stream_ops.h>

#include "arrays/gpu_kernels.h"
#include "arrays/issuing.h"
#include "arrays/strided_copy.h"

namespace heddle::ndarray_detail {
namespace {

NDArray dense(const NDArray& like, DType dtype, Device device) {
  EngineScope scope(like.engine());
  return NDArray(like.shape(), dtype, device);
}

// The first element, for work on a stream.
std::byte* address(const NDArray& array, check::AccessKind touch) {
  std::byte* const begin = array.storage()->device_data(touch, &array);
  return begin + array.offset() * static_cast<std::int64_t>(size_of(array.dtype()));
}

GpuView view_of(const NDArray& array, check::AccessKind touch) {
  GpuView view{address(array, touch), static_cast<unsigned char>(array.dtype()), {}};
  for (int axis = 0; axis < array.ndim(); ++axis) view.strides[axis] = array.strides()[axis];
  return view;
}

GpuShape shape_of(const NDArray& array) {
  GpuShape shape{array.ndim(), {}};
  for (int axis = 0; axis < array.ndim(); ++axis) shape.sizes[axis] = array.shape()[axis];
  return shape;
}

// Throws Error unless the kernel was launched.
void check_launch(const char* name, const KernelContext& context, const char* problem) {
  if (problem)
    throw Error(std::string(name) + " on " + context.stream().device().to_string() + ": " + problem);
}

void push_kernel_copy(const char* name, const NDArray& source, const NDArray& target) {
  array_push(
      name, OpCost::per_element, {source}, {target},
      recordable([name, source = source.detach(), target = target.detach()](const KernelContext& context) {
        if (target.size() == 0) return;
        const GpuView to = view_of(target, check::AccessKind::write);
        const GpuView from = view_of(source, check::AccessKind::read);
        check_launch(name, context, gpu_copy(context.stream().native(), shape_of(target), from, to));
      }));
}

void push_host_copy(const char* name, const NDArray& source, const NDArray& target) {
  array_push(name, OpCost::per_element, {source}, {target},
             [source = source.detach(), target = target.detach()] {
               strided_copy(target.shape(), target_of(target), source_of(source));
             });
}

// The memory of a GPU is taken on a stream of that GPU.
void push_allocation(const char* name, const NDArray& target) {
  array_push(name, OpCost::per_element, {}, {target},
             recordable([target = target.detach()](const KernelContext&) {
               target.storage()->device_data(check::AccessKind::write, &target);
             }));
}

// Copies the bytes of a row-major array to another one of that dtype. Memory of the CPU is page-locked.
void push_transfer(const char* name, const NDArray& source, const NDArray& target) {
  Engine& engine = target.engine();
  const bool from_gpu = on_gpu(source);
  if (from_gpu && on_gpu(target)) push_allocation(name, target);
  const Device device = (from_gpu ? source : target).device();
  Stream& lane = engine.stream(device, from_gpu ? Lane::copy_out : Lane::copy_in);
  const Access access = array_access(name, {&source, 1}, {&target, 1});
  engine.push_on(
      lane,
      [source = source.detach(), target = target.detach(), &owner = engine.stream(device)](Stream& stream) {
        const IssuingOn scope(stream, owner);
        const std::size_t bytes = static_cast<std::size_t>(target.size()) * size_of(target.dtype());
        if (bytes == 0) return;
        std::byte* const to = address(target, check::AccessKind::write);
        const std::byte* const from = address(source, check::AccessKind::read);
        if (on_gpu(source) && on_gpu(target))
          return gpu_copy_between(stream, to, target.device(), from, source.device(), bytes);
        stream.copy(to, from, bytes);
      },
      access, CallSite::current());
}

bool transferable(const NDArray& array, DType dtype) {
  return array.device().kind != DeviceKind::cpu && array.dtype() == dtype && array.is_contiguous();
}

}  // namespace

NDArray on_cpu(const NDArray& array) {
  if (!array.defined() || !on_gpu(array)) return array;
  return array.detach().copy_to(cpu());
}

void push_gpu_copy(const char* name, const NDArray& source, const NDArray& target) {
  if (source.device() == target.device()) return push_kernel_copy(name, source, target);
  // Made before page-locked memory is, which is taken by way of a GPU that is in use.
  target.engine().stream(on_gpu(source) ? source.device() : target.device());
  const DType dtype = target.dtype();
  NDArray sent = source, received = target;
  if (!transferable(source, dtype)) {
    sent = dense(source, dtype, on_gpu(source) ? source.device() : cpu_pinned());
    on_gpu(source) ? push_kernel_copy(name, source, sent) : push_host_copy(name, source, sent);
  }
  if (!transferable(target, dtype))
    received = dense(target, dtype, on_gpu(target) ? target.device() : cpu_pinned());
  push_transfer(name, sent, received);
  if (received.storage() == target.storage()) return;
  on_gpu(target) ? push_kernel_copy(name, received, target) : push_host_copy(name, received, target);
}

void push_gpu_fill(const NDArray& target, const void* value, DType given) {
  const auto* const from = static_cast<const std::byte*>(value);
  GpuNumber number{};
  strided_copy({1}, {number.bytes, target.dtype(), {1}}, {from, given, {1}});
  array_push("fill", OpCost::per_element, {}, {target},
             recordable([number, target = target.detach()](const KernelContext& context) {
               if (target.size() == 0) return;
               const GpuView to = view_of(target, check::AccessKind::write);
               check_launch("fill", context,
                            gpu_fill(context.stream().native(), shape_of(target), to, number));
             }));
}

void push_gpu_range(const NDArray& target, Scalar begin, Scalar step, bool exact) {
  const auto low_bits = [](Scalar number) {
    return number.is_huge() ? number.as<std::uint64_t>()
                            : static_cast<std::uint64_t>(number.as<std::int64_t>());
  };
  GpuRange range{exact, begin.real(), step.real(), 0, 0};
  if (exact) range.begin_bits = low_bits(begin), range.step_bits = low_bits(step);
  array_push("arange", OpCost::per_element, {}, {target},
             recordable([range, target = target.detach()](const KernelContext& context) {
               if (target.size() == 0) return;
               const GpuView to = view_of(target, check::AccessKind::write);
               check_launch("arange", context,
                            gpu_range(context.stream().native(), target.size(), to, range));
             }));
}

}  // namespace heddle::ndarray_detail
