#include "missing.h"

const std::set<std::string>& operators_without_kernels() {
  // clang-format off
  static const std::set<std::string> all = {
      "choice: multinomial",
      "cholesky: cholesky",
      "cond: inv",
      "cond: svd",
      "det: det",
      "eigh: eigh",
      "eigvalsh: eigh",
      "expm: expm",
      "grid_sample: grid_sample",
      "inv: inv",
      "lstsq: lstsq",
      "lu: lu",
      "matrix_norm: svd",
      "matrix_rank: svd",
      "multinomial: multinomial",
      "pinv: svd",
      "qr: qr",
      "quantized_conv1d: quantized_conv",
      "quantized_conv2d: quantized_conv",
      "quantized_conv3d: quantized_conv",
      "quantized_linear: quantized_linear",
      "slogdet: det",
      "solve: solve",
      "solve_triangular: solve_triangular",
      "svd: svd",
      "svdvals: svd",
  };
  // clang-format on
  return all;
}

const std::set<std::string>& operators_with_near_results() {
  static const std::set<std::string> all = {"acos",
                                            "acosh",
                                            "affine_grid",
                                            "alpha_dropout",
                                            "asin",
                                            "asinh",
                                            "atan",
                                            "atan2",
                                            "atanh",
                                            "cbrt",
                                            "celu",
                                            "cos",
                                            "cosh",
                                            "ctc_loss",
                                            "ctc_beam_search",
                                            "digamma",
                                            "elu",
                                            "erf",
                                            "erfc",
                                            "exp",
                                            "exp2",
                                            "expm1",
                                            "feature_alpha_dropout",
                                            "gelu",
                                            "gelu_tanh",
                                            "hard_sigmoid",
                                            "hard_swish",
                                            "hypot",
                                            "lgamma",
                                            "log",
                                            "log10",
                                            "log1p",
                                            "log2",
                                            "log_sigmoid",
                                            "logaddexp",
                                            "lstm",
                                            "mish",
                                            "rnn",
                                            "rotary",
                                            "selu",
                                            "sigmoid",
                                            "silu",
                                            "sin",
                                            "sinh",
                                            "soft_cross_entropy",
                                            "softplus",
                                            "tan",
                                            "tanh",
                                            "tanh_shrink"};
  return all;
}

const std::set<std::string>& operators_with_cancellation() {
  static const std::set<std::string> all = {"gru"};  // of 1 and a sigmoid near 1
  return all;
}
