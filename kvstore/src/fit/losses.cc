#include "fit/losses.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <heddle/number_text.h>
#include <heddle/ops.h>

namespace heddle::fit_detail {
namespace {

const std::map<std::string, LossTerm::Function>& named_losses() {
  static const auto& all = *new std::map<std::string, LossTerm::Function>{
      {"cross_entropy", [](const NDArray& y, const NDArray& label) { return cross_entropy(y, label); }},
      {"mse_loss", [](const NDArray& y, const NDArray& label) { return mse_loss(y, label); }},
      {"l1_loss", [](const NDArray& y, const NDArray& label) { return l1_loss(y, label); }},
      {"huber_loss", [](const NDArray& y, const NDArray& label) { return huber_loss(y, label); }},
      {"bce_with_logits", [](const NDArray& y, const NDArray& label) { return bce_with_logits(y, label); }},
      {"kl_div", [](const NDArray& y, const NDArray& label) { return kl_div(y, label); }},
      {"hinge_loss", [](const NDArray& y, const NDArray& label) { return hinge_loss(y, label); }},
      {"nll_loss", [](const NDArray& y, const NDArray& label) { return nll_loss(y, label); }},
      {"soft_cross_entropy",
       [](const NDArray& y, const NDArray& label) { return soft_cross_entropy(y, label); }}};
  return all;
}

// A loss that is computed element by element: its operator would repeat a label (n,) along the rows of an output (n, 1).
LossTerm::Function of_equal_shapes(const std::string& call, const std::string& name,
                                   LossTerm::Function loss) {
  return [call, name, loss = std::move(loss)](const NDArray& y, const NDArray& label) {
    if (y.defined() && label.defined() && y.shape() != label.shape())
      throw InvalidArgument(call + ": " + name + ": the output is " + y.shape().to_string() + ", the label " +
                            label.shape().to_string() + "; want equal shapes" +
                            (y.size() == label.size() ? ": reshape the label to that of the output" : ""));
    return loss(y, label);
  };
}

LossTerm::Function function_of(const std::string& call, const std::string& name) {
  static const auto& elementwise = *new std::set<std::string>{"mse_loss",        "l1_loss", "huber_loss",
                                                              "bce_with_logits", "kl_div",  "hinge_loss"};
  const auto found = named_losses().find(name);
  if (found != named_losses().end())
    return elementwise.contains(name) ? of_equal_shapes(call, name, found->second) : found->second;
  std::string known;
  for (const auto& [one, function] : named_losses()) known += (known.empty() ? "" : ", ") + one;
  throw InvalidArgument(call + ": there is no loss '" + name + "'; there are " + known +
                        ", and functions of (output, label)");
}

}  // namespace

BatchLoss::BatchLoss(std::string call, const FitLoss& loss, std::vector<std::string> outputs)
    : call_(std::move(call)), terms_(loss.terms), function_(loss.function), outputs_(std::move(outputs)) {
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    LossTerm& term = terms_[i];
    if (!std::isfinite(term.weight))
      throw InvalidArgument(call_ + ": the weight of loss " + std::to_string(i) + " is " +
                            number_text(term.weight) + "; want a finite number");
    if (!term.name.empty()) term.function = function_of(call_, term.name);
    if (!term.function)
      throw InvalidArgument(call_ + ": loss " + std::to_string(i) + " is an empty function");
  }
}

bool BatchLoss::has_names() const {
  for (const LossTerm& term : terms_)
    if (term.name.empty()) return false;
  return !function_;
}

std::string BatchLoss::output_name(std::size_t output) const {
  return output < outputs_.size() ? outputs_[output] : "output_" + std::to_string(output);
}

std::vector<std::string> BatchLoss::names() const {
  if (!defined()) return {};
  std::vector<std::string> all{"loss"};
  for (std::size_t i = 0; terms_.size() > 1 && i < terms_.size(); ++i)
    all.push_back(output_name(i) + "_loss");
  return all;
}

std::string BatchLoss::description() const {
  if (function_) return kFunctionLoss;
  std::string text;
  for (const LossTerm& term : terms_)
    text += (text.empty() ? "" : " + ") + (term.weight == 1 ? "" : number_text(term.weight) + " ") +
            (term.name.empty() ? kFunctionLoss : term.name);
  return text;
}

NDArray BatchLoss::checked(const NDArray& loss, const std::string& which) const {
  if (!loss.defined()) throw InvalidArgument(call_ + ": " + which + " is an undefined array; want a scalar");
  if (loss.size() != 1)
    throw InvalidArgument(call_ + ": " + which + " is " + loss.shape().to_string() +
                          "; want a scalar, the mean over the batch");
  if (!is_floating(loss.dtype()))
    throw InvalidArgument(call_ + ": " + which + " is " + name_of(loss.dtype()) + "; want a floating dtype");
  return loss.ndim() == 0 ? loss : loss.view_as({});
}

std::vector<NDArray> BatchLoss::compute(const std::vector<NDArray>& outputs,
                                        const std::vector<NDArray>& labels) const {
  if (function_) return {checked(function_(outputs, labels), "the loss")};
  if (outputs.size() < terms_.size())
    throw InvalidArgument(call_ + ": there are " + std::to_string(terms_.size()) +
                          " losses, and the network has " + std::to_string(outputs.size()) + " output" +
                          (outputs.size() == 1 ? "" : "s") + "; want one output for each loss");
  if (labels.size() < terms_.size())
    throw InvalidArgument(call_ + ": there are " + std::to_string(terms_.size()) + " losses, and " +
                          std::to_string(labels.size()) + " labels; want one for each loss");
  std::vector<NDArray> all(1);
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const NDArray one = checked(terms_[i].function(outputs[i], labels[i]), "loss " + std::to_string(i));
    const NDArray weighted = terms_[i].weight == 1 ? one : one * terms_[i].weight;
    all[0] = i == 0 ? weighted : all[0] + weighted;
    if (terms_.size() > 1) all.push_back(one);
  }
  return all;
}

}  // namespace heddle::fit_detail
