#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <heddle/dlpack.h>
#include <heddle/interrupt_check.h>
#include <heddle/memory_hold.h>
#include <heddle/stream_ops.h>
#include <heddle/var_use.h>

#include "exchange/gpu_order.h"

namespace heddle {
namespace {

constexpr std::uint32_t kMajor = 1, kMinor = 0;

struct Coded {
  DType dtype;
  std::uint8_t code, bits;
};
constexpr Coded kCodes[] = {{DType::f32, HEDDLE_DL_FLOAT, 32},   {DType::f64, HEDDLE_DL_FLOAT, 64},
                            {DType::f16, HEDDLE_DL_FLOAT, 16},   {DType::i8, HEDDLE_DL_INT, 8},
                            {DType::i32, HEDDLE_DL_INT, 32},     {DType::i64, HEDDLE_DL_INT, 64},
                            {DType::u8, HEDDLE_DL_UINT, 8},      {DType::bf16, HEDDLE_DL_BFLOAT, 16},
                            {DType::boolean, HEDDLE_DL_BOOL, 8}, {DType::i16, HEDDLE_DL_INT, 16},
                            {DType::u16, HEDDLE_DL_UINT, 16},    {DType::u32, HEDDLE_DL_UINT, 32},
                            {DType::u64, HEDDLE_DL_UINT, 64}};

heddle_dl_dtype code_of(DType dtype) {
  for (const Coded& one : kCodes) {
    if (one.dtype == dtype) return {one.code, one.bits, 1};
  }
  throw InvalidArgument("to_dlpack: DLPack has no code for " + std::string(name_of(dtype)));
}

DType dtype_of_code(const heddle_dl_dtype& given) {
  for (const Coded& one : kCodes) {
    if (one.code == given.code && one.bits == given.bits && given.lanes == 1) return one.dtype;
  }
  constexpr std::uint8_t kComplex = 5;  // DLPack's kDLComplex
  if (given.code == kComplex && given.lanes == 1)
    throw InvalidArgument("from_dlpack: there is no dtype for complex" + std::to_string(given.bits) +
                          "; wanted real numbers");
  throw InvalidArgument("from_dlpack: there is no dtype for elements of code " + std::to_string(given.code) +
                        ", " + std::to_string(given.bits) + " bits and " + std::to_string(given.lanes) +
                        " lanes");
}

Device device_of(const heddle_dl_device& given) {
  if (given.type == HEDDLE_DL_CPU) return cpu();
  if (given.type == HEDDLE_DL_CUDA) return gpu(given.index);
  if (given.type == HEDDLE_DL_CUDA_HOST) return cpu_pinned();
  throw InvalidArgument("from_dlpack: there is no device for type " + std::to_string(given.type) +
                        ", index " + std::to_string(given.index));
}

// The contents of a loan. The struct that the receiver gets is its first member; the loan owns it.
template <class Managed> struct Loan {
  Managed managed{};
  NDArray array;
  // The receiver keeps it when the array's network is moved to another device.
  std::shared_ptr<const void> memory;
  Device device;  // of the memory
  Shape shape;
  Strides strides;
  // On which the receiver uses the memory of a GPU; none: it orders its own work.
  std::optional<DLPackStream> stream;
};

template <class Managed> void end_loan(Managed* lent) {
  const std::unique_ptr<Loan<Managed>> loan(static_cast<Loan<Managed>*>(lent->manager_ctx));
  if (loan->stream)
    ndarray_detail::end_behind({std::move(loan->array), loan->device, std::move(loan->memory)},
                               *loan->stream);
}

// The stream behind whose work a loan to a receiver ends.
std::optional<DLPackStream> stream_of_loan(const NDArray& array, const DLPackStream* stream) {
  if (array.device().kind != DeviceKind::cuda || array.size() == 0) return std::nullopt;
  if (!stream) return ndarray_detail::kLegacyStream;
  if (stream->native == kNoOrder.native) return std::nullopt;
  // The loan may end on another thread, where this number means another stream. The legacy default stream waits for all of them.
  if (stream->native == ndarray_detail::kThreadStream.native) return ndarray_detail::kLegacyStream;
  return *stream;
}

void wait_for_all(const NDArray& array) {
  if (is_idle(array.var())) return;
  Engine& engine = array.engine();
  const Var done = engine.new_var();
  // The op mutates the array, so that it comes after ops that read it too, since the receiver may write.
  engine.push([] {}, {.read = {array.var()}, .mutate = {array.var(), done}, .name = "to_dlpack"},
              CallSite::current());
  wait_with_check(done);
  engine.wait(done);
}

// Lets the receiver use the array, after all ops on it so far.
void order_for_receiver(const NDArray& array, const DLPackStream* stream) {
  if (!stream) return wait_for_all(array);
  if (stream->native == kNoOrder.native) return void(ordered_stream(array));
  order_before(array, *stream);
}

template <class Managed>
Managed* lend(const NDArray& given, bool copy, const DLPackStream* stream, Where where) {
  const CallSite site(where);
  if (!given.defined()) ndarray_detail::refuse_undefined("to_dlpack");
  auto loan = std::make_unique<Loan<Managed>>();
  // If the op that runs on this thread has declared the array, this call does not wait: the op would wait for
  // itself. With `copy` the array is a new one, which no op has declared.
  const VarUse use = copy ? VarUse::none : use_by_this_op(given.var());
  const bool read_only = use == VarUse::read;
  if (read_only && !std::is_same_v<Managed, heddle_dl_managed_tensor_versioned>)
    throw InvalidArgument("to_dlpack_unversioned: the op only reads the array, which the struct cannot say");
  loan->array = copy ? given.detach().copy() : given.detach();
  loan->device = loan->array.device();
  loan->shape = loan->array.shape();
  loan->strides = loan->array.strides();
  heddle_dl_tensor& tensor = loan->managed.tensor;
  tensor.dtype = code_of(given.dtype());
  tensor.device = dlpack_device(given);
  if (stream) ndarray_detail::check_on_gpu("to_dlpack", given);
  if (use == VarUse::none) order_for_receiver(loan->array, stream);
  if (loan->array.size() > 0) {
    const auto touch = read_only ? check::AccessKind::read : check::AccessKind::write;
    loan->memory = hold_memory(loan->array.storage());
    std::byte* const begin = loan->array.storage()->device_data(touch, &loan->array);
    tensor.data = begin + loan->array.offset() * static_cast<std::int64_t>(size_of(given.dtype()));
  }
  tensor.ndim = loan->shape.size();
  tensor.shape = &loan->shape[0];
  tensor.strides = &loan->strides[0];
  if constexpr (std::is_same_v<Managed, heddle_dl_managed_tensor_versioned>) {
    loan->managed.version = {kMajor, kMinor};
    loan->managed.flags = copy ? HEDDLE_DL_IS_COPIED : read_only ? HEDDLE_DL_READ_ONLY : 0;
  }
  loan->stream = stream_of_loan(loan->array, stream);
  loan->managed.manager_ctx = loan.get();
  loan->managed.deleter = end_loan<Managed>;
  return &loan.release()->managed;
}

// The layout of a tensor's elements, relative to the first one.
struct Extent {
  Shape shape;
  Strides strides;
  // Number of elements; offsets of the lowest and the highest one.
  std::int64_t size = 0, first = 0, last = 0;
};

Extent extent_of(const heddle_dl_tensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kMaxDims)
    throw InvalidArgument("from_dlpack: " + std::to_string(tensor.ndim) + " dimensions; arrays have 0 to " +
                          std::to_string(kMaxDims));
  if (tensor.ndim > 0 && !tensor.shape) throw InvalidArgument("from_dlpack: the shape is null");
  const auto ndim = static_cast<std::size_t>(tensor.ndim);
  Extent extent;
  extent.shape = Shape(std::span<const std::int64_t>(tensor.shape, ndim));
  extent.size = ndarray_detail::in_name_of("from_dlpack", [&] { return element_count(extent.shape); });
  // A tensor without elements may have any strides.
  extent.strides = tensor.strides && extent.size > 0
                       ? Strides(std::span<const std::int64_t>(tensor.strides, ndim))
                       : contiguous_strides(extent.shape);
  for (int i = 0; i < extent.shape.size() && extent.size > 0; ++i) {
    std::int64_t reach;
    std::int64_t& end = extent.strides[i] < 0 ? extent.first : extent.last;
    if (__builtin_mul_overflow(extent.shape[i] - 1, extent.strides[i], &reach) ||
        __builtin_add_overflow(end, reach, &end))
      throw InvalidArgument("from_dlpack: strides " + extent.strides.to_string() + " of shape " +
                            extent.shape.to_string() + " reach beyond all memory");
  }
  return extent;
}

// Whether a bool of the axes from `axis` on, starting at `first`, has a byte above 1.
bool has_wrong_bool(const Extent& extent, int axis, const std::byte* first) {
  if (axis == extent.shape.size()) return *first > std::byte{1};
  const std::int64_t count = extent.shape[axis], stride = extent.strides[axis];
  if (axis + 1 == extent.shape.size() && stride == 1)
    return std::any_of(first, first + count, [](std::byte b) { return b > std::byte{1}; });
  for (std::int64_t i = 0; i < count; ++i)
    if (has_wrong_bool(extent, axis + 1, first + i * stride)) return true;
  return false;
}

// Reading a bool that is neither 0 nor 1 would be undefined behaviour. A GPU's memory is not checked here.
void check_bools(const Extent& extent, DType dtype, Device device, const std::byte* first) {
  if (dtype != DType::boolean || device.kind == DeviceKind::cuda) return;
  if (has_wrong_bool(extent, 0, first))
    throw InvalidArgument("from_dlpack: the memory holds a bool whose byte is above 1; want 0 or 1 in each");
}

// Ends a loan of a GPU's memory behind the work of the compute stream: an array may end when its ops are issued.
template <class Managed> struct EndOfLoan {
  Managed* managed;
  explicit EndOfLoan(Managed* lent) : managed(lent) {}
  EndOfLoan(EndOfLoan&& other) noexcept : managed(std::exchange(other.managed, nullptr)) {}
  ~EndOfLoan() {
    if (managed && managed->deleter) managed->deleter(managed);
  }
  void operator()(Stream&) const {}
};

// Owns a tensor that another library has lent.
template <class Managed> struct Holder {
  Var var;  // of the engine, for a tensor on a GPU
  Device device;
  Managed* managed = nullptr;
  ~Holder() {
    if (!managed) return;
    EndOfLoan<Managed> end(managed);
    if (device.kind != DeviceKind::cuda) return;
    Engine* const engine = engine_of(var).load();
    if (!engine || has_ended(*engine)) return;
    try {
      engine->push_on(engine->stream(device), std::move(end), {.name = "end of a loan"});
    } catch (const std::exception&) {  // the GPU is lost, or memory: `end` ends the loan now
    }
  }
};

template <class Managed>
NDArray borrow(Managed* managed, bool copy, bool read_only, const DLPackStream* stream, Where where) {
  const CallSite site(where);
  const heddle_dl_tensor& tensor = managed->tensor;
  const DType dtype = dtype_of_code(tensor.dtype);
  const Device device = device_of(tensor.device);
  const Extent extent = extent_of(tensor);
  // Memory that this library lent keeps its var, so that the engine goes on ordering all ops on it.
  if (managed->deleter == end_loan<Managed> && (copy || !read_only)) {
    auto* const loan = static_cast<Loan<Managed>*>(managed->manager_ctx);
    if (&loan->array.engine() == &current_engine()) {
      const NDArray taken = copy ? loan->array.copy() : loan->array;
      delete loan;  // no work of a receiver uses the memory
      return taken;
    }
  }
  const auto give_back = [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
  if (extent.size == 0) {
    NDArray empty =
        ndarray_detail::in_name_of("from_dlpack", [&] { return NDArray(extent.shape, dtype, device); });
    give_back();
    return empty;
  }
  if (read_only && !copy)
    throw InvalidArgument("from_dlpack: the memory is read-only; a copy can be written (copy = true)");
  if (!tensor.data) throw InvalidArgument("from_dlpack: the data is null");
  const auto item = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t bytes;
  if (__builtin_mul_overflow(extent.last - extent.first + 1, item, &bytes))
    throw InvalidArgument("from_dlpack: shape " + extent.shape.to_string() + " exceeds all memory");
  std::byte* const begin = static_cast<std::byte*>(tensor.data) + tensor.byte_offset + extent.first * item;
  if (reinterpret_cast<std::uintptr_t>(begin) % static_cast<std::uintptr_t>(item))
    throw InvalidArgument("from_dlpack: the memory is not aligned for " + std::string(name_of(dtype)));
  check_bools(extent, dtype, device, begin - extent.first * item);
  // Takes ownership only when nothing can throw any more, since a caller that gets an exception still owns
  // the tensor.
  const auto holder = std::make_shared<Holder<Managed>>();
  holder->device = device;
  if (device.kind == DeviceKind::cuda) holder->var = current_engine().new_var();
  auto storage = std::make_shared<Storage>(current_engine(), device, static_cast<std::size_t>(bytes),
                                           std::shared_ptr<std::byte>(holder, begin));
  const NDArray whole(std::move(storage), {extent.last - extent.first + 1}, dtype);
  NDArray array = whole.view(extent.shape, extent.strides, -extent.first);
  const bool unordered = stream && stream->native == kNoOrder.native;
  if (!unordered && (stream || device.kind == DeviceKind::cuda))
    order_after(array, stream ? *stream : ndarray_detail::kLegacyStream);
  if (copy) array = array.copy();
  holder->managed = managed;
  return array;
}

}  // namespace

heddle_dl_managed_tensor_versioned* to_dlpack(const NDArray& array, bool copy, Where where) {
  return lend<heddle_dl_managed_tensor_versioned>(array, copy, nullptr, where);
}
heddle_dl_managed_tensor* to_dlpack_unversioned(const NDArray& array, bool copy, Where where) {
  return lend<heddle_dl_managed_tensor>(array, copy, nullptr, where);
}
heddle_dl_managed_tensor_versioned* to_dlpack(const NDArray& array, DLPackStream stream, bool copy,
                                              Where where) {
  return lend<heddle_dl_managed_tensor_versioned>(array, copy, &stream, where);
}
heddle_dl_managed_tensor* to_dlpack_unversioned(const NDArray& array, DLPackStream stream, bool copy,
                                                Where where) {
  return lend<heddle_dl_managed_tensor>(array, copy, &stream, where);
}

namespace {

void check_tensor(const heddle_dl_managed_tensor_versioned* tensor) {
  if (!tensor) throw InvalidArgument("from_dlpack: the tensor is null");
  if (tensor->version.major != kMajor)
    throw InvalidArgument("from_dlpack: the tensor is of DLPack " + std::to_string(tensor->version.major) +
                          "." + std::to_string(tensor->version.minor) + "; this is DLPack " +
                          std::to_string(kMajor));
}
void check_tensor(const heddle_dl_managed_tensor* tensor) {
  if (!tensor) throw InvalidArgument("from_dlpack: the tensor is null");
}

bool is_read_only(const heddle_dl_managed_tensor_versioned& tensor) {
  return (tensor.flags & HEDDLE_DL_READ_ONLY) != 0;
}
bool is_read_only(const heddle_dl_managed_tensor&) { return false; }

template <class Managed> NDArray take(Managed* tensor, bool copy, const DLPackStream* stream, Where where) {
  check_tensor(tensor);
  return borrow(tensor, copy, is_read_only(*tensor), stream, where);
}

}  // namespace

NDArray from_dlpack(heddle_dl_managed_tensor_versioned* tensor, bool copy, Where where) {
  return take(tensor, copy, nullptr, where);
}
NDArray from_dlpack(heddle_dl_managed_tensor* tensor, bool copy, Where where) {
  return take(tensor, copy, nullptr, where);
}
NDArray from_dlpack(heddle_dl_managed_tensor_versioned* tensor, DLPackStream stream, bool copy, Where where) {
  return take(tensor, copy, &stream, where);
}
NDArray from_dlpack(heddle_dl_managed_tensor* tensor, DLPackStream stream, bool copy, Where where) {
  return take(tensor, copy, &stream, where);
}

bool is_own_loan(const heddle_dl_managed_tensor_versioned& tensor) {
  return tensor.deleter == end_loan<heddle_dl_managed_tensor_versioned>;
}
bool is_own_loan(const heddle_dl_managed_tensor& tensor) {
  return tensor.deleter == end_loan<heddle_dl_managed_tensor>;
}

heddle_dl_device dlpack_device(const NDArray& array) {
  const Device device = array.device();
  switch (device.kind) {
    case DeviceKind::cuda:
      return {HEDDLE_DL_CUDA, device.index};
    case DeviceKind::cpu_pinned:
      return {HEDDLE_DL_CUDA_HOST, 0};
    default:
      return {HEDDLE_DL_CPU, 0};
  }
}

}  // namespace heddle
