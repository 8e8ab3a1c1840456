// What the library's own callbacks may do with a run besides what all callbacks may.
#pragma once

#include <heddle/fit.h>

#include "fit/given_arrays.h"

namespace heddle {

struct FitAccess {
  static FitRun make(FitRun::Impl& impl);
  static const fit_detail::GivenArrays& given(const FitRun& run);
  static History train(Module& net, Trainer& trainer, const FitData& data, FitOptions options, Where where);
};

}  // namespace heddle
