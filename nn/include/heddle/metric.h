// Metrics: numbers about predictions, accumulated over batches. update() pushes ops and never waits; value() waits.
//
//   Accuracy accuracy;
//   for (const Batch& batch : batches) accuracy.update(net(batch.images), batch.labels);
//   ranks->all_reduce(accuracy.state());  // of all ranks
//   std::cout << accuracy.value() << "\n";
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/function_info.h>
#include <heddle/ndarray.h>

namespace heddle {

struct MetricInfo;

// Arrays are detached. An op that fails, for a label out of range, leaves its error in the state: value() throws it until reset().
// Not thread-safe.
class Metric {
 public:
  virtual ~Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;
  const MetricInfo& info() const { return info_; }

  // Adds a batch: the arrays that MetricInfo::inputs names, of which the last ones may be optional. Those elsewhere are copied to cpu() by ops.
  // Throws InvalidArgument for arrays that are missing or do not fit.
  void update(const NDArray& first, const NDArray& second = {}, const NDArray& third = {},
              const NDArray& fourth = {}, Where where = Where::current());
  // The metric of all batches, a scalar or as the metric says, f64. Without batches NaN, or zeros where it counts.
  NDArray result(Where where = Where::current()) const;
  double value(Where where = Where::current()) const;  // result() of a metric with one number; waits
  void reset(Where where = Where::current());          // as if there was no batch yet
  // What is known of all batches: an f64 array, the live one. Those of several ranks or parts are summed, by all_reduce or merge(), but those of
  // an Auc without bins, which merge() puts together. Throws InvalidArgument while a number of classes is not known.
  NDArray state(Where where = Where::current()) const;
  void merge(const NDArray& state, Where where = Where::current());  // adds the batches of another metric
  std::string to_string(Where where = Where::current()) const;       // "Accuracy: 0.9375"; waits

 protected:
  explicit Metric(const char* name);
  using Inputs = std::span<const NDArray>;  // as update() has them; undefined: not given
  virtual Shape state_shape() const = 0;    // throws while it is not known
  virtual void add(
      const Inputs& inputs) = 0;  // checks the arrays, finds sizes that were not given, pushes ops
  virtual NDArray compute(const NDArray& state) const = 0;
  virtual NDArray whole_state() const { return sums(); }
  virtual void merge_whole(const NDArray& state);
  virtual void clear();
  void forget() { sums_ = NDArray(); }  // for clear(): the next batch may have another state_shape()

  const NDArray& sums() const;  // of state_shape(), zeros at first
  // Pushes an op that reads arrays and adds to sums(): body(double* sums).
  void push(std::vector<NDArray> reads, std::function<void(double* sums)> body);

 private:
  const MetricInfo& info_;
  mutable NDArray sums_;
};
std::ostream& operator<<(std::ostream& out, const Metric& metric);

struct MetricInfo : FunctionInfo {
  std::vector<ArgumentInfo> inputs{};                                           // the arrays of update()
  std::function<std::unique_ptr<Metric>(const OperatorValues& complete)> make;  // called by make_metric
};

// All metrics. Any thread; the same objects for the life of the process.
std::span<const MetricInfo> metrics();
const MetricInfo* find_metric(std::string_view name);  // null if there is none
// Makes a metric: `values` are its first arguments, in their order, `named` are others. Throws InvalidArgument.
std::unique_ptr<Metric> make_metric(const MetricInfo& metric, std::span<const OperatorValue> values,
                                    std::span<const NamedValue> named = {});
std::unique_ptr<Metric> make_metric(std::string_view name, const OperatorValues& values = {},
                                    const std::vector<NamedValue>& named = {});

}  // namespace heddle
