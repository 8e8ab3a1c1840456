#include "missing.h"

const std::set<std::string>& operators_without_kernels() {
  // clang-format off
  static const std::set<std::string> all = {
      "choice: multinomial",
      "cholesky: cholesky",
      "cond: inv",
      "cond: svd",
      "ctc_beam_search: ctc_beam_search",
      "ctc_greedy_decode: ctc_greedy_decode",
      "ctc_loss: ctc_loss",
      "det: det",
      "eigh: eigh",
      "eigvalsh: eigh",
      "expm: expm",
      "grid_sample: grid_sample",
      "gru: recurrent",
      "inv: inv",
      "lstm: recurrent",
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
      "rnn: recurrent",
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
  static const std::set<std::string> all = {"acosh",       "affine_grid", "alpha_dropout",
                                            "atan2",       "cbrt",        "cos",
                                            "cosh",        "erf",         "erfc",
                                            "exp",         "expm1",       "feature_alpha_dropout",
                                            "hypot",       "log",         "log10",
                                            "log_sigmoid", "rotary",      "sigmoid",
                                            "sin",         "sinh",        "soft_cross_entropy",
                                            "softplus",    "tan",         "tanh"};
  return all;
}
