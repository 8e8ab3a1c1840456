// The arguments of convolutions, checked.
#pragma once

#include <heddle/conv.h>

#include "families/conv/kernels.h"

namespace heddle {

// What errors call a convolution and its arrays.
struct ConvForm {
  const char* op;
  const char *x, *kernel;  // "(N, C, H, W)", "kh, kw"
};

// Checks the arrays and the options. Throws InvalidArgument that names the op. `axes`: spatial axes of x, 1 to 3.
ConvProblem conv_problem(const ConvForm& form, int axes, const NDArray& x, const NDArray& weight,
                         const NDArray& bias, const ConvOptions& options);
// The same for arrays whose dtypes and devices the caller has checked.
ConvProblem conv_problem_of_shapes(const ConvForm& form, int axes, const NDArray& x, const NDArray& weight,
                                   const NDArray& bias, const ConvOptions& options);

// The convolution whose gradient of x is the transposed one: its images in have the sizes of the transposed one's result, its images
// out those of x. It has no bias.
ConvProblem transposed_problem(const ConvForm& form, int axes, const NDArray& x, const NDArray& weight,
                               const NDArray& bias, const ConvTransposeOptions& options);

}  // namespace heddle
