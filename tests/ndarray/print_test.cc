#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

using namespace heddle;

// A few examples with known texts; numpy_check.py compares many more arrays with NumPy.
TEST_CASE("arrays print as NumPy's") {
  CHECK(array<float>({1, 2, 3, 4}).view_as({2, 2}).to_string() == "[[1. 2.]\n [3. 4.]]");
  CHECK(array<float>({0.1f, -2.5f, 100}).to_string() == "[  0.1  -2.5 100. ]");
  CHECK(array<double>({1e-10, 1}).to_string() == "[1.e-10 1.e+00]");
  CHECK(array<double>({1.0 / 3, 2.0 / 3}).to_string() == "[0.33333333 0.66666667]");
  CHECK(array<bool>({true, false}).to_string() == "[ True False]");
  CHECK(array<std::int32_t>({-1, 100}).to_string() == "[ -1 100]");
  CHECK(array<float>({NAN, -INFINITY, 1}).to_string() == "[ nan -inf   1.]");
  CHECK(full({}, 2.5).to_string() == "2.5");
  CHECK(full({}, 1e-5, DType::f64).to_string() == "1e-05");
  CHECK(full({}, 1, DType::boolean).to_string() == "True");
  // An element that is 0.0001 rounded to the array's dtype gets no exponent, even if as a double it is less
  // than 0.0001.
  for (const DType dtype : {DType::f32, DType::f64, DType::f16})
    CHECK(array<double>({1e-4, 1e-3}).astype(dtype).to_string() == "[0.0001 0.001 ]");
  CHECK(array<float>({9e-5F, 1e-3F}).to_string() == "[9.e-05 1.e-03]");
  CHECK(zeros({0}).to_string() == "[]");
  CHECK(zeros({3, 0}).to_string() == "[]");
  // Strides that overflow 64 bits if they are counted in bytes. They are never used: no axis with such a
  // stride has two elements.
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK(zeros({0, huge}).to_string() == "[]");
  CHECK(ones({2}).view({1, 2}, {huge, 1}, 0).to_string() == "[[1. 1.]]");
}

TEST_CASE("long rows wrap, large arrays are summarised") {
  CHECK(arange(0, 2000, 1, DType::i32).to_string() == "[   0    1    2 ... 1997 1998 1999]");
  CHECK(arange(0, 1000, 1, DType::i32).to_string().find("...") == std::string::npos);
  CHECK(arange(100, 120, 1, DType::i32).to_string() ==
        "[100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117\n 118 119]");
}

TEST_CASE("arrays print to streams") {
  std::ostringstream out;
  out << array<float>({1, 2});
  CHECK(out.str() == "[1. 2.]");
}
