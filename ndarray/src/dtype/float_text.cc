#include "dtype/float_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <heddle/number_text.h>

namespace heddle::ndarray_detail {

namespace {

// Parses the form "d.ddde+XX" of to_chars.
Decimal parse_scientific(const std::string& text, bool negative) {
  Decimal decimal;
  decimal.negative = negative;
  const std::size_t e = text.find('e');
  for (char c : text.substr(0, e)) {
    if (c != '.') decimal.digits += c;
  }
  decimal.point = std::atoi(text.c_str() + e + 1) + 1;
  return decimal;
}

void trim_zeros(Decimal& decimal) {
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  if (decimal.digits.empty()) decimal.point = 0;
}

template <class T> Decimal shortest_of(T x) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, std::abs(x), std::chars_format::scientific).ptr;
  Decimal decimal = parse_scientific(std::string(text, end), std::signbit(x));
  trim_zeros(decimal);
  return decimal;
}

double value_of(const Decimal& decimal) {
  const std::string text = "0." + decimal.digits + "e" + std::to_string(decimal.point);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <class T> bool names(const Decimal& decimal, double size) {
  return static_cast<double>(T(value_of(decimal))) == size;
}

// The decimal with one added to its last digit.
Decimal raised(Decimal decimal) {
  std::size_t i = decimal.digits.size();
  while (i > 0 && decimal.digits[i - 1] == '9') decimal.digits[--i] = '0';
  if (i > 0) {
    ++decimal.digits[i - 1];
  } else {
    decimal.digits.insert(0, "1");
    ++decimal.point;
  }
  return decimal;
}

// The fewest decimal digits that round to x; if two such numbers do, the nearer one. Below a power of two the
// floating-point numbers are closer together than above it. So of the two decimals around x the upper one may round to
// x although the lower one is nearer. Five digits are always enough.
template <class T> Decimal shortest_half(T x) {
  const auto value = static_cast<double>(x);
  Decimal decimal;
  for (int places = 0; places < 5; ++places) {
    decimal = rounded_scientific(value, places);
    if (names<T>(decimal, std::abs(value))) break;
    if (names<T>(raised(decimal), std::abs(value))) {
      decimal = raised(decimal);
      break;
    }
  }
  trim_zeros(decimal);
  return decimal;
}

}  // namespace

Decimal shortest(double x) { return shortest_of(x); }
Decimal shortest(float x) { return shortest_of(x); }
Decimal shortest(Float16 x) { return shortest_half(x); }
Decimal shortest(BFloat16 x) { return shortest_half(x); }

Decimal rounded_scientific(double x, int places) {
  std::string text(static_cast<std::size_t>(places + 16), ' ');
  const auto form = std::chars_format::scientific;
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(x), form, places).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return parse_scientific(text, std::signbit(x));
}

Decimal rounded_plain(double x, int places) {
  std::string plain = fixed_text(std::abs(x), places);
  if (places == 0) plain += '.';
  Decimal decimal;
  decimal.negative = std::signbit(x);
  decimal.point = static_cast<int>(plain.find('.'));
  for (char c : plain) {
    if (c != '.') decimal.digits += c;
  }
  const std::size_t zeros = decimal.digits.find_first_not_of('0');
  decimal.digits.erase(0, zeros);
  if (!decimal.digits.empty()) decimal.point -= static_cast<int>(zeros);
  trim_zeros(decimal);
  return decimal;
}

std::string plain_text(const Decimal& decimal) {
  const auto count = static_cast<int>(decimal.digits.size());
  const std::string sign = decimal.negative ? "-" : "";
  if (count == 0) return sign + "0.";
  if (decimal.point <= 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-decimal.point), '0') + decimal.digits;
  }
  if (decimal.point >= count) {
    return sign + decimal.digits + std::string(static_cast<std::size_t>(decimal.point - count), '0') + ".";
  }
  const auto point = static_cast<std::size_t>(decimal.point);
  return sign + decimal.digits.substr(0, point) + "." + decimal.digits.substr(point);
}

std::string scientific_text(const Decimal& decimal, int places, int exponent_digits) {
  std::string digits = decimal.digits.empty() ? "0" : decimal.digits;
  const int exponent = decimal.digits.empty() ? 0 : decimal.point - 1;
  if (digits.size() < static_cast<std::size_t>(places) + 1)
    digits.resize(static_cast<std::size_t>(places) + 1, '0');
  char tail[16];
  std::snprintf(tail, sizeof tail, "e%c%0*d", exponent < 0 ? '-' : '+', exponent_digits, std::abs(exponent));
  return (decimal.negative ? "-" : "") + digits.substr(0, 1) + "." + digits.substr(1) + tail;
}

}  // namespace heddle::ndarray_detail
