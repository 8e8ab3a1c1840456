// The operators of elementwise_math.h on two operands, by name, for tests of all of them.
#pragma once

#include <utility>
#include <vector>

#include <heddle/elementwise_math.h>

namespace heddle::testing {

using Binary = NDArray (*)(const Operand&, const Operand&, Where);

// Operators on two operands of any dtype.
inline const std::vector<std::pair<const char*, Binary>> kBinaryMath = {{"floor_divide", floor_divide},
                                                                        {"remainder", remainder},
                                                                        {"fmod", fmod},
                                                                        {"atan2", atan2},
                                                                        {"hypot", hypot},
                                                                        {"logaddexp", logaddexp},
                                                                        {"copysign", copysign},
                                                                        {"nextafter", nextafter},
                                                                        {"logical_and", logical_and},
                                                                        {"logical_or", logical_or},
                                                                        {"logical_xor", logical_xor}};
// Operators on integers.
inline const std::vector<std::pair<const char*, Binary>> kBits = {
    {"bitwise_and", bitwise_and},
    {"bitwise_or", bitwise_or},
    {"bitwise_xor", bitwise_xor},
    {"bitwise_left_shift", bitwise_left_shift},
    {"bitwise_right_shift", bitwise_right_shift}};

}  // namespace heddle::testing
