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
  static const std::set<std::string> all = {"acos",          "acosh",      "affine_grid",
                                            "alpha_dropout", "asin",       "asinh",
                                            "atan",          "atan2",      "atanh",
                                            "cbrt",          "celu",       "cos",
                                            "cosh",          "digamma",    "elu",
                                            "erf",           "erfc",       "exp",
                                            "exp2",          "expm1",      "feature_alpha_dropout",
                                            "gelu",          "gelu_tanh",  "grid_sample",
                                            "hard_sigmoid",  "hard_swish", "hypot",
                                            "lgamma",        "log",        "log10",
                                            "log1p",         "log2",       "log_sigmoid",
                                            "logaddexp",     "mish",       "rotary",
                                            "selu",          "sigmoid",    "silu",
                                            "sin",           "sinh",       "soft_cross_entropy",
                                            "softplus",      "tan",        "tanh",
                                            "tanh_shrink"};
  return all;
}
