// NDArray: an n-dimensional array whose values are computed by the engine. Every call returns at once; wait(), item(),
// to_vector() and printing block until the values are computed, and rethrow an error of the ops that computed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/array_arguments.h>
#include <heddle/array_error.h>
#include <heddle/array_members.h>
#include <heddle/call_site.h>
#include <heddle/device.h>
#include <heddle/dtype.h>
#include <heddle/grad_meta.h>
#include <heddle/scalar.h>
#include <heddle/shape.h>
#include <heddle/storage.h>

namespace heddle {

class Chosen;

// An array, or a view of one. A handle: copies share storage, var and values. Threads may share the data, but
// not a handle. Errors of shapes throw InvalidArgument at the call, as do all members of an undefined array.
// Ops that a call pushes, and their errors, name `where`. array_members.h has the members that are operators.
class NDArray : public ArrayMembers<NDArray> {
 public:
  NDArray() = default;  // undefined: only defined(), detach(), grad_meta() and assignment may be used
  explicit NDArray(Shape shape, DType dtype = DType::f32, Device device = cpu());  // with undetermined values
  explicit NDArray(std::initializer_list<std::int64_t> shape, DType dtype = DType::f32, Device device = cpu())
      : NDArray(Shape(shape), dtype, device) {}
  NDArray(std::shared_ptr<Storage> storage, Shape shape, DType dtype);  // row-major, from byte 0 of storage
  NDArray(const NDArray&) = default;
  NDArray(NDArray&&) = default;
  NDArray& operator=(const NDArray&) & = default;
  NDArray& operator=(NDArray&&) & = default;
  // Writes into the array, as assign() and fill(): x[0] = y, x(1, 2) = 5. `x = y` rebinds a variable.
  void operator=(const Assigned& source) const&&;
  void operator=(const Chosen& source) const&&;
  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return checked("shape").shape_; }
  const Strides& strides() const { return checked("strides").strides_; }  // strides in elements
  std::int64_t offset() const { return checked("offset").offset_; }       // position of the first element
  DType dtype() const { return checked("dtype").dtype_; }
  int ndim() const { return checked("ndim").shape_.size(); }
  std::int64_t size() const { return element_count(checked("size").shape_); }
  std::int64_t size(int axis) const;  // size along this axis
  Device device() const { return checked("device").storage_->device(); }
  Engine& engine() const { return checked("engine").storage_->engine(); }
  const Var& var() const { return checked("var").storage_->var(); }
  const std::shared_ptr<Storage>& storage() const { return checked("storage").storage_; }
  bool is_contiguous() const;    // row-major without gaps
  bool covers_storage() const;   // whether writing this array overwrites every byte of its storage
  bool overlaps_itself() const;  // whether elements share memory, or might: such an array cannot be written

  // Views: no data moves, var and storage are shared. All but detach() record a gradient where one is needed
  // (autograd.h). view() with strides throws if it would exceed the storage. Only this array's elements get gradients
  // through view(), which throws if a gradient is needed and they share memory.
  NDArray view(Shape shape, Strides strides, std::int64_t offset, Where where = Where::current()) const;
  NDArray operator[](Index index) const;  // an index of axis 0; a negative one counts from the end
  NDArray operator[](const RangeIndex& range) const { return slice(0, range.slice, range.where); }
  NDArray slice(int axis, Slice range, Where where = Where::current()) const;
  // x(1, kAll), x(kEllipsis, Slice{.step = -1}), x(kAll, kNewAxis): one key per axis; others are taken whole.
  NDArray operator()(const AxisKey& first, const AxisKey& = {}, const AxisKey& = {}, const AxisKey& = {},
                     const AxisKey& = {}, const AxisKey& = {}, const AxisKey& = {},
                     const AxisKey& = {}) const;
  NDArray keyed(std::span<const AxisKey> keys, Where where = Where::current()) const;
  // Keys that include arrays of indices (integers) or masks (bool), at any position: indexing.h.
  Chosen operator[](const ArrayArgument& indices_or_mask) const;
  template <class... Rest> Chosen operator()(const ArrayArgument& first, const Rest&... rest) const;
  template <class... Rest>
  requires AnyArray<Rest...> Chosen operator()(const AxisKey& first, const Rest&... rest) const;
  NDArray view_as(Shape shape, Where where = Where::current()) const;  // if contiguous; one size may be -1
  NDArray view(Shape shape, Where where = Where::current()) const { return view_as(shape, where); }
  NDArray permuted(Dims axes, Where where = Where::current()) const;  // axis i is axis axes[i] of this array
  NDArray broadcast_view(const Shape& shape, Where where = Where::current()) const;  // broadcast: stride 0
  NDArray detach() const;  // an array with the same data, outside any autograd tape

