#include <string>

#include <heddle/number_text.h>
#include <heddle/scalar.h>

namespace heddle {

std::partial_ordering Scalar::compared_with(const Scalar& other) const {
  if (is_real() || other.is_real()) return real() <=> other.real();
  if (is_huge() != other.is_huge())
    return is_huge() ? std::partial_ordering::greater : std::partial_ordering::less;
  return integer_ <=> other.integer_;  // for huge numbers both are negative, and in the same order
}

std::string Scalar::to_string() const {
  if (is_huge()) return std::to_string(as<std::uint64_t>());
  return is_integral() ? std::to_string(as<std::int64_t>()) : number_text(real());
}

}  // namespace heddle
