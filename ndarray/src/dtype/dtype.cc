#include <iterator>
#include <utility>

#include <heddle/dtype.h>
#include <heddle/error.h>

namespace heddle {

namespace {

// The size of an integer dtype; a bool counts as an unsigned integer without bytes.
std::size_t integer_bytes(DType dtype) { return dtype == DType::boolean ? 0 : size_of(dtype); }

// The narrowest dtype that represents all values of a and b; f64 for u64 with a signed dtype, for which there
// is no such integer dtype.
DType promote_integers(DType a, DType b) {
  if (integer_bytes(a) > integer_bytes(b)) std::swap(a, b);
  const bool one_sign = a == DType::boolean || is_unsigned(a) == is_unsigned(b);
  if (one_sign || (is_unsigned(a) && integer_bytes(a) < integer_bytes(b))) return b;
  switch (is_unsigned(a) ? integer_bytes(a) : integer_bytes(b)) {
    case 1:
      return DType::i16;
    case 2:
      return DType::i32;
    case 4:
      return DType::i64;
    default:
      return DType::f64;
  }
}

// f16 represents all integers of one byte, f32 those of two.
DType promote_floating(DType floating, DType integer) {
  const std::size_t bytes = integer_bytes(integer);
  if (floating == DType::bf16 || floating == DType::f64 || bytes <= 1) return floating;
  return bytes == 2 ? DType::f32 : DType::f64;
}

}  // namespace

std::size_t size_of(DType dtype) {
  return visit_dtype(dtype, []<class T>() { return sizeof(T); });
}

const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"f32",  "f64", "i32", "i64", "u8",  "bool", "f16",
                                    "bf16", "i8",  "i16", "u16", "u32", "u64"};
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

bool is_unsigned(DType dtype) {
  return dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
}

DType sum_dtype(DType dtype) {
  if (is_floating(dtype)) return dtype;
  return is_unsigned(dtype) ? DType::u64 : DType::i64;
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
