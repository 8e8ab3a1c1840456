// heddle model: what is in a file of save_model, as text, as a table of costs, and as a picture.
#include <charconv>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/layer.h>
#include <heddle/model.h>
#include <heddle/model_picture.h>
#include <heddle/ndarray.h>
#include <heddle/summary.h>

#include "command.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, svg;
  bool summary = false;
  std::vector<std::string> inputs;
};

// "2,1,28,28", or "2,20:i64" for another dtype than f32.
NDArray input_in(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string sizes = text.substr(0, colon);
  const DType dtype = colon == std::string::npos ? DType::f32 : dtype_from_name(text.substr(colon + 1));
  Shape shape;
  for (std::size_t at = 0; at < sizes.size();) {
    const std::size_t end = std::min(sizes.find(',', at), sizes.size());
    std::int64_t size = -1;
    const auto [rest, error] = std::from_chars(sizes.data() + at, sizes.data() + end, size);
    if (error != std::errc() || rest != sizes.data() + end || size < 0)
      throw command_line::Misuse("--input " + text + ": want sizes with commas, such as 1,28,28 or 1,20:i64");
    shape.push_back(size);
    at = end + 1;
  }
  return zeros(shape, dtype);
}

// Those of the command line or, of a Model, those that it names, with 1 for sizes that are not known.
std::vector<NDArray> inputs_of(const Options& options, const Module& module) {
  std::vector<NDArray> inputs;
  for (const std::string& one : options.inputs) inputs.push_back(input_in(one));
  if (!inputs.empty()) return inputs;
  const auto* const model = dynamic_cast<const Model*>(&module);
  if (!model) return inputs;
  for (const ModelInput& one : model->inputs()) {
    Shape shape = one.shape;
    for (int i = 0; i < shape.size(); ++i)
      if (shape[i] == kInferred) shape[i] = 1;
    inputs.push_back(zeros(shape, one.dtype));
  }
  return inputs;
}

constexpr const char* kDescription =
    "Says what is in a file that save_model has written.\n\n"
    "    heddle model net.safetensors                             layers and operators\n"
    "    heddle model net.safetensors --summary --input 1,1,28,28  and what they cost in a call\n"
    "    heddle model net.safetensors --svg net.svg               a picture of them\n\n"
    "--input gives the shape of an input, as often as there are inputs; a Model knows its own.";

int run(const Options& options) {
  const std::shared_ptr<Module> module = load_model(options.file);
  const std::vector<NDArray> inputs = inputs_of(options, *module);
  if (!options.svg.empty()) save_svg(options.svg, *module, inputs);
  if (options.summary) {
    if (inputs.empty())
      throw command_line::Misuse("--summary needs --input: this is no Model, which knows its inputs");
    std::cout << summarize(*module, inputs);
  } else if (options.svg.empty()) {
    std::cout << *module << "\n";
  }
  return 0;
}

}  // namespace

void add_model(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("model", kDescription);
  command.add_option("file", options->file, "a file of save_model").type_name("FILE").required();
  command.add_option("--svg", options->svg, "write a picture to this file").type_name("FILE");
  command.add_flag("--summary", options->summary, "print a table of shapes, parameters and multiply-adds");
  command.add_option("--input", options->inputs, "the shape of an input, and its dtype if it is not f32")
      .type_name("SHAPE[:DTYPE]")
      .one_value();
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
