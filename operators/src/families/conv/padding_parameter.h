// The padding of a convolution as an argument of a call by name: numbers or a word.
#pragma once

#include <heddle/conv.h>

#include "core/parameter.h"

namespace heddle::operators_detail {

inline constexpr const char* kPaddings[] = {"same", "valid"};

// The parameter `padding` of a convolution with `axes` spatial axes.
template <int axes> struct PaddingOf { Padding padding; };
template <int axes> struct Parameter<PaddingOf<axes>> {
  static constexpr ParameterType type{ArgumentKind::integers, axes};
  static PaddingOf<axes> of(const CheckedCall& call, std::size_t i) {
    if (call.is_text(i)) return {call.text(i)};
    return {Dims(Parameter<Sizes<axes>>::of(call, i))};
  }
};

}  // namespace heddle::operators_detail
