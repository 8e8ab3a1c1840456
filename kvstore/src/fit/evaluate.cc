#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/fit.h>
#include <heddle/interrupt_check.h>
#include <heddle/model.h>
#include <heddle/sequential.h>
#include <heddle/shape_ops.h>

#include "fit/batch_parts.h"
#include "fit/epoch_values.h"
#include "fit/evaluation.h"
#include "fit/mode_scope.h"
#include "stores/agreement.h"

namespace heddle {
namespace fit_detail {

void StepsAhead::add(const NDArray& result) {
  pending_.push_back(result);
  while (pending_.size() > kMost) {
    wait_with_check(pending_.front().var());
    pending_.front().wait();
    pending_.pop_front();
  }
}

namespace {

// Throws Error if others have begun the batches anew meanwhile.
void check_all_came(const std::string& call, const Batches& batches, std::int64_t done) {
  const std::int64_t size = batches.size();
  if (done >= size) return;
  throw Error(call + ": the data have ended after " + std::to_string(done) +
              " batches, and say that there are " + std::to_string(size));
}

}  // namespace

void evaluate_batches(const std::string& call, Module& net, Batches& batches, const BatchLoss& loss,
                      int labels, EpochValues& values, const std::function<bool()>& is_over) {
  const NoGrad no_grad;
  const std::size_t count = labels >= 0 ? static_cast<std::size_t>(labels) : loss.labels();
  StepsAhead ahead;
  batches.start(0);
  std::int64_t done = 0;
  for (Arrays batch = batches.next(); !batch.empty(); batch = batches.next(), ++done) {
    Arrays inputs, wanted;
    split_batch(call, batch, count, inputs, wanted);
    const Arrays outputs = net.run(inputs);
    values.add(loss.defined() ? loss.compute(outputs, wanted) : Arrays(), outputs, wanted, rows_of(batch));
    if (!outputs.empty()) ahead.add(outputs[0]);
    if (is_over && is_over()) return;
  }
  check_all_came(call, batches, done);
}

}  // namespace fit_detail

using namespace fit_detail;

FitValues evaluate(Module& net, const FitData& data, const EvaluateOptions& options, Where where) {
  const CallSite site(where);
  const int rank = options.ranks ? options.ranks->rank() : 0,
            ranks = options.ranks ? options.ranks->size() : 1;
  std::optional<EpochValues> values;
  const auto compute = [&] {
    const BatchLoss loss("evaluate", options.loss, options.outputs);
    values.emplace("evaluate", loss, options.metrics);
    if (values->names().empty()) throw InvalidArgument("evaluate: there is neither a loss nor a metric");
    check_labels("evaluate", options.labels);
    const std::shared_ptr<Batches> batches =
        batches_of("evaluate", data, {.batch = options.batch, .rank = rank, .ranks = ranks, .uneven = true});
    const ModeScope modes(net);
    net.train(false);
    values->reset();
    if (ranks > 1) values->check_of_ranks();
    evaluate_batches("evaluate", net, *batches, loss, options.labels, *values);
    std::string text = loss.description();
    for (const std::string& name : values->names()) text += ", " + name;
    return text;
  };
  // A rank that throws would leave the others in the collectives below.
  ranks > 1 ? agree(*options.ranks, "evaluate", "losses and metrics", compute) : void(compute());
  const bool has_batches = options.ranks ? values->reduce_any(*options.ranks) : values->has_batches();
  if (!has_batches) throw InvalidArgument("evaluate: the data have no batches");
  return read_values(values->names(), values->results());
}

namespace {

std::size_t input_count(const Module& net, int inputs, std::size_t arrays) {
  if (inputs >= 0) return static_cast<std::size_t>(inputs);
  if (const auto* const model = dynamic_cast<const Model*>(&net)) return model->input_names().size();
  const bool is_plain = net.as_layer() || dynamic_cast<const Sequential*>(&net);
  return is_plain ? 1 : arrays;
}

}  // namespace

std::vector<NDArray> predict(Module& net, const FitData& data, const PredictOptions& options, Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  const std::shared_ptr<Batches> batches = batches_of("predict", data, {.batch = options.batch});
  const ModeScope modes(net);
  net.train(false);
  std::vector<Arrays> parts;
  StepsAhead ahead;
  batches->start(0);
  std::int64_t done = 0;
  for (Arrays batch = batches->next(); !batch.empty(); batch = batches->next(), ++done) {
    const std::size_t count = input_count(net, options.inputs, batch.size());
    if (count == 0 || count > batch.size())
      throw InvalidArgument("predict: the network has " + std::to_string(count) + " inputs, and a batch " +
                            std::to_string(batch.size()) + " arrays");
    const Arrays outputs = net.run(std::span(batch.data(), count));
    parts.resize(std::max(parts.size(), outputs.size()));
    for (std::size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(outputs[i]);
    if (!outputs.empty()) ahead.add(outputs[0]);
  }
  if (done == 0) throw InvalidArgument("predict: the data have no batches");
  check_all_came("predict", *batches, done);
  Arrays all;
  for (const Arrays& part : parts) all.push_back(part.size() == 1 ? part[0] : concat(part, 0));
  return all;
}

}  // namespace heddle
