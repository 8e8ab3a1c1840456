// Floating-point numbers in decimal, as NumPy writes them.
#pragma once

#include <string>

#include <heddle/half.h>

namespace heddle::ndarray_detail {

// A finite number x: digits of |x| = 0.d1 d2 d3 ... * 10^point; no digits for 0.
struct Decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

// The shortest digits that round to x in its type.
Decimal shortest(double x);
Decimal shortest(float x);
Decimal shortest(Float16 x);
Decimal shortest(BFloat16 x);

// Exactly `places` digits behind the decimal point of the scientific form, correctly rounded.
Decimal rounded_scientific(double x, int places);
// At most `places` digits behind the decimal point of the positional form, correctly rounded, trailing zeros
// removed.
Decimal rounded_plain(double x, int places);

// The text in positional form, "-12.5", "3.", "0.001": always a point, no zeros at the end.
std::string plain_text(const Decimal& decimal);
// The text in scientific form, "1.25e-07": at least `exponent_digits` digits of exponent, zeros up to
// `places` digits behind the point.
std::string scientific_text(const Decimal& decimal, int places, int exponent_digits);

}  // namespace heddle::ndarray_detail
