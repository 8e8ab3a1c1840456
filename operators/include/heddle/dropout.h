// Dropout (Srivastava et al., JMLR 2014), inverted: in training, elements that are kept are scaled up.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

// Zeroes each element with probability p and multiplies the rest by 1 / (1 - p). Without `training`, and for
// p = 0, returns x itself. The mask is drawn from `generator` at the call. x is floating, 0 <= p <= 1.
// Differentiable.
NDArray dropout(const NDArray& x, double p, Generator& generator, bool training,
                Where where = Where::current());

}  // namespace heddle
