// The loss of a batch: what FitLoss describes, with functions in place of names.
#pragma once

#include <string>
#include <vector>

#include <heddle/fit.h>

namespace heddle::fit_detail {

inline constexpr std::string kFunctionLoss = "a function";  // in BatchLoss::description()

class BatchLoss {
 public:
  // `call`: the function that errors name. `outputs`: names of outputs, or none. Throws InvalidArgument.
  BatchLoss(std::string call, const FitLoss& loss, std::vector<std::string> outputs);
  bool defined() const { return function_ || !terms_.empty(); }
  std::string description() const;  // "mse_loss + 0.5 cross_entropy"; "a function" for those of the program
  bool has_names() const;           // whether no term is a function of the program
  // How many arrays at the end of a batch are labels, if nobody says it.
  std::size_t labels() const { return terms_.empty() ? 1 : terms_.size(); }
  // "loss" and, of several terms, "priority_loss" ... ; none if the loss is not defined.
  std::vector<std::string> names() const;
  // The loss, and of several terms each, without its weight: scalars.
  std::vector<NDArray> compute(const std::vector<NDArray>& outputs, const std::vector<NDArray>& labels) const;
  // The name of an output: the one that was given, or "output_0".
  std::string output_name(std::size_t output) const;

 private:
  NDArray checked(const NDArray& loss, const std::string& which) const;
  std::string call_;
  std::vector<LossTerm> terms_;
  FitLoss::Function function_;
  std::vector<std::string> outputs_;
};

}  // namespace heddle::fit_detail
