#include "missing.h"

const std::set<std::string>& operators_without_kernels() {
  static const std::set<std::string> all;
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
                                            "attention",
                                            "bce_with_logits",
                                            "beta",
                                            "cbrt",
                                            "celu",
                                            "cholesky",
                                            "cond",
                                            "cos",
                                            "cosh",
                                            "cross_entropy",
                                            "cross_entropy_with",
                                            "ctc_beam_search",
                                            "ctc_loss",
                                            "det",
                                            "digamma",
                                            "eigh",
                                            "eigvalsh",
                                            "elu",
                                            "erf",
                                            "erfc",
                                            "exp",
                                            "exp2",
                                            "expm",
                                            "expm1",
                                            "exponential",
                                            "feature_alpha_dropout",
                                            "gamma",
                                            "gelu",
                                            "gelu_tanh",
                                            "grid_sample",
                                            "hard_sigmoid",
                                            "hard_swish",
                                            "hypot",
                                            "inv",
                                            "kl_div",
                                            "lgamma",
                                            "log",
                                            "log10",
                                            "log1p",
                                            "log2",
                                            "log_sigmoid",
                                            "log_softmax",
                                            "logaddexp",
                                            "logspace",
                                            "logsumexp",
                                            "lstm",
                                            "lstsq",
                                            "lu",
                                            "matrix_norm",
                                            "mish",
                                            "pinv",
                                            "power",
                                            "qr",
                                            "rnn",
                                            "rotary",
                                            "selu",
                                            "sigmoid",
                                            "silu",
                                            "sin",
                                            "sinh",
                                            "slogdet",
                                            "soft_cross_entropy",
                                            "softmax",
                                            "softplus",
                                            "solve",
                                            "solve_triangular",
                                            "svd",
                                            "svdvals",
                                            "tan",
                                            "tanh",
                                            "tanh_shrink",
                                            "truncated_normal"};
  return all;
}

const std::set<std::string>& operators_with_rare_differences() {
  static const std::set<std::string> all = {"binomial", "categorical", "multinomial", "poisson"};
  return all;
}

const std::set<std::string>& operators_with_cancellation() {
  static const std::set<std::string> all = {"gru"};  // of 1 and a sigmoid near 1
  return all;
}

const std::set<std::string>& operators_with_free_signs() {
  static const std::set<std::string> all = {"eigh", "svd"};
  return all;
}
