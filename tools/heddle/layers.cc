// heddle layers: lists all layers, for people and for programs that make bindings.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <heddle/layer_registry.h>

#include "command.h"
#include "function_text.h"

namespace heddle::tool {
namespace {

struct Options {
  bool markdown = false, json = false;
};

constexpr const char* kHead = R"(# Layers

This page is for those who look a layer up. `heddle layers --markdown` writes it from the registry of layers; a test fails if it is out
of date. [Training](training.md#layers) explains the use of layers, and how to write one.

In Python a layer is called as it stands here. In C++ the arguments with defaults are a struct of options: `Conv2d(3, 8, 3, {.stride = 2})`.
In C, `heddle_layer_find` and `heddle_module_make` take them by position or by name.

- A size that may be None (`kInferred` in C++) is found at the first call, in the shape of the input. Until then the parameters have no
  shapes, and asking for them is an error with their path.
- Sizes along several axes, such as a kernel, are a list or one number for all.
- Shapes are in words: a name is an argument or any size, `...` any number of sizes.
)";

void write_array(const LayerArray& array) {
  std::cout << "| `" << array.name << "` | " << (array.trained ? "parameter" : "buffer") << " | `"
            << array.shape << "` | " << array.start
            << (array.condition.empty() ? "" : "; only with `" + array.condition + "`") << " |\n";
}

void write_ports(const char* heading, const std::vector<LayerPort>& ports) {
  if (ports.empty()) return;
  std::cout << "\n" << heading << "\n\n";
  for (const LayerPort& port : ports)
    std::cout << "- `" << port.name << "`" << (port.shape.empty() ? "" : " `" + port.shape + "`") << ": "
              << port.documentation << "\n";
}

void write_markdown(const LayerInfo& layer) {
  std::cout << "\n### " << layer.name << "\n\n    " << wrapped(layer.signature(), "        ") << "\n\n"
            << wrapped(layer.documentation) << "\n\n";
  for (const ArgumentInfo& argument : layer.arguments) {
    std::cout << "- `" << argument.name << "`: " << text_of_kind(argument);
    if (argument.least) std::cout << ", at least " << *argument.least;
    std::cout << "\n";
  }
  if (!layer.arguments.empty()) std::cout << "\n";
  if (layer.input.empty()) {
    std::cout << "Takes an array of any shape, and keeps the shape.\n";
  } else {
    std::cout << "`" << layer.input << "` → `" << layer.output << "`\n";
  }
  write_ports("Further inputs, each of which may be left out:", layer.more_inputs);
  write_ports("Further outputs, of `run`:", layer.more_outputs);
  if (layer.arrays.empty()) return;
  std::cout << "\n| Array | | Shape | At first |\n|---|---|---|---|\n";
  for (const LayerArray& array : layer.arrays) write_array(array);
  if (!layer.more_arrays.empty()) std::cout << "\n" << wrapped(layer.more_arrays) << "\n";
}

void write_markdown() {
  std::cout << kHead << "\n";
  Contents contents;
  for (const LayerInfo& layer : layers()) contents.add(layer.family);
  contents.end();
  std::string family;
  for (const LayerInfo& layer : layers()) {
    if (layer.family != family) std::cout << "\n## " << layer.family << "\n";
    family = layer.family;
    write_markdown(layer);
  }
}

Json json_of(const LayerArray& array) {
  return {{"name", array.name},
          {"shape", array.shape},
          {"start", array.start},
          {"condition", array.condition},
          {"trained", array.trained}};
}

Json json_of(const std::vector<LayerPort>& ports) {
  Json list = Json::array();
  for (const LayerPort& port : ports)
    list.push_back({{"name", port.name}, {"shape", port.shape}, {"documentation", port.documentation}});
  return list;
}

Json json_of(const LayerInfo& layer) {
  Json json = {{"name", layer.name},
               {"family", layer.family},
               {"documentation", layer.documentation},
               {"signature", layer.signature()},
               {"arguments", Json::array()},
               {"input", layer.input},
               {"output", layer.output},
               {"more_inputs", json_of(layer.more_inputs)},
               {"more_outputs", json_of(layer.more_outputs)},
               {"arrays", Json::array()},
               {"more_arrays", layer.more_arrays}};
  for (const ArgumentInfo& argument : layer.arguments) json["arguments"].push_back(tool::json_of(argument));
  for (const LayerArray& array : layer.arrays) json["arrays"].push_back(json_of(array));
  return json;
}

void write_json() {
  Json list = Json::array();
  for (const LayerInfo& layer : layers()) list.push_back(json_of(layer));
  std::cout << list.dump(2) << "\n";
}

void write_list() {
  std::string family;
  for (const LayerInfo& layer : layers()) {
    if (layer.family != family) std::cout << (family.empty() ? "" : "\n") << layer.family << "\n";
    family = layer.family;
    std::cout << "  " << layer.signature() << "\n      " << layer.documentation << "\n";
  }
}

constexpr const char* kDescription =
    "Lists the layers of networks: their names, arguments, defaults, shapes and parameters.\n\n"
    "    heddle layers             for reading\n"
    "    heddle layers --json      for programs\n"
    "    heddle layers --markdown  the page docs/layers.md";

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

void add_layers(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("layers", kDescription);
  command.add_flag("--markdown", options->markdown, "write docs/layers.md");
  command.add_flag("--json", options->json, "write a list of objects, one a layer");
  command.on_parsed([options, &action] {
    if (options->markdown && options->json)
      throw command_line::Misuse("--markdown and --json exclude each other");
    action = [options] { return run(*options); };
  });
}

}  // namespace heddle::tool
