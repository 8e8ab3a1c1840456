// heddle metrics: lists the metrics of predictions, for people and for programs that make bindings.
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <string>

#include <heddle/metric.h>

#include "command.h"
#include "function_text.h"

namespace heddle::tool {
namespace {

struct Options {
  bool markdown = false, json = false;
};

constexpr const char* kHead = R"(# Metrics of predictions

This page is for those who look a metric up. `heddle metrics --markdown` writes it from the registry of metrics; a test fails if it is out
of date. [Training](training.md#metrics) explains the use of metrics. The metrics that servers export are on [another page](metrics.md).

In Python a metric is made as it stands here. In C++ it is a class of the same name, in `heddle/metrics.h`. In C, `heddle_metric_create` takes the
arguments by position or by name.
)";

std::string update_text(const MetricInfo& metric) {
  std::string text;
  for (const ArgumentInfo& input : metric.inputs)
    text += (text.empty() ? "" : ", ") + input.name + (input.required() ? "" : "=None");
  return "update(" + text + ")";
}

void write_markdown() {
  std::cout << kHead;
  for (const MetricInfo& metric : metrics()) {
    std::cout << "\n## " << metric.name << "\n\n    " << wrapped(metric.signature(), "        ") << "\n    "
              << update_text(metric) << "\n\n"
              << wrapped(metric.documentation) << "\n";
    if (!metric.arguments.empty()) std::cout << "\n";
    for (const ArgumentInfo& argument : metric.arguments) {
      std::cout << "- `" << argument.name << "`: " << text_of_kind(argument);
      if (argument.least && *argument.least > std::numeric_limits<std::int64_t>::min())
        std::cout << ", at least " << *argument.least;
      std::cout << "\n";
    }
  }
}

void write_json() {
  Json list = Json::array();
  for (const MetricInfo& metric : metrics()) {
    Json one = {{"name", metric.name},
                {"documentation", metric.documentation},
                {"signature", metric.signature()},
                {"arguments", Json::array()},
                {"inputs", Json::array()}};
    for (const ArgumentInfo& argument : metric.arguments) one["arguments"].push_back(json_of(argument));
    for (const ArgumentInfo& input : metric.inputs)
      one["inputs"].push_back({{"name", input.name}, {"required", input.required()}});
    list.push_back(std::move(one));
  }
  std::cout << list.dump(2) << "\n";
}

void write_list() {
  for (const MetricInfo& metric : metrics())
    std::cout << metric.signature() << "\n    " << update_text(metric) << "\n    " << metric.documentation
              << "\n";
}

constexpr const char* kDescription =
    "Lists the metrics of predictions: their names, arguments, defaults and the arrays that they take.\n\n"
    "    heddle metrics             for reading\n"
    "    heddle metrics --json      for programs\n"
    "    heddle metrics --markdown  the page docs/prediction_metrics.md";

int run(const Options& options) {
  if (options.markdown) {
    write_markdown();
  } else if (options.json) {
    write_json();
  } else {
    write_list();
  }
  return 0;
}

}  // namespace

void add_metrics(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("metrics", kDescription);
  command.add_flag("--markdown", options->markdown, "write docs/prediction_metrics.md");
  command.add_flag("--json", options->json, "write a list of objects, one a metric");
  command.on_parsed([options, &action] {
    if (options->markdown && options->json)
      throw command_line::Misuse("--markdown and --json exclude each other");
    action = [options] { return run(*options); };
  });
}

}  // namespace heddle::tool