  // copy() to astype() push ops. They record a gradient, except astype() to a dtype that is not floating.
  NDArray copy(Where where = Where::current()) const;                    // a new contiguous array
  NDArray copy_to(Device device, Where where = Where::current()) const;  // a copy on another device
  NDArray contiguous(Where where = Where::current()) const;  // this array if it is contiguous, else a copy
  NDArray astype(DType dtype, Where where = Where::current()) const;  // a copy, as docs/dtypes.md says

  // Changes in place. source is broadcast and converted; a source that overlaps this array is read before any
  // write. A tape does not record changes in place: throws Error, while recording, if this array was computed
  // from others (except a view of a leaf) or if source needs a gradient.
  void assign(const NDArray& source, Where where = Where::current()) const;
  void fill(Scalar value, Where where = Where::current()) const;
  // Gradients, as by the functions of autograd.h; defined in heddle::operators.
  void backward(Where where = Where::current()) const;
  void backward(const NDArray& seed, bool keep_tape = false, Where where = Where::current()) const;
  NDArray grad() const;
  bool requires_grad() const;
  void set_requires_grad(bool on = true);

  void wait() const;  // blocks, as do to_string(), item(), bool and to_vector()
  std::string to_string(Where where = Where::current()) const;  // the text that NumPy prints
  // The value of an array of one element. T must match the dtype; without T it is a Scalar.
  template <class T> T item(Where where = Where::current()) const;
  Scalar item(Where where = Where::current()) const;
  // Whether the one element is not 0: if (sum(x) > 3). Several throw InvalidArgument: say any() or all().
  explicit operator bool() const;
  template <class T> std::vector<T> to_vector(Where where = Where::current()) const;  // row-major

  // The first element. Call only inside an op that declared var(), or after wait(). T must match the dtype,
  // or be std::byte. Use data<const T>() unless the op mutates var(): check.h tests that.
  template <class T> T* data() const {
    using Value = std::remove_const_t<T>;
    constexpr bool kBytes = std::is_same_v<Value, std::byte>;
    if constexpr (!kBytes) check_dtype("data", dtype_of<Value>);
    const auto touch = std::is_const_v<T> ? check::AccessKind::read : check::AccessKind::write;
    T* begin = reinterpret_cast<T*>(checked("data").storage_->data(touch, this));
    return begin + offset_ * (kBytes ? static_cast<std::int64_t>(size_of(dtype_)) : 1);
  }

  const std::shared_ptr<GradMeta>& grad_meta() const { return grad_meta_; }  // used by autograd
  void set_grad_meta(std::shared_ptr<GradMeta> meta) { grad_meta_ = std::move(meta); }

 private:
  const NDArray& checked(const char* member) const {
    if (!storage_) [[unlikely]]
      ndarray_detail::refuse_undefined(member);
    return *this;
  }
  void check_dtype(const char* member, DType wanted) const;
  NDArray view_of(Shape shape, Strides strides, std::int64_t offset) const;  // unchecked, on no tape
  NDArray at_index(const char* name, int axis, std::int64_t index) const;
  NDArray with_axis(const char* name, int axis) const;
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  DType dtype_ = DType::f32;
  std::shared_ptr<GradMeta> grad_meta_;
};

std::ostream& operator<<(std::ostream& out, const ArrayArgument& x);

}  // namespace heddle

#include <heddle/array_creation.h>
