#include <iterator>

#include <heddle/dtype.h>
#include <heddle/error.h>

namespace heddle {

namespace {

// The rank of a dtype in the chain bool < u8, i8 < i32 < i64.
int rank_of(DType dtype) {
  if (dtype == DType::boolean) return 0;
  if (dtype == DType::u8 || dtype == DType::i8) return 1;
  return dtype == DType::i32 ? 2 : 3;
}

DType promote_integers(DType a, DType b) {
  if (rank_of(a) == 1 && rank_of(b) == 1) return DType::i32;  // u8 and i8: neither holds the other's values
  return rank_of(a) < rank_of(b) ? b : a;
}

DType promote_floating(DType floating, DType integer) {
  const bool holds = floating == DType::bf16 || rank_of(integer) <= 1;  // f16 and f32 do not hold every i32
  return holds ? floating : DType::f64;
}

}  // namespace

std::size_t size_of(DType dtype) {
  return visit_dtype(dtype, []<class T>() { return sizeof(T); });
}

const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"f32", "f64", "i32", "i64", "u8", "bool", "f16", "bf16", "i8"};
  static_assert(std::size(kNames) == std::size(kAllDTypes));
  return kNames[static_cast<std::size_t>(dtype)];
}

DType dtype_from_name(const std::string& name) {
  std::string known;
  for (DType dtype : kAllDTypes) {
    if (name == name_of(dtype)) return dtype;
    known += (known.empty() ? "" : ", ") + std::string(name_of(dtype));
  }
  throw InvalidArgument("no dtype is called \"" + name + "\"; there are " + known);
}

bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64 || is_half(dtype); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (!is_floating(a) && !is_floating(b)) return promote_integers(a, b);
  if (!is_floating(b)) return promote_floating(a, b);
  if (!is_floating(a)) return promote_floating(b, a);
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
}

void ndarray_detail::refuse_half(DType dtype) {
  throw InvalidArgument(std::string("there is no arithmetic in ") + name_of(dtype) + "; cast it to f32");
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

}  // namespace heddle
