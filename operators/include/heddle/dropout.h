// Dropout (Srivastava et al., JMLR 2014) and what is like it: noise in training that is absent in inference.
//
// Without `training` and for p = 0, each function returns x itself. What is drawn comes from `generator` at the call, and depends on
// neither workers nor threads. x is floating, halves are computed as f32. Differentiable, to any order. Bad arguments throw
// InvalidArgument.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

// Zeroes each element with probability p, 0 <= p <= 1, and multiplies the rest by 1 / (1 - p).
NDArray dropout(const NDArray& x, double p, Generator& generator, bool training,
                Where where = Where::current());

// dropout() of whole channels of x (N, C, ...) (Tompson et al., CVPR'15).
NDArray channel_dropout(const NDArray& x, double p, Generator& generator, bool training,
                        Where where = Where::current());

// Sets each element with probability p to the value that selu has far below 0, and scales and moves all, so that x of mean 0 and
// variance 1 keeps both (Klambauer et al., NeurIPS'17). For p = 1 the result is 0.
NDArray alpha_dropout(const NDArray& x, double p, Generator& generator, bool training,
                      Where where = Where::current());
// alpha_dropout() of whole channels of x (N, C, ...).
NDArray feature_alpha_dropout(const NDArray& x, double p, Generator& generator, bool training,
                              Where where = Where::current());

// x times normal numbers of mean 1 and standard deviation sqrt(p / (1 - p)), that of dropout; 0 <= p < 1.
NDArray gaussian_dropout(const NDArray& x, double p, Generator& generator, bool training,
                         Where where = Where::current());
// x plus normal numbers of mean 0 and this standard deviation, which is 0 or more.
NDArray gaussian_noise(const NDArray& x, double stddev, Generator& generator, bool training,
                       Where where = Where::current());

}  // namespace heddle
