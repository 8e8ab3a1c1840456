#include "core/autocast.h"

#include <string>
#include <unordered_map>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/error.h>
#include <heddle/graph.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"

namespace heddle {

namespace operators_detail {

struct AutocastState {
  struct Cast {
    NDArray source;  // keeps the storage, so that no other one gets its address
    std::uint64_t version;
    NDArray made;
  };
  DType dtype;
  AutocastState* outer;
  std::unordered_map<const Storage*, Cast> casts{};
};

namespace {

// A thread-local, since operators have no parameter for it: a scope changes what plain calls of them do.
thread_local constinit AutocastState* innermost = nullptr;

bool is_same_view(const NDArray& a, const NDArray& b) {
  return a.offset() == b.offset() && a.shape() == b.shape() && a.strides() == b.strides();
}

bool is_castable(DType dtype) { return dtype == DType::f32 || is_half(dtype); }

}  // namespace

PauseAutocast::PauseAutocast() : outer_(std::exchange(innermost, nullptr)) {}
PauseAutocast::~PauseAutocast() { innermost = outer_; }

bool mixes_dtypes() { return innermost != nullptr; }

namespace {

// The dtype of a product, of which array after array is told.
class ProductDtype {
 public:
  void add(DType dtype) {
    common_ = promote(common_, dtype);
    castable_ = castable_ && is_castable(dtype);
  }
  DType get() const { return castable_ ? innermost->dtype : common_; }

 private:
  DType common_ = DType::boolean;
  bool castable_ = Autocast::active();
};

}  // namespace

DType product_dtype(std::initializer_list<const NDArray*> arrays) {
  ProductDtype dtype;
  for (const NDArray* array : arrays)
    if (array->defined()) dtype.add(array->dtype());
  return dtype.get();
}

DType product_dtype(std::span<const NDArray> arrays) {
  ProductDtype dtype;
  for (const NDArray& array : arrays) dtype.add(array.dtype());
  return dtype.get();
}

// Casts of a capture are ops of its graph, which another launch runs anew, so they are not kept.
NDArray in_product(const NDArray& array, DType dtype) {
  const NDArray plain = array.detach();
  if (plain.dtype() == dtype) return plain;
  if (!innermost || innermost->dtype != dtype || !is_leaf(array) || is_capturing())
    return plain.astype(dtype);
  const std::uint64_t version = plain.storage()->version();
  AutocastState::Cast& known = innermost->casts[plain.storage().get()];
  if (!known.made.defined() || known.version != version || !is_same_view(known.source, plain))
    known = {plain, version, plain.astype(dtype)};
  return known.made;
}

bool is_written(DType dtype, DType computed) {
  return dtype == computed || (is_half(computed) && dtype == DType::f32);
}

NDArray in_dtype(const NDArray& array, DType dtype) {
  return !array.defined() || array.dtype() == dtype ? array : array.astype(dtype);
}

NDArray rounded_to(const NDArray& array, DType dtype) {
  return array.dtype() == dtype ? wide(array) : wide(cast(cast(array, dtype), array.dtype()));
}

NDArray narrowed(const NDArray& y, DType dtype) { return Autocast::active() ? y : cast(y, dtype); }

}  // namespace operators_detail

using operators_detail::innermost;

Autocast::Autocast(DType dtype, Where where) {
  const CallSite site(where);
  if (!operators_detail::is_castable(dtype))
    throw InvalidArgument(std::string("Autocast: dtype is ") + name_of(dtype) + "; want bf16, f16 or f32");
  state_ = std::make_unique<operators_detail::AutocastState>(dtype, innermost);
  innermost = state_.get();
}

// Scopes of coroutines may end in any order.
Autocast::~Autocast() {
  for (operators_detail::AutocastState** at = &innermost; *at; at = &(*at)->outer)
    if (*at == state_.get()) {
      *at = state_->outer;
      return;
    }
}

bool Autocast::active() { return innermost && innermost->dtype != DType::f32; }
DType Autocast::dtype() { return innermost ? innermost->dtype : DType::f32; }

}  // namespace heddle
