#include "arrays/gpu_copy.h"

#include <cstring>
#include <string>

#include <heddle/array_op.h>
#include <heddle/gpu_memory.h>
#include <heddle/graph.h>
#include <heddle/stream_ops.h>

#include "arrays/gpu_kernels.h"
#include "arrays/issuing.h"
#include "arrays/pieces.h"
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

// `kept` lives until the op is done.
void push_host_copy(const NDArray& source, const NDArray& target, Access access,
                    const std::shared_ptr<const LargeCopy>& kept = nullptr) {
  access.brief = is_brief({&source, 1});
  push_for(
      {&source, 1}, {&target, 1},
      [kept, source = source.detach(), target = target.detach()] {
        strided_copy(target.shape(), target_of(target), source_of(source));
      },
      access, CallSite::current());
}

// The memory of a GPU is taken on a stream of that GPU.
void push_allocation(const char* name, const NDArray& target) {
  array_push(name, OpCost::per_element, {}, {target},
             recordable([target = target.detach()](const KernelContext&) {
               target.storage()->device_data(check::AccessKind::write, &target);
             }));
}

Access access_of(const char* name, const NDArray& source, const NDArray& target) {
  return array_access(name, {&source, 1}, {&target, 1});
}

// Copies the bytes of a row-major array to another one of that dtype. Memory of the CPU is page-locked.
void push_transfer(const NDArray& source, const NDArray& target, const Access& access) {
  Engine& engine = target.engine();
  const bool from_gpu = on_gpu(source);
  const Device device = (from_gpu ? source : target).device();
  Stream& lane = engine.stream(device, from_gpu ? Lane::copy_out : Lane::copy_in);
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

std::size_t bytes_of(const NDArray& array) {
  return static_cast<std::size_t>(array.size()) * size_of(array.dtype());
}

// Whether a GPU copies from or to this array of the CPU as it is. Memory of another library may be page-locked too.
bool goes_directly(const NDArray& array, DType dtype) {
  if (array.dtype() != dtype || !array.is_contiguous()) return false;
  if (array.device().kind == DeviceKind::cpu_pinned) return true;
  const auto* const begin = static_cast<const std::byte*>(array.storage()->address());
  return begin &&
         is_page_locked(begin + array.offset() * static_cast<std::int64_t>(size_of(dtype)), bytes_of(array));
}

void push_staged(const char* name, const NDArray& source, const NDArray& target) {
  const NDArray staging = dense(source, target.dtype(), cpu_pinned());
  const Access fill = access_of(name, source, staging), empty = access_of(name, staging, target);
  if (on_gpu(source)) {
    push_transfer(source, staging, fill);
    push_host_copy(staging, target, empty);
  } else {
    push_host_copy(source, staging, fill);
    push_transfer(staging, target, empty);
  }
}

void push_in_pieces(const char* name, const NDArray& source, const NDArray& target,
                    const std::shared_ptr<const LargeCopy>& copy) {
  const bool from_gpu = on_gpu(source);
  Engine& engine = target.engine();
  const DType dtype = target.dtype();
  const auto most = static_cast<std::int64_t>(copy->piece_bytes() / size_of(dtype));
  NDArray from = source.detach(), to = target.detach();
  if (from.is_contiguous() && to.is_contiguous()) {
    from = from.view_as({from.size()});
    to = to.view_as({to.size()});
  }
  const EngineScope scope(engine);
  const NDArray blocks[] = {NDArray({most}, dtype, cpu_pinned()), NDArray({most}, dtype, cpu_pinned())};
  std::size_t number = 0;
  for (const Piece& piece : pieces_of(to.shape(), most)) {
    const NDArray block(blocks[number % 2].storage(), piece.sizes, dtype);
    Access fill = array_access(name, {&from, 1}, {}), empty = array_access(name, {}, {&to, 1});
    fill.mutate.add(block.var());
    empty.read.add(block.var());
    if (number > 0) empty.read.add(to.var());  // an error of the pieces before stays
    const NDArray piece_from = part_of(from, piece), piece_to = part_of(to, piece);
    if (from_gpu) {
      push_transfer(piece_from, block, fill);
      push_host_copy(block, piece_to, empty, copy);
    } else {
      push_host_copy(piece_from, block, fill, copy);
      push_transfer(block, piece_to, empty);
    }
    ++number;
  }
}

// One of the arrays is on the CPU. The one that is on a GPU is row-major, and has the target's dtype.
void push_to_or_from_cpu(const char* name, const NDArray& source, const NDArray& target) {
  const DType dtype = target.dtype();
  if (goes_directly(on_gpu(source) ? target : source, dtype))
    return push_transfer(source, target, access_of(name, source, target));
  const bool small = static_cast<std::size_t>(target.size()) * size_of(dtype) <= kPieceBytes;
  const bool one_engine = &source.engine() == &target.engine();  // else push_staged() throws
  if (small || !one_engine) return push_staged(name, source, target);
  const auto copy = std::make_shared<const LargeCopy>();
  if (is_capturing()) return push_in_pieces(name, source, target, copy);
  // One op to all others: what another thread pushes on these arrays comes before all pieces or after them.
  const Where where = CallSite::current();
  target.engine().capture([&] { push_in_pieces(name, source, target, copy); }, name, where).launch();
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
  if (on_gpu(source) && !(source.dtype() == dtype && source.is_contiguous())) {
    sent = dense(source, dtype, source.device());
    push_kernel_copy(name, source, sent);
  }
  if (on_gpu(target) && !target.is_contiguous()) received = dense(target, dtype, target.device());
  if (on_gpu(sent) && on_gpu(received)) {
    push_allocation(name, received);
    push_transfer(sent, received, access_of(name, sent, received));
  } else {
    push_to_or_from_cpu(name, sent, received);
  }
  if (received.storage() != target.storage()) push_kernel_copy(name, received, target);
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
