// The content of records: events, in the messages of TensorBoard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <heddle/summary_writer.h>

#include "logging/histogram.h"
#include "logging/png.h"
#include "logging/protobuf.h"
#include "model/module_graph.h"

namespace heddle::nn_detail {

// When a record was asked for.
struct RecordTime {
  double wall = 0;  // seconds since 1970
  std::int64_t step = 0;
};

std::string version_record(double wall);
std::string start_record(const RecordTime& time);  // a run that begins, or goes on, with a step
std::string scalar_record(const RecordTime& time, const std::string& tag, double value);
std::string histogram_record(const RecordTime& time, const std::string& tag, const Histogram& histogram);
std::string image_record(const RecordTime& time, const std::string& tag, const Picture& picture);
std::string text_record(const RecordTime& time, const std::string& tag, const std::string& text);
std::string graph_record(double wall, const std::vector<GraphNode>& nodes);
// Those of a run: which hyperparameters and metrics there are, their values, and that the run has ended.
std::vector<std::string> hyperparameter_records(double wall,
                                                const std::map<std::string, HyperParameter>& values,
                                                const std::vector<std::string>& metrics);

}  // namespace heddle::nn_detail
