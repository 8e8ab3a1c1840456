// Numbers of fields are those of TensorFlow's event.proto, summary.proto, tensor.proto and graph.proto, and of TensorBoard's
// plugin_data.proto and api.proto of hparams.
#include "logging/records.h"

#include <set>
#include <variant>

namespace heddle::nn_detail {

namespace {

Protobuf event_at(const RecordTime& time) {
  Protobuf event;
  event.real(1, time.wall).integer(2, time.step);
  return event;
}

std::string summary_event(const RecordTime& time, const Protobuf& value) {
  return event_at(time).message(5, Protobuf().message(1, value)).text();
}

Protobuf plugin(const char* name, const Protobuf& content) {
  return Protobuf().message(1, Protobuf().bytes(1, name).message(2, content));
}

// SummaryMetadata.data_class.
constexpr int kTensors = 2;

// A tensor of one text.
Protobuf text_tensor(const std::string& text) {
  constexpr int kString = 7;  // DT_STRING
  return Protobuf()
      .integer(1, kString)
      .message(2, Protobuf().message(2, Protobuf().integer(1, 1)))
      .bytes(8, text);
}

Protobuf shape_message(const std::optional<Shape>& shape) {
  Protobuf message;
  if (!shape) return message.integer(3, 1);  // unknown_rank
  for (const std::int64_t size : *shape) message.message(2, Protobuf().integer(1, size));
  return message;
}

Protobuf attribute(const std::string& name, const Protobuf& value) {
  return Protobuf().bytes(1, name).message(2, value);
}

// Names of nodes: "/" divides scopes, and other characters are letters, digits and "_.-/\".
std::string node_name(const std::string& path) {
  std::string name;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain || c == '_' || c == '-' ? c : c == '.' ? '/' : '_';
  }
  return name;
}

// A node inside a scope must not have the scope's name.
std::vector<std::string> node_names(const std::vector<GraphNode>& nodes) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const GraphNode& node : nodes) {
    const std::string name =
        node_name(node.path) + (node.kind == GraphNode::Kind::module ? "_" + node.name : "");
    std::string free = name;
    for (int i = 1; !known.insert(free).second; ++i) free = name + "_" + std::to_string(i);
    names.push_back(free);
  }
  return names;
}

Protobuf hyperparameter_value(const HyperParameter& value) {
  Protobuf message;  // google.protobuf.Value
  if (const auto* const flag = std::get_if<bool>(&value)) return message.integer(4, *flag);
  if (const auto* const real = std::get_if<double>(&value)) return message.real(2, *real);
  if (const auto* const whole = std::get_if<std::int64_t>(&value))
    return message.real(2, static_cast<double>(*whole));
  return message.bytes(3, std::get<std::string>(value));
}

std::string hyperparameter_event(double wall, const std::string& tag, const Protobuf& content) {
  const Protobuf value = Protobuf()
                             .bytes(1, tag)
                             .message(9, plugin("hparams", content).integer(4, kTensors))
                             .message(8, Protobuf().integer(1, 1).message(2, Protobuf()).real32(5, 0.0f));
  return summary_event({wall, 0}, value);
}

}  // namespace

std::string version_record(double wall) { return Protobuf().real(1, wall).bytes(3, "brain.Event:2").text(); }

std::string start_record(const RecordTime& time) {
  constexpr int kSessionLog = 7, kStatus = 1, kStart = 1;
  Protobuf status;
  status.integer(kStatus, kStart);
  return Protobuf().real(1, time.wall).integer(2, time.step).message(kSessionLog, status).text();
}

std::string scalar_record(const RecordTime& time, const std::string& tag, double value) {
  return summary_event(time, Protobuf().bytes(1, tag).real32(2, static_cast<float>(value)));
}

std::string histogram_record(const RecordTime& time, const std::string& tag, const Histogram& histogram) {
  Protobuf message;
  message.real(1, histogram.min).real(2, histogram.max).real(3, static_cast<double>(histogram.count));
  message.real(4, histogram.sum).real(5, histogram.sum_squares);
  message.packed(6, histogram.limits).packed(7, histogram.in_bucket);
  return summary_event(time, Protobuf().bytes(1, tag).message(5, message));
}

std::string image_record(const RecordTime& time, const std::string& tag, const Picture& picture) {
  Protobuf message;
  message.integer(1, picture.height).integer(2, picture.width).integer(3, picture.channels);
  message.bytes(4, to_png(picture));
  return summary_event(time, Protobuf().bytes(1, tag).message(4, message));
}

std::string text_record(const RecordTime& time, const std::string& tag, const std::string& text) {
  return summary_event(time, Protobuf()
                                 .bytes(1, tag)
                                 .message(8, text_tensor(text))
                                 .message(9, plugin("text", Protobuf()).integer(4, kTensors)));
}

std::string graph_record(double wall, const std::vector<GraphNode>& nodes) {
  const std::vector<std::string> names = node_names(nodes);
  Protobuf graph;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    Protobuf message;
    message.bytes(1, names[i]);
    message.bytes(2, node.kind == GraphNode::Kind::input ? "Placeholder" : node.name);
    for (const std::size_t from : node.inputs) message.bytes(3, names[from]);
    Protobuf shapes;
    for (const auto& one : node.outputs) shapes.message(7, shape_message(one));
    message.message(5, attribute("_output_shapes", Protobuf().message(1, shapes)));
    message.message(5, attribute("call", Protobuf().bytes(2, node.text)));
    if (node.parameters > 0)
      message.message(5, attribute("parameters", Protobuf().integer(3, node.parameters)));
    graph.message(1, message);
  }
  constexpr int kProducer = 22;
  graph.message(4, Protobuf().integer(1, kProducer));
  return Protobuf().real(1, wall).message(4, graph).text();
}

std::vector<std::string> hyperparameter_records(double wall,
                                                const std::map<std::string, HyperParameter>& values,
                                                const std::vector<std::string>& metrics) {
  constexpr int kStringType = 1, kBoolType = 2, kFloatType = 3, kSuccess = 1;
  Protobuf experiment, start;
  for (const auto& [name, value] : values) {
    const int type = std::holds_alternative<bool>(value)          ? kBoolType
                     : std::holds_alternative<std::string>(value) ? kStringType
                                                                  : kFloatType;
    experiment.message(5, Protobuf().bytes(1, name).integer(4, type));
    start.message(1, Protobuf().bytes(1, name).message(2, hyperparameter_value(value)));
  }
  for (const std::string& tag : metrics)
    experiment.message(6, Protobuf().message(1, Protobuf().bytes(2, tag)));
  start.real(5, wall);
  const Protobuf end = Protobuf().integer(1, kSuccess).real(2, wall);
  return {hyperparameter_event(wall, "_hparams_/experiment", Protobuf().message(2, experiment)),
          hyperparameter_event(wall, "_hparams_/session_start_info", Protobuf().message(3, start)),
          hyperparameter_event(wall, "_hparams_/session_end_info", Protobuf().message(4, end))};
}

}  // namespace heddle::nn_detail
