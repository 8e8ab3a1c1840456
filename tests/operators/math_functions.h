// The operators of elementwise_math.h by their names, for tests of all of them.
#pragma once

#include <utility>
#include <vector>

#include <heddle/elementwise_math.h>

namespace heddle::testing {

using Unary = NDArray (*)(const NDArray&, Where);
using Binary = NDArray (*)(const Operand&, const Operand&, Where);

inline const std::vector<std::pair<const char*, Unary>> kUnaryMath = {
    {"exp2", exp2},   {"expm1", expm1},   {"log1p", log1p},       {"log2", log2},
    {"log10", log10}, {"rsqrt", rsqrt},   {"cbrt", cbrt},         {"reciprocal", reciprocal},
    {"sin", sin},     {"cos", cos},       {"tan", tan},           {"asin", asin},
    {"acos", acos},   {"atan", atan},     {"sinh", sinh},         {"cosh", cosh},
    {"asinh", asinh}, {"acosh", acosh},   {"atanh", atanh},       {"erf", erf},
    {"erfc", erfc},   {"lgamma", lgamma}, {"digamma", digamma},   {"floor", floor},
    {"ceil", ceil},   {"round", round},   {"trunc", trunc},       {"sign", sign},
    {"isnan", isnan}, {"isinf", isinf},   {"isfinite", isfinite}, {"signbit", signbit}};
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
// Of integers.
inline const std::vector<std::pair<const char*, Binary>> kBits = {
    {"bitwise_and", bitwise_and},
    {"bitwise_or", bitwise_or},
    {"bitwise_xor", bitwise_xor},
    {"bitwise_left_shift", bitwise_left_shift},
    {"bitwise_right_shift", bitwise_right_shift}};

}  // namespace heddle::testing
