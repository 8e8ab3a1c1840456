#include "core/autocast.h"

#include <algorithm>
#include <memory>
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
    std::weak_ptr<Storage> source{};
    std::uint64_t version = 0;
    std::int64_t offset = 0;
    Shape shape{};
    Strides strides{};
    NDArray made{};

    bool is_of(const NDArray& array) const {
      return made.defined() && source.lock() == array.storage() && version == array.storage()->version() &&
             offset == array.offset() && shape == array.shape() && strides == array.strides() &&
             !made.engine().error_of(made.var()).exception;
    }
  };
  DType dtype;
  AutocastState* outer;
  std::unordered_map<const Storage*, Cast> casts{};
  std::size_t most_casts = 16;  // with more, those of arrays that are gone are dropped

  void drop_expired() {
    if (casts.size() <= most_casts) return;
    std::erase_if(casts, [](const auto& cast) { return cast.second.source.expired(); });
    most_casts = std::max(most_casts, 2 * casts.size());
  }
};

namespace {

// A thread-local, since operators have no parameter for it: a scope changes what plain calls of them do.
thread_local constinit AutocastState* innermost = nullptr;

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
  if (!innermost || innermost->dtype != dtype || !is_lasting_leaf(array) || is_capturing())
    return plain.astype(dtype);
  AutocastState::Cast& known = innermost->casts[plain.storage().get()];
  if (known.is_of(plain)) return known.made;
  NDArray made = plain.astype(dtype);
  known = {plain.storage(), plain.storage()->version(), plain.offset(), plain.shape(), plain.strides(), made};
  innermost->drop_expired();
  return made;
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
std::optional<DType> Autocast::current() {
  return innermost ? std::optional(innermost->dtype) : std::nullopt;
}
DType Autocast::dtype() { return innermost ? innermost->dtype : DType::f32; }

}  // namespace heddle
