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
                  "end with status 1 if the result is worse than this; 0: that of docs/examples.md")
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

heddle::FitOptions fit_options(const Options& options, int epochs) {
  heddle::FitOptions fitting{.epochs = epochs, .seed = options.seed};
  if (!options.logdir.empty()) fitting.callbacks.push_back(heddle::TensorBoard(options.logdir));
  if (!options.save.empty()) {
    fitting.callbacks.push_back(heddle::ModelCheckpoint(options.save));
    fitting.resume = options.save;
  }
  return fitting;
}

void draw_curves(const std::string& path, const std::map<std::string, std::vector<double>>& curves,
                 const std::vector<std::string>& notes) {
  if (path.empty()) return;
  const std::vector<std::string> colors = {"#4878a8", "#d1602c", "#4a9b5b", "#8a5ba8", "#b89b2c"};
  double low = INFINITY, high = -INFINITY;
  std::size_t epochs = 2;
  for (const auto& [name, values] : curves) {
    epochs = std::max(epochs, values.size());
    for (double value : values) low = std::min(low, value), high = std::max(high, value);
  }
  if (high < low) return;  // a run that was complete before
  if (!(high > low)) high = low + 1;
  svg::Picture picture(1, static_cast<double>(epochs), low, high, 560, 320, static_cast<int>(notes.size()));
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
  for (const std::string& note : notes) picture.note(note);
  if (picture.save(path)) std::printf("the picture is %s\n", path.c_str());
}

void draw_confusion(const std::string& path, const heddle::NDArray& counts,
                    const std::vector<std::string>& names) {
  if (path.empty()) return;
  const std::vector<double> values = heddle::cast(counts, heddle::DType::f64).to_vector<double>();
  const std::size_t n = names.size();
  const double size = static_cast<double>(n), labels = 0.25 * size;  // room on the left, for names of rows
  const int pixels = 12 * static_cast<int>(n);
  svg::Picture picture(-labels, size, 0, size, pixels + pixels / 4 + 64, pixels + 64);
  for (std::size_t row = 0; row < n; ++row) {
    double sum = 0;
    for (std::size_t column = 0; column < n; ++column) sum += values[row * n + column];
    const double y = size - 1 - static_cast<double>(row);
    picture.text(-labels, y + 0.2, names[row]);
    for (std::size_t column = 0; column < n; ++column) {
      const double share = sum > 0 ? values[row * n + column] / sum : 0;
      if (share < 0.01) continue;
      char color[8];
      const int level = static_cast<int>(235 * (1 - share));
      std::snprintf(color, sizeof color, "#%02x%02x%02x", level, level + 10, 255 - 100 * (235 - level) / 235);
      picture.cell(static_cast<double>(column), y, 1, color);
    }
  }
  if (picture.save(path)) std::printf("the picture is %s\n", path.c_str());
}
