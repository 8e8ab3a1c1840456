#include <heddle/array_op.h>
#include <heddle/interrupt_check.h>
#include <heddle/ndarray.h>
#include <heddle/var_use.h>

#include "arrays/gpu_copy.h"
#include "arrays/layout.h"
#include "arrays/read_now.h"
#include "arrays/strided_copy.h"

namespace heddle {

namespace {

std::size_t checked_bytes(const Shape& shape, DType dtype) {
  std::int64_t bytes;
  const std::int64_t count = ndarray_detail::in_name_of("NDArray", [&] { return element_count(shape); });
  if (__builtin_mul_overflow(count, static_cast<std::int64_t>(size_of(dtype)), &bytes)) {
    throw InvalidArgument("NDArray: shape " + shape.to_string() + " of " + name_of(dtype) +
                          " has more bytes than fit 64 bits");
  }
  return static_cast<std::size_t>(bytes);
}

// Makes an array on the engine of `like`, which need not be the current engine.
NDArray new_beside(const NDArray& like, DType dtype, Device device) {
  EngineScope scope(like.engine());
  return NDArray(like.shape(), dtype, device);
}

void push_copy(const char* name, const NDArray& source, const NDArray& target) {
  if (ndarray_detail::on_gpu(source) || ndarray_detail::on_gpu(target)) [[unlikely]]
    return ndarray_detail::push_gpu_copy(name, source, target);
  array_push(name, OpCost::per_element, {source}, {target},
             [source = source.detach(), target = target.detach()] {
               ndarray_detail::strided_copy(target.shape(), ndarray_detail::target_of(target),
                                            ndarray_detail::source_of(source));
             });
}

void check_defined(const NDArray& array, const char* name) {
  if (!array.defined()) ndarray_detail::refuse_undefined(name);
}

void check_target(const NDArray& target, const char* name) {
  check_defined(target, name);
  if (target.overlaps_itself()) {
    throw InvalidArgument(std::string(name) + ": elements of a view of shape " + target.shape().to_string() +
                          " with strides " + target.strides().to_string() + " share memory");
  }
  if (target.grad_meta()) target.grad_meta()->check_target(name);
}

NDArray copied(const char* name, const NDArray& source, DType dtype, Device device) {
  NDArray result = new_beside(source, dtype, device);
  push_copy(name, source, result);
  if (source.grad_meta() && is_floating(dtype)) source.grad_meta()->record_elements(name, result, source);
  return result;
}

template <class T> void push_fill(const NDArray& array, T value) {
  check_target(array, "fill");
  if (ndarray_detail::on_gpu(array)) [[unlikely]]
    return ndarray_detail::push_gpu_fill(array, &value, dtype_of<T>);
  array_push("fill", OpCost::per_element, {}, {array}, [value, target = array.detach()] {
    ndarray_detail::strided_copy(
        target.shape(), ndarray_detail::target_of(target),
        {reinterpret_cast<const std::byte*>(&value), dtype_of<T>, Dims::filled(target.ndim(), 0)});
  });
}

bool same_view(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

}  // namespace

NDArray::NDArray(Shape shape, DType dtype, Device device)
    : storage_(std::make_shared<Storage>(current_engine(), device, checked_bytes(shape, dtype))),
      shape_(shape),
      strides_(contiguous_strides(shape)),
      dtype_(dtype) {}

NDArray::NDArray(std::shared_ptr<Storage> storage, Shape shape, DType dtype)
    : storage_(std::move(storage)), shape_(shape), strides_(contiguous_strides(shape)), dtype_(dtype) {
  if (storage_ && checked_bytes(shape, dtype) <= storage_->bytes()) return;
  throw InvalidArgument(
      "NDArray: " + shape.to_string() + " of " + name_of(dtype) + " does not fit into " +
      (storage_ ? std::to_string(storage_->bytes()) + " bytes" : std::string("no storage")));
}

std::int64_t NDArray::size(int axis) const {
  check_defined(*this, "size");
  return shape_[ndarray_detail::axis_of("size", axis, shape_)];
}

bool NDArray::is_contiguous() const {
  check_defined(*this, "is_contiguous");
  std::int64_t expected = 1;
  for (int i = ndim() - 1; i >= 0; --i) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != expected) {
      return size() == 0;  // an array without elements is contiguous, whatever its strides
    }
    expected *= shape_[i];
  }
  return true;
}

bool NDArray::covers_storage() const {
  check_defined(*this, "covers_storage");
  const std::size_t bytes = static_cast<std::size_t>(size()) * size_of(dtype_);
  return bytes == storage_->bytes() && (is_contiguous() || !overlaps_itself());
}

bool NDArray::overlaps_itself() const {
  check_defined(*this, "overlaps_itself");
  return ndarray_detail::overlaps_itself(shape_, strides_);
}

NDArray NDArray::detach() const {
  check_defined(*this, "detach");
  return view_of(shape_, strides_, offset_);
}

NDArray NDArray::copy(Where where) const {
  const CallSite site(where);
  check_defined(*this, "copy");
  return copied("copy", *this, dtype_, device());
}

NDArray NDArray::copy_to(Device device, Where where) const {
  const CallSite site(where);
  check_defined(*this, "copy_to");
  return copied("copy_to", *this, dtype_, device);
}

NDArray NDArray::contiguous(Where where) const {
  const CallSite site(where);
  check_defined(*this, "contiguous");
  return is_contiguous() ? *this : copy(where);
}

NDArray NDArray::astype(DType dtype, Where where) const {
  const CallSite site(where);
  check_defined(*this, "astype");
  return copied("astype", *this, dtype, device());
}

