#include "support.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>

#include <heddle/heddle.h>

#include "../svg.h"
#include "command_line.h"

namespace {

void add_options(heddle::command_line::Program& program, Options& options, const Description& description) {
  program.add_flag("--quick", options.quick, "a short run on small data, which shows that all works");
  program
      .add_option("--data", options.data,
                  "what to learn from [" + description.full_data + "; with --quick a small part of it]")
      .type_name("PATH");
  program.add_option("--epochs", options.epochs, "passes over the data; 0: as many as the full run needs")
      .type_name("N")
      .range(0, 100000)
      .show_default();
  program.add_option("--logdir", options.logdir, "write records for TensorBoard into this folder")
      .type_name("DIR");
  program.add_option("--picture", options.picture, "write a picture to this SVG file").type_name("FILE");
  program
      .add_option(
          "--save", options.save,
          "write a checkpoint to this file after each epoch and at Ctrl-C; go on from it if it is there")
      .type_name("FILE");
  program.add_option("--seed", options.seed, "of weights, order and noise: one seed, one result")
      .type_name("N")
      .show_default();
  program
      .add_option("--wanted", options.wanted,
                  "end with status 1 below this result; 0: that of docs/examples.md")
      .type_name("RESULT");
}

}  // namespace

int run_example(int argc, char** argv, const Description& description,
                const std::function<bool(const Options&)>& run) {
  heddle::command_line::Program program(description.name, description.text);
  Options options;
  add_options(program, options, description);
  program.footer(
      "\nThe data of a full run:  " + description.how_to_get +
      "\nExit status: 0 done, 1 failed or a result that is not good enough, 2 bad options or data.");
  if (const auto status = program.parse(argc, argv)) return *status;
  if (options.data.empty()) {
    options.data = options.quick ? description.quick_data : description.full_data;
  }
  if (!std::filesystem::exists(options.data)) {
    std::fprintf(
        stderr,
        "%s: %s: no such file or folder\nGet the data with: %s\nor say where they are with --data PATH.\n",
        description.name.c_str(), options.data.c_str(), description.how_to_get.c_str());
    return 2;
  }
  try {
    return run(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", description.name.c_str(), error.what());
    return 1;
  }
}

void draw_curves(const std::string& path, const std::map<std::string, std::vector<double>>& curves) {
  if (path.empty()) return;
  const std::vector<std::string> colors = {"#4878a8", "#d1602c", "#4a9b5b", "#8a5ba8", "#b89b2c"};
  double low = INFINITY, high = -INFINITY;
  std::size_t epochs = 2;
  for (const auto& [name, values] : curves) {
    epochs = std::max(epochs, values.size());
    for (double value : values) low = std::min(low, value), high = std::max(high, value);
  }
  if (!(high > low)) high = low + 1;
  svg::Picture picture(1, static_cast<double>(epochs), low, high, 560, 320);
  picture.axes();
  std::size_t index = 0;
  for (const auto& [name, values] : curves) {
    std::vector<double> x(values.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i + 1);
    const std::string& color = colors[index % colors.size()];
    picture.line(x, values, color);
    if (values.size() == 1) picture.point(1, values[0], color, 4);
    picture.text(1 + 0.7 * static_cast<double>(epochs - 1),
                 high - (high - low) * 0.06 * static_cast<double>(++index), name, color);
  }
  if (picture.save(path)) std::printf("curves are in %s\n", path.c_str());
}
