// What fit() and evaluate() take: data, losses and metrics.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/batches.h>
#include <heddle/metric.h>
#include <heddle/ndarray.h>

namespace heddle {

// Where arrays come from: a Batches, which must outlive the use, or arrays, from which batches are cut. A batch has the
// inputs of the network first, and then the labels.
struct FitData {
  FitData() = default;
  FitData(Batches& source) : batches(std::shared_ptr<Batches>(), &source) {}
  FitData(std::shared_ptr<Batches> source) : batches(std::move(source)) {}
  FitData(std::vector<NDArray> list) : arrays(std::move(list)) {}
  FitData(std::initializer_list<NDArray> list) : arrays(list) {}
  std::shared_ptr<Batches> batches{};
  std::vector<NDArray> arrays{};
};

// A loss of one output and its label, both at the same place among outputs and labels, times a weight. Names are those of
// operators: cross_entropy, mse_loss, l1_loss, huber_loss, bce_with_logits, kl_div, hinge_loss, nll_loss,
// soft_cross_entropy.
struct LossTerm {
  using Function = std::function<NDArray(const NDArray& output, const NDArray& label)>;
  LossTerm(const char* loss, double factor = 1) : LossTerm(std::string(loss), factor) {}
  LossTerm(std::string loss, double factor = 1) : name(std::move(loss)), weight(factor) {}
  LossTerm(Function loss, double factor = 1) : function(std::move(loss)), weight(factor) {}
  std::string name{};
  Function function{};
  double weight;
};

// The loss of a batch, a scalar that is a mean over the batch: a sum of terms, one for each output, or a function of all
// outputs and labels.
struct FitLoss {
  using Function =
      std::function<NDArray(const std::vector<NDArray>& outputs, const std::vector<NDArray>& labels)>;
  FitLoss() = default;
  FitLoss(const char* name) : terms{name} {}
  FitLoss(const std::string& name) : terms{name} {}
  FitLoss(std::initializer_list<LossTerm> list) : terms(list) {}
  FitLoss(std::vector<LossTerm> list) : terms(std::move(list)) {}
  template <std::invocable<const std::vector<NDArray>&, const std::vector<NDArray>&> F>
  FitLoss(F of_all) : function(std::move(of_all)) {}
  std::vector<LossTerm> terms{};
  Function function{};
};

// A metric with one number, of one output and its label. Its name among the values is that of the metric, "top_k_accuracy".
struct FitMetric {
  FitMetric(const char* kind, int of_output = 0, std::string title = {});
  FitMetric(const std::string& kind, int of_output = 0, std::string title = {});
  FitMetric(std::shared_ptr<Metric> object, int of_output = 0, std::string title = {});
  template <std::derived_from<Metric> M>
  FitMetric(std::shared_ptr<M> object, int of_output = 0, std::string title = {})
      : FitMetric(std::shared_ptr<Metric>(std::move(object)), of_output, std::move(title)) {}
  std::shared_ptr<Metric> metric;
  int output;
  std::string name;
};

}  // namespace heddle
