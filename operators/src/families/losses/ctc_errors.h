// Errors of lengths and labels of connectionist temporal classification. Kernels of the CPU and of GPUs share their texts.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/array_error.h>

#include "families/losses/ctc_kernels.h"

namespace heddle {

// what: "input length" or "target length".
[[noreturn]] inline void refuse_ctc_length(const char* op, const char* what, std::int64_t sequence,
                                           std::int64_t length, std::int64_t most) {
  throw InvalidArgument(std::string(op) + ": the " + what + " of sequence " + std::to_string(sequence) +
                        " is " + std::to_string(length) + "; want 0 to " + std::to_string(most));
}
[[noreturn]] inline void refuse_ctc_label(const CtcProblem& p, std::int64_t sequence, std::int64_t i,
                                          std::int64_t label) {
  throw InvalidArgument("ctc_loss: label " + std::to_string(i) + " of sequence " + std::to_string(sequence) +
                        " is " + std::to_string(label) + "; want 0 to " + std::to_string(p.classes - 1) +
                        " without the blank, " + std::to_string(p.blank));
}
[[noreturn]] inline void refuse_ctc_sum(const CtcProblem& p, const std::string& sum) {
  throw InvalidArgument("ctc_loss: the target lengths sum up to " + sum + ", targets has " +
                        std::to_string(p.labels) + " labels; want as many");
}
[[noreturn]] inline void refuse_large_ctc_sum(const CtcProblem& p) {
  refuse_ctc_sum(p, "more than " + std::to_string(p.labels));
}

}  // namespace heddle
