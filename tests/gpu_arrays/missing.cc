#include "missing.h"

const std::set<std::string>& operators_without_kernels() {
  // clang-format off
  static const std::set<std::string> all = {
      "ctc_beam_search: ctc_beam_search",
      "ctc_greedy_decode: ctc_greedy_decode",
      "ctc_loss: ctc_loss",
      "grid_sample: grid_sample",
      "gru: recurrent",
      "lstm: recurrent",
      "quantized_conv1d: quantized_conv",
      "quantized_conv2d: quantized_conv",
      "quantized_conv3d: quantized_conv",
      "quantized_linear: quantized_linear",
      "rnn: recurrent",
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
                                            "cholesky",
                                            "cond",
                                            "cos",
                                            "cosh",
                                            "det",
                                            "digamma",
                                            "eigvalsh",
                                            "elu",
                                            "erf",
                                            "erfc",
                                            "exp",
                                            "exp2",
                                            "expm",
                                            "expm1",
                                            "feature_alpha_dropout",
                                            "gelu",
                                            "gelu_tanh",
                                            "hard_sigmoid",
                                            "hard_swish",
                                            "hypot",
                                            "inv",
                                            "lgamma",
                                            "log",
                                            "log10",
                                            "log1p",
                                            "log2",
                                            "log_sigmoid",
                                            "logaddexp",
                                            "lstsq",
                                            "lu",
                                            "matrix_norm",
                                            "mish",
                                            "pinv",
                                            "qr",
                                            "rotary",
                                            "selu",
                                            "sigmoid",
                                            "silu",
                                            "sin",
                                            "sinh",
                                            "slogdet",
                                            "soft_cross_entropy",
                                            "softplus",
                                            "solve",
                                            "solve_triangular",
                                            "svdvals",
                                            "tan",
                                            "tanh",
                                            "tanh_shrink"};
  return all;
}

const std::set<std::string>& operators_with_free_signs() {
  static const std::set<std::string> all = {"eigh", "svd"};
  return all;
}
