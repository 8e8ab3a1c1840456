#include <algorithm>

#include <heddle/dtype.h>
#include <heddle/error.h>

namespace heddle {

namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean};

// Place in the chain bool < u8 < i32 < i64 < f64, along which the larger of two holds every value of both.
int rank_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 0;
    case DType::u8:
      return 1;
    case DType::i32:
      return 2;
    case DType::i64:
      return 3;
    default:
      return 4;
  }
}

}  // namespace

std::size_t size_of(DType dtype) {
  return visit_dtype(dtype, []<class T>() { return sizeof(T); });
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
    default:
      return "f32";
  }
}

DType dtype_from_name(const std::string& name) {
  for (DType dtype : kAll) {
    if (name == name_of(dtype)) return dtype;
  }
  throw InvalidArgument("no dtype is called \"" + name + "\"; there are f32, f64, i32, i64, u8 and bool");
}

bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::f32 || b == DType::f32) {
    const DType other = a == DType::f32 ? b : a;
    // f32 holds every u8, but not every i32
    return other == DType::u8 || other == DType::boolean ? DType::f32 : DType::f64;
  }
  return rank_of(a) < rank_of(b) ? b : a;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

}  // namespace heddle
