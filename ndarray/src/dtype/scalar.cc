#include <string>

#include <heddle/number_text.h>
#include <heddle/scalar.h>

namespace heddle {

std::string Scalar::to_string() const {
  if (is_huge()) return std::to_string(as<std::uint64_t>());
  return is_integral() ? std::to_string(as<std::int64_t>()) : number_text(real());
}

}  // namespace heddle