void NDArray::assign(const NDArray& source, Where where) const {
  const CallSite site(where);
  check_target(*this, "assign");
  check_defined(source, "assign");
  if (source.grad_meta()) source.grad_meta()->check_source("assign");
  if (same_view(*this, source)) return;
  NDArray given = source.detach();
  // Leading axes of length 1 are dropped, as in NumPy.
  while (given.ndim() > ndim() && given.shape_[0] == 1) given = given[0];
  if (!ndarray_detail::broadcasts_to(given.shape_, shape_)) {
    throw InvalidArgument("assign: a source of shape " + source.shape_.to_string() +
                          " does not broadcast to a target of shape " + shape_.to_string());
  }
  const NDArray apart = ndarray_detail::may_overlap(*this, given) ? given.copy() : given;
  push_copy("assign", apart.broadcast_view(shape_), *this);
}

void NDArray::operator=(const Assigned& source) const&& {
  if (source.array) return assign(*source.array, source.where);
  fill(source.number, source.where);
}

void NDArray::fill(Scalar value, Where where) const {
  const CallSite site(where);
  // i64 and u64 have values that a double does not represent.
  const bool fits_i64 = value.is_integral(),
             fits_u64 = value.is_huge() || (fits_i64 && value.as<double>() >= 0);
  const bool exact = dtype_ == DType::u64 ? fits_u64 : dtype_ == DType::i64 && fits_i64;
  exact ? push_fill(*this, value.as<std::uint64_t>()) : push_fill(*this, value.real());
}

void NDArray::wait() const {
  check_defined(*this, "wait");
  wait_with_check(var());
  wait_on(var());
}

void NDArray::check_dtype(const char* member, DType wanted) const {
  check_defined(*this, member);
  if (dtype_ != wanted) {
    throw InvalidArgument(std::string(member) + ": an array of " + name_of(dtype_) + " was read as " +
                          name_of(wanted));
  }
}

template <class T> T NDArray::item(Where where) const {
  const CallSite site(where);
  check_dtype("item", dtype_of<T>);
  if (size() != 1) {
    throw InvalidArgument("item: wants an array with one element, not of shape " + shape_.to_string());
  }
  return to_vector<T>(where).front();
}

Scalar NDArray::item(Where where) const {
  const CallSite site(where);
  check_defined(*this, "item");
  return visit_dtype(dtype_, [&]<class T>() { return Scalar(item<T>(where)); });
}

NDArray::operator bool() const {
  const CallSite site((Where()));  // a conversion operator has no parameter for the call site
  check_defined(*this, "operator bool");
  if (size() == 1) return item().as<bool>();
  throw InvalidArgument("operator bool: an array of shape " + shape_.to_string() +
                        " is neither true nor false; say any() or all()");
}

template <class T> std::vector<T> NDArray::to_vector(Where where) const {
  const CallSite site(where);
  check_dtype("to_vector", dtype_of<T>);
  if (ndarray_detail::on_gpu(*this)) [[unlikely]]
    return ndarray_detail::on_cpu(*this).to_vector<T>(where);
  // Bools are read as bytes: a vector<bool> has no memory to copy to.
  using Element = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  auto values = std::make_shared<std::vector<Element>>(static_cast<std::size_t>(size()));
  ndarray_detail::read_now(*this, "to_vector", [values, source = detach()] {
    const ndarray_detail::Target target{reinterpret_cast<std::byte*>(values->data()), dtype_of<Element>,
                                        contiguous_strides(source.shape())};
    ndarray_detail::strided_copy(source.shape(), target, ndarray_detail::source_of(source));
  });
  if constexpr (std::is_same_v<T, bool>) {
    return std::vector<bool>(values->begin(), values->end());
  } else {
    return std::move(*values);
  }
}

template float NDArray::item<float>(Where) const;
template double NDArray::item<double>(Where) const;
template std::int32_t NDArray::item<std::int32_t>(Where) const;
template std::int64_t NDArray::item<std::int64_t>(Where) const;
template std::uint8_t NDArray::item<std::uint8_t>(Where) const;
template bool NDArray::item<bool>(Where) const;
template Float16 NDArray::item<Float16>(Where) const;
template BFloat16 NDArray::item<BFloat16>(Where) const;
template std::int8_t NDArray::item<std::int8_t>(Where) const;
template std::int16_t NDArray::item<std::int16_t>(Where) const;
template std::uint16_t NDArray::item<std::uint16_t>(Where) const;
template std::uint32_t NDArray::item<std::uint32_t>(Where) const;
template std::uint64_t NDArray::item<std::uint64_t>(Where) const;

template std::vector<float> NDArray::to_vector<float>(Where) const;
template std::vector<double> NDArray::to_vector<double>(Where) const;
template std::vector<std::int32_t> NDArray::to_vector<std::int32_t>(Where) const;
template std::vector<std::int64_t> NDArray::to_vector<std::int64_t>(Where) const;
template std::vector<std::uint8_t> NDArray::to_vector<std::uint8_t>(Where) const;
template std::vector<bool> NDArray::to_vector<bool>(Where) const;
template std::vector<Float16> NDArray::to_vector<Float16>(Where) const;
template std::vector<BFloat16> NDArray::to_vector<BFloat16>(Where) const;
template std::vector<std::int8_t> NDArray::to_vector<std::int8_t>(Where) const;
template std::vector<std::int16_t> NDArray::to_vector<std::int16_t>(Where) const;
template std::vector<std::uint16_t> NDArray::to_vector<std::uint16_t>(Where) const;
template std::vector<std::uint32_t> NDArray::to_vector<std::uint32_t>(Where) const;
template std::vector<std::uint64_t> NDArray::to_vector<std::uint64_t>(Where) const;

}  // namespace heddle
