// How metrics are registered.
//
//   HEDDLE_METRICS(errors) {  // in namespace heddle, in the file of the metrics
//     table.add({.name = "MeanSquaredError",
//                .documentation = "The mean of (y - target)^2; with `root` its root.",
//                .arguments = {switch_argument("root", false)},
//                .inputs = {"y", "target"},
//                .make = [](const OperatorValues& v) -> std::unique_ptr<Metric> {
//                  return std::make_unique<MeanSquaredError>(std::get<bool>(v[0]));
//                }});
//   }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <heddle/metric.h>

#include "layers/layer_table.h"  // arguments

namespace heddle::nn_detail {

struct MetricSpec {
  const char* name;
  const char* documentation;
  std::vector<ArgumentInfo> arguments{};
  std::vector<const char*> inputs;             // the arrays of update()
  std::vector<const char*> optional_inputs{};  // further ones
  std::unique_ptr<Metric> (*make)(const OperatorValues& values);
};

class MetricTable {
 public:
  explicit MetricTable(std::vector<MetricInfo>& all) : all_(all) {}
  void add(const MetricSpec& spec);

 private:
  std::vector<MetricInfo>& all_;
};

ArgumentInfo word_argument(const char* name,
                           std::vector<std::string> choices);  // the first one is the default
ArgumentInfo optional_size(const char* name);                  // None: found in the first batch

#define HEDDLE_METRICS(name)                          \
  namespace nn_detail {                               \
  void register_##name##_metrics(MetricTable& table); \
  }                                                   \
  void nn_detail::register_##name##_metrics(MetricTable& table)

void register_metrics(MetricTable& table);  // registers the library's metrics

}  // namespace heddle::nn_detail
