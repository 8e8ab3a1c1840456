// The rows of the activations (activations.h), in a file of macros alone, which compilers of kernels take too.
#pragma once

// The columns: the operator; its layer; its value at x; the derivative there; the value in NumPy; documentation. Value
// and derivative are written with +, -, *, /, comparisons, where, maximum, minimum and the functions of
// families/activation/lane_functors.h. At a kink the derivative is PyTorch's; that at NaN is 1 or NaN.
// clang-format off
#define HEDDLE_ACTIVATIONS(X) \
  X(gelu, Gelu, x * normal_cdf(x), normal_cdf(x) + x * exp(x * x * -0.5) * 0.39894228040143268, \
    "x * np.vectorize(math.erfc, otypes=[float])(x * -0.5 ** 0.5) / 2", \
    "x times the distribution function of the normal distribution (Hendrycks and Gimpel, arXiv:1606.08415).") \
  X(gelu_tanh, GeluTanh, x * sigmoid((x + x * x * x * 0.044715) * 1.5957691216057308), \
    sigmoid((x + x * x * x * 0.044715) * 1.5957691216057308) + x * (sigmoid((x + x * x * x * 0.044715) * 1.5957691216057308) * \
      sigmoid((x + x * x * x * 0.044715) * -1.5957691216057308)) * (1.5957691216057308 + x * x * 0.21406444881780064), \
    "x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))", \
    "The approximation of gelu by tanh, with which GPT-2 and BERT were trained.") \
  X(silu, Silu, x * sigmoid(x), sigmoid(x) * (1 + x * sigmoid(-x)), \
    "x / (1 + np.exp(-x))", "x * sigmoid(x), also called swish (Ramachandran et al., arXiv:1710.05941).") \
  X(mish, Mish, x * tanh(maximum(x, 0) + log1p(exp(-abs(x)))), \
    tanh(maximum(x, 0) + log1p(exp(-abs(x)))) + x * sigmoid(x) * (1 - square(tanh(maximum(x, 0) + log1p(exp(-abs(x)))))), \
    "x * np.tanh(np.logaddexp(0, x))", "x * tanh(log(1 + exp(x))) (Misra, BMVC'20).") \
  X(selu, Selu, where(x <= 0, expm1(x) * 1.7580993408473766, x * 1.0507009873554805), \
    where(x > 0, 1.0507009873554805, exp(minimum(x, 0)) * 1.7580993408473766), \
    "1.0507009873554805 * np.where(x <= 0, 1.6732632423543772 * np.expm1(x), x)", \
    "The activation of self-normalising networks (Klambauer et al., NIPS'17).") \
  X(softsign, Softsign, x / (1 + abs(x)), 1 / square(1 + abs(x)), \
    "x / (1 + np.abs(x))", "x / (1 + |x|).") \
  X(log_sigmoid, LogSigmoid, minimum(x, 0) - log1p(exp(-abs(x))), sigmoid(-x), \
    "-np.logaddexp(0, -x)", "log(sigmoid(x)), exact for large negative x.") \
  X(relu6, Relu6, minimum(maximum(x, 0), 6), where(x <= 0, zero(x), where(x >= 6, zero(x), 1)), \
    "np.clip(x, 0, 6)", "x between 0 and 6.") \
  X(hard_tanh, HardTanh, minimum(maximum(x, -1), 1), where(x <= -1, zero(x), where(x >= 1, zero(x), 1)), \
    "np.clip(x, -1, 1)", "x between -1 and 1.") \
  X(hard_sigmoid, HardSigmoid, minimum(maximum(x * 0.16666666666666667 + 0.5, 0), 1), \
    where(x <= -3, zero(x), where(x >= 3, zero(x), 0.16666666666666667)), \
    "np.clip(x / 6 + 0.5, 0, 1)", "x / 6 + 1/2 between 0 and 1.") \
  X(hard_swish, HardSwish, x * minimum(maximum(x * 0.16666666666666667 + 0.5, 0), 1), \
    where(x <= -3, zero(x), where(x >= 3, 1, x * 0.33333333333333333 + 0.5)), \
    "x * np.clip(x / 6 + 0.5, 0, 1)", "x * hard_sigmoid(x) (Howard et al., ICCV'19).") \
  X(tanh_shrink, TanhShrink, \
    where(abs(x) < 0.1, x * x * x * (0.33333333333333333 - x * x * (0.13333333333333333 - x * x * (0.053968253968253968 - \
      x * x * 0.021869488536155203))), x - tanh(x)), square(tanh(x)), \
    "np.where(np.abs(x) < 0.1, x ** 3 * (1 / 3 - x * x * (2 / 15 - x * x * (17 / 315 - x * x * 62 / 2835))), x - np.tanh(x))", \
    "x - tanh(x), near 0 by its series.")

// Activations with a number. The columns are those of HEDDLE_ACTIVATIONS, with the name of the number and its default behind the
// layer.
#define HEDDLE_ACTIVATIONS_WITH_NUMBER(X) \
  X(leaky_relu, LeakyRelu, slope, 0.01, where(x <= 0, x * slope, x), where(x <= 0, zero(x) + slope, 1), \
    "np.where(x <= 0, slope * x, x)", "x, or `slope` times x where it is negative.") \
  X(elu, Elu, alpha, 1.0, where(x <= 0, expm1(x) * alpha, x), where(x > 0, 1, exp(minimum(x, 0)) * alpha), \
    "np.where(x <= 0, alpha * np.expm1(x), x)", "x, or `alpha` * (exp(x) - 1) where it is negative (Clevert et al., ICLR'16).") \
  X(celu, Celu, alpha, 1.0, where(x <= 0, expm1(x / alpha) * alpha, x), exp(where(x > 0, zero(x), x / alpha)), \
    "np.where(x <= 0, alpha * np.expm1(x / alpha), x)", "As elu, with a continuous derivative for any `alpha` (Barron, arXiv:1704.07483).") \
  X(softplus, Softplus, beta, 1.0, (maximum(x * beta, 0) + log1p(exp(-abs(x * beta)))) / beta, sigmoid(x * beta), \
    "np.logaddexp(0, beta * x) / beta", "log(1 + exp(`beta` x)) / `beta`, a smooth relu.") \
  X(hard_shrink, HardShrink, limit, 0.5, where(abs(x) <= limit, zero(x), x), where(abs(x) <= limit, zero(x), 1), \
    "np.where(np.abs(x) <= limit, 0, x)", "x, or 0 where it is within +-`limit`.") \
  X(soft_shrink, SoftShrink, limit, 0.5, where(abs(x) <= limit, zero(x), where(x < 0, x + limit, x - limit)), \
    where(abs(x) <= limit, zero(x), 1), \
    "np.where(np.abs(x) <= limit, 0, x - np.copysign(limit, x))", "x moved by `limit` towards 0, or 0 where it is within +-`limit`.")
// clang-format on
